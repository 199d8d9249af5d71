"""The sockets of a tunnel's probes, each bound to the tunnel's XFRM interface.

What is sent there goes into that tunnel, and what is read there came out of it.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

from ikeorch.adapters.probe.echo import reply_type
from ikeorch.adapters.probe.stamp import PORT
from ikeorch.core.kernel_state import IPAddress

FULL = frozenset({errno.EAGAIN, errno.ENOBUFS})
"""A queue is full: as if the packet were lost."""
BATCH = 64
"""Packets read from one socket before the others have their turn."""
RECEIVE_SIZE = 2048
"""More than what is read of a packet; the padding of a larger one is cut off."""
ANCILLARY_SIZE = 256
LONGEST_WAIT = 10.0
DIRECT = 255
"""Hop limit of a packet that no router has forwarded, so that only the peer gateway itself can have sent it."""
SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; with it the kernel tells when a packet arrived, whenever we come to read it."""
IP_RECVTTL = 12
"""linux/in.h; like the three below Python's socket module does not name it."""
SOL_RAW = 255
ICMP_FILTER = 1
ICMPV6_FILTER = 1
IP_MTU_DISCOVER = 10
IPV6_MTU_DISCOVER = 23
PMTUDISC_PROBE = 3
"""linux/in.h, linux/in6.h: never fragment, and send what the device takes, whatever was learned of the path."""
"""linux/icmp.h, linux/icmpv6.h: which types a raw socket does not (version 4) or does (version 6) want to see."""
_TIMESPEC = struct.Struct("=q q")


def open_sender(interface: str, local: IPAddress, remote: IPAddress) -> socket.socket:
    """The session sender's: connected to the peer's reflector.

    Raises:
        OSError: the interface or the address is not there.
    """
    with contextlib.ExitStack() as stack:
        sender = stack.enter_context(_bound(interface, local, socket.SOCK_DGRAM, 0))
        sender.bind((str(local), 0))
        sender.connect((str(remote), PORT))
        stack.pop_all()
    return sender


def open_reflector(interface: str, local: IPAddress) -> socket.socket:
    """The session reflector's, on any address: a packet that came out of the wrong tunnel is to be seen.

    Raises:
        OSError: the interface is not there, or the port is taken.
    """
    with contextlib.ExitStack() as stack:
        reflector = stack.enter_context(_bound(interface, local, socket.SOCK_DGRAM, 0))
        if local.version == 6:
            reflector.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        reflector.bind(("", PORT))
        stack.pop_all()
    return reflector


def open_echo(interface: str, local: IPAddress, remote: IPAddress) -> socket.socket:
    """A raw socket that sees the peer's echo replies only.

    Raises:
        OSError: the interface or the address is not there, or CAP_NET_RAW is missing.
    """
    wanted = reply_type(local.version)
    with contextlib.ExitStack() as stack:
        if local.version == 4:
            echo = stack.enter_context(_bound(interface, local, socket.SOCK_RAW, socket.IPPROTO_ICMP))
            echo.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF ^ (1 << wanted)))
        else:
            echo = stack.enter_context(_bound(interface, local, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
            blocked = [0xFFFFFFFF] * 8
            blocked[wanted // 32] ^= 1 << (wanted % 32)
            echo.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *blocked))
        echo.bind((str(local), 0))
        echo.connect((str(remote), 0))
        stack.pop_all()
    return echo


def _bound(interface: str, local: IPAddress, kind: int, protocol: int) -> socket.socket:
    """A socket of the address's family, bound to the interface, with arrival times."""
    family = socket.AF_INET if local.version == 4 else socket.AF_INET6
    opened = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        if kind == socket.SOCK_DGRAM:
            _show_hop_limit(opened, family)
    except BaseException:
        opened.close()
        raise
    return opened


def _show_hop_limit(opened: socket.socket, family: int) -> None:
    """Send with the highest hop limit, and be told the one of each packet that arrives (RFC 5082)."""
    if family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, DIRECT)
        opened.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
    else:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, DIRECT)
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)


def forbid_fragments(opened: socket.socket) -> None:
    """Have each packet arrive as it is or not at all."""
    if opened.family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
    else:
        opened.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)


def received(opened: socket.socket | None) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]], Any]]:
    """What waits in a socket, at most a batch: packet, ancillary data and sender."""
    for _ in range(BATCH if opened is not None else 0):
        assert opened is not None
        try:
            packet, ancillary, _, address = opened.recvmsg(RECEIVE_SIZE, ANCILLARY_SIZE)
        except OSError:
            return
        yield packet, ancillary, address


def waited(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Seconds that a packet lay in its socket before we read it; 0 when the clock was set meanwhile."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            elapsed = time.time() - (seconds + nanoseconds / 1e9)
            return elapsed if 0 <= elapsed <= LONGEST_WAIT else 0.0
    return 0.0


def hop_limit(ancillary: list[tuple[int, int, bytes]]) -> int:
    """TTL or hop limit with which a packet arrived, 0 when the kernel does not say."""
    for level, kind, data in ancillary:
        if (level, kind) in {(socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)}:
            return int.from_bytes(data[:4], "little") & 0xFF
    return 0
