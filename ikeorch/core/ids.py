"""Names of things, and how a tunnel's name appears in each system.

A tunnel is known as ``gw-b/0`` to people, as connection and child ``ikeorch.gw-b.0`` to charon and as interface
alias ``ikeorch:gw-b/0`` to the kernel. The last two are also the marks of ownership: what does not carry them is
not ours and is never touched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CONNECTION_PREFIX = "ikeorch."
ALIAS_PREFIX = "ikeorch:"
INTERFACE_PREFIX = "ikx"
ROUTE_PROTOCOL = 73
"""Our number in rtm_protocol, nh_protocol and FRA_PROTOCOL; unassigned in the kernel's rtnetlink.h."""

NAME_PATTERN = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
"""Names of gateways, peers, sites and uplinks: a DNS label of at most 32 characters, lower case."""

_CONNECTION = re.compile(rf"ikeorch\.({NAME_PATTERN})\.(0|[1-9][0-9]{{0,2}})")
_TUNNEL = re.compile(rf"({NAME_PATTERN})/(0|[1-9][0-9]{{0,2}})")
MAX_TUNNELS_PER_BUNDLE = 256
MAX_IF_ID = 4294967293
"""The two ids above mean %unique and %unique-dir to charon (ipsec_types.h); 0 means none."""


@dataclass(frozen=True, slots=True, order=True)
class TunnelId:
    """One tunnel of a bundle.

    Attributes:
        peer: the peer's configured name.
        index: 0 to 255, the same on both ends.
    """

    peer: str
    index: int

    def __str__(self) -> str:
        """The name that people use, ``gw-b/0``."""
        return f"{self.peer}/{self.index}"

    @property
    def connection(self) -> str:
        """The name of charon's connection and child, ``ikeorch.gw-b.0``."""
        return f"{CONNECTION_PREFIX}{self.peer}.{self.index}"

    @property
    def alias(self) -> str:
        """The interface alias that marks the XFRM interface as ours."""
        return f"{ALIAS_PREFIX}{self}"

    @classmethod
    def from_connection(cls, name: str) -> TunnelId | None:
        """The tunnel of a charon connection, or None when the connection is not ours."""
        return cls._from_match(_CONNECTION.fullmatch(name))

    @classmethod
    def from_alias(cls, alias: str) -> TunnelId | None:
        """The tunnel of an interface alias, or None when the interface is not ours."""
        return cls.parse(alias.removeprefix(ALIAS_PREFIX)) if alias.startswith(ALIAS_PREFIX) else None

    @classmethod
    def parse(cls, text: str) -> TunnelId | None:
        """Read ``gw-b/0``; None when the text is no tunnel's name."""
        return cls._from_match(_TUNNEL.fullmatch(text))

    @classmethod
    def _from_match(cls, match: re.Match[str] | None) -> TunnelId | None:
        if match is None or int(match[2]) >= MAX_TUNNELS_PER_BUNDLE:
            return None
        return cls(match[1], int(match[2]))
