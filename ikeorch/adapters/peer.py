"""Who is at the other end of a unix socket, as the kernel says (SO_PEERCRED, unix(7))."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")


class Peer(NamedTuple):
    """A process at the time when it connected."""

    pid: int
    uid: int
    gid: int


def peer_of(transport: asyncio.BaseTransport | None) -> Peer | None:
    """The process at the other end; None without a connection."""
    connected: socket.socket | None = transport.get_extra_info("socket") if transport is not None else None
    if connected is None:
        return None
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))
