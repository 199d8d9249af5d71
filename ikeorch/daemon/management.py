"""Whether the operator who made a change can still be reached.

No packet is sent: the kernel is asked which of its addresses it would use towards the operator, which it answers when
a datagram socket is connected. A change that takes that route away, or leads it into a tunnel, locks the operator out.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Container

from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.units import Seconds

PATIENCE = Seconds(5.0)
"""Seconds that the way may be away; routes are replaced one after the other."""
DISCARD = 9


class ManagementPath:
    """The way to one operator."""

    def __init__(self) -> None:
        self._operator: IPAddress | None = None
        self._before: str | None = None
        self._lost_since: float | None = None

    def watch(self, operator: IPAddress | None) -> None:
        """Remember the way to an operator before a change; None for one at the console, who needs none."""
        self._operator = operator
        self._before = None if operator is None else local_address(operator)
        self._lost_since = None

    def lost(self, inner: Container[str]) -> str | None:
        """Why the operator cannot be reached any more, once that has been so for some seconds.

        Args:
            inner: our addresses inside of tunnels, as text.
        """
        if self._operator is None or self._before is None:
            return None
        now = local_address(self._operator)
        if now is not None and (now == self._before or now not in inner):
            self._lost_since = None
            return None
        self._lost_since = self._lost_since or time.monotonic()
        if time.monotonic() - self._lost_since < PATIENCE:
            return None
        how = "there is no route any more" if now is None else "packets go into a tunnel now"
        return f"the management path to {self._operator} is lost: {how}"


def local_address(operator: IPAddress) -> str | None:
    """Our address towards an operator, None where no route leads there."""
    family = socket.AF_INET if operator.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as opened:
        try:
            opened.connect((str(operator), DISCARD))
        except OSError:
            return None
        return str(opened.getsockname()[0])
