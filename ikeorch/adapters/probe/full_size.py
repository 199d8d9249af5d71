"""A tunnel's full-sized probes on a socket of their own, so that their answers are told from the small ones'."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable

from ikeorch.adapters.probe import sockets
from ikeorch.adapters.probe.stamp import Probe, Sender, decode_reply, encode_probe, ntp_timestamp
from ikeorch.core.full_size import FullSize
from ikeorch.core.kernel_state import IPAddress

HEADERS = {4: 20 + 8, 6: 40 + 8}
"""Bytes of IP and UDP header."""


class FullSizeProbes:
    """Sends them while it is asked to.

    Args:
        interface: the XFRM interface.
        local: our inner address.
        remote: the peer's.
        us: our own name and the index.
        is_peer: whether an answer is the other end's.
        mtu: bytes of the IP packet.
    """

    def __init__(
        self,
        interface: str,
        local: IPAddress,
        remote: IPAddress,
        *,
        us: Sender,
        is_peer: Callable[[Sender], bool],
        mtu: int,
    ) -> None:
        self._interface, self._local, self._remote = interface, local, remote
        self.us, self._is_peer = us, is_peer
        """The name that they carry."""
        self._check = FullSize(mtu, time.monotonic())
        self._opened: socket.socket | None = None

    @property
    def mtu(self) -> int:
        """Of what size they are, bytes."""
        return self._check.mtu

    @property
    def fits(self) -> bool | None:
        """Whether packets of this size come through, None while that is not known."""
        return self._check.fits

    def send_due(self, *, alive: bool) -> None:
        """Send one if it is time; a missing interface is silence.

        Args:
            alive: small probes come back.
        """
        self._read()
        number = self._check.next(time.monotonic(), alive=alive)
        if number is None:
            return
        try:
            if self._opened is None:
                self._opened = sockets.open_sender(self._interface, self._local, self._remote)
                sockets.forbid_fragments(self._opened)
                asyncio.get_running_loop().add_reader(self._opened.fileno(), self._read)
            probe = Probe(sequence=number, timestamp=ntp_timestamp(time.time()), sender=self.us)
            self._opened.send(encode_probe(probe, length=self.mtu - HEADERS[self._local.version]))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                self._check.refused(number)
            elif error.errno not in sockets.FULL:
                self.close()

    def close(self) -> None:
        """Close the socket."""
        if self._opened is not None:
            asyncio.get_running_loop().remove_reader(self._opened.fileno())
            self._opened.close()
            self._opened = None

    def _read(self) -> None:
        for packet, ancillary, _ in sockets.received(self._opened):
            reply = decode_reply(packet) if sockets.hop_limit(ancillary) == sockets.DIRECT else None
            if reply is not None and self._is_peer(reply.reflector):
                self._check.answered(reply.probe_sequence)
