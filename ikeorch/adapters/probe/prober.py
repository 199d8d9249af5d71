"""Sends probes into every tunnel, reflects the peer's, and keeps what was seen.

Every socket is bound to its tunnel's XFRM interface: what is sent there goes into that tunnel, and what is read there
came out of it. Probes prove that a tunnel forwards; what follows from silence is decided in `ikeorch.core.health`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from ikeorch.adapters.probe.stamp import (
    PORT,
    Probe,
    Reply,
    Sender,
    decode_probe,
    decode_reply,
    encode_probe,
    encode_reply,
    ntp_timestamp,
)
from ikeorch.core.health import ProbeState
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.units import Seconds

PROBE_INTERVAL = Seconds(0.2)
REMEMBERED = 64
"""Probes whose reply is still waited for; an older one's is too late to mean anything."""
RTT_GAIN = 1 / 8
"""RFC 6298 section 2.3."""
BATCH = 64
"""Packets read from one socket before the others have their turn."""
RECEIVE_SIZE = 2048
ANCILLARY_SIZE = 256
SO_TIMESTAMPNS = 35
"""asm-generic/socket.h; with it the kernel tells when a packet arrived, whenever we come to read it."""
LONGEST_WAIT = 10.0
IP_RECVTTL = 12
"""linux/in.h; Python's socket module does not name it."""

_TIMESPEC = struct.Struct("=q q")
_log = structlog.get_logger("ikeorch.probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """One tunnel as the prober sees it.

    Attributes:
        interface: the XFRM interface.
        local: our inner address.
        remote: the peer's inner address.
        us: our own name and the index.
        peer: the peer's name and the index; who must answer.
    """

    interface: str
    local: IPAddress
    remote: IPAddress
    us: Sender
    peer: Sender


class Prober:
    """Probes a set of tunnels.

    Args:
        on_change: called with a tunnel whose first good reply arrived, or that got a misplaced packet.
        interval: seconds between two probes of one tunnel.
    """

    def __init__(self, on_change: Callable[[TunnelId], None], *, interval: Seconds = PROBE_INTERVAL) -> None:
        self._on_change = on_change
        self._interval = interval
        self._sessions: dict[TunnelId, _Session] = {}

    def states(self) -> dict[TunnelId, ProbeState]:
        """What has been seen of each tunnel."""
        return {tunnel: session.state for tunnel, session in self._sessions.items()}

    def set_targets(self, targets: Mapping[TunnelId, ProbeTarget]) -> None:
        """Probe exactly these; sessions whose target is unchanged go on undisturbed."""
        for tunnel in [tunnel for tunnel, session in self._sessions.items() if targets.get(tunnel) != session.target]:
            self._sessions.pop(tunnel).close()
        for tunnel, target in targets.items():
            if tunnel not in self._sessions:
                self._sessions[tunnel] = _Session(tunnel, target, self._on_change)

    def close(self) -> None:
        """Close all sockets; the next `set_targets` opens new ones."""
        self.set_targets({})

    async def run(self) -> None:
        """Probe for ever, one round an interval; the tunnels of a round are spread over it."""
        while True:
            began = time.monotonic()
            sessions = list(self._sessions.values())
            for position, session in enumerate(sessions):
                due = began + self._interval * position / max(len(sessions), 1)
                delay = due - time.monotonic()
                if delay > 0.002:
                    await asyncio.sleep(delay)
                # the targets may have changed while this round slept
                if self._sessions.get(session.tunnel) is session:
                    session.probe()
            await asyncio.sleep(max(0.001, began + self._interval - time.monotonic()))


class _Session:
    """One tunnel's two sockets: the sender's, connected, and the reflector's."""

    def __init__(self, tunnel: TunnelId, target: ProbeTarget, on_change: Callable[[TunnelId], None]) -> None:
        self.tunnel = tunnel
        self.target = target
        self.state = ProbeState()
        self._on_change = on_change
        self._sequence = 0
        self._waiting: dict[int, float] = {}
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        self._if_index = 0

    def probe(self) -> None:
        """Send one probe; a missing interface or a full queue is silence, not an error."""
        try:
            self._open_if_needed()
            assert self._sockets is not None
            self._sequence = (self._sequence + 1) & 0xFFFFFFFF
            packet = Probe(sequence=self._sequence, timestamp=ntp_timestamp(time.time()), sender=self.target.us)
            self._waiting[self._sequence] = time.monotonic()
            if len(self._waiting) > REMEMBERED:
                del self._waiting[next(iter(self._waiting))]
            self.state = replace(self.state, sent=self.state.sent + 1)
            self._sockets[0].send(encode_probe(packet))
        except OSError as error:
            if error.errno not in {errno.EAGAIN, errno.ENOBUFS}:
                self.close()

    def close(self) -> None:
        """Close both sockets; the next probe opens new ones."""
        if self._sockets is not None:
            loop = asyncio.get_running_loop()
            for each in self._sockets:
                loop.remove_reader(each.fileno())
                each.close()
        self._sockets = None

    def _open_if_needed(self) -> None:
        """Open the sockets, anew when the interface is not the one that they were bound to."""
        index = socket.if_nametoindex(self.target.interface)
        if self._sockets is not None:
            if index == self._if_index:
                return
            self.close()
        family = socket.AF_INET if self.target.local.version == 4 else socket.AF_INET6
        with contextlib.ExitStack() as stack:
            sender = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
            reflector = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
            for each in (sender, reflector):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.target.interface.encode() + b"\0")
                each.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            sender.bind((str(self.target.local), 0))
            sender.connect((str(self.target.remote), PORT))
            if family == socket.AF_INET:
                reflector.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
            else:
                reflector.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                reflector.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
            # any address: a packet that came out of the wrong tunnel is to be seen, not dropped by the kernel
            reflector.bind(("", PORT))
            stack.pop_all()
        loop = asyncio.get_running_loop()
        loop.add_reader(sender.fileno(), self._read_replies, sender)
        loop.add_reader(reflector.fileno(), self._reflect, reflector)
        self._sockets = sender, reflector
        self._if_index = index

    def _read_replies(self, sender: socket.socket) -> None:
        for _ in range(BATCH):
            try:
                packet, ancillary, _, _ = sender.recvmsg(RECEIVE_SIZE, ANCILLARY_SIZE)
            except OSError:
                return
            now = time.monotonic() - _waited(ancillary)
            reply = decode_reply(packet)
            sent = self._waiting.pop(reply.probe_sequence, None) if reply else None
            if reply is None or sent is None or reply.reflector != self.target.peer:
                continue
            self._take_reply(max(0.0, now - sent - reply.dwell_seconds), now)

    def _take_reply(self, rtt: float, now: float) -> None:
        first = self.state.received == 0 or bool(self.state.mispaired)
        smooth = rtt if self.state.rtt is None else self.state.rtt + RTT_GAIN * (rtt - self.state.rtt)
        self.state = replace(
            self.state,
            received=self.state.received + 1,
            last_reply=Seconds(now),
            rtt=Seconds(smooth),
            mispaired="",
        )
        if first:
            self._on_change(self.tunnel)

    def _reflect(self, reflector: socket.socket) -> None:
        for _ in range(BATCH):
            try:
                packet, ancillary, _, address = reflector.recvmsg(RECEIVE_SIZE, ANCILLARY_SIZE)
            except OSError:
                return
            received = ntp_timestamp(time.time() - _waited(ancillary))
            probe = decode_probe(packet)
            if probe is None:
                continue
            if probe.sender != self.target.peer:
                self._misplaced(probe.sender)
                continue
            reply = Reply(
                sequence=probe.sequence,
                sent=ntp_timestamp(time.time()),
                received=received,
                probe_sequence=probe.sequence,
                probe_timestamp=probe.timestamp,
                reflector=self.target.us,
            )
            with contextlib.suppress(OSError):
                reflector.sendto(encode_reply(reply, ttl=_hop_limit(ancillary)), address)

    def _misplaced(self, sender: Sender) -> None:
        """A packet of another tunnel came out of this one: the SAs of the two ends are paired wrongly."""
        name = f"{sender.gateway[:32]}/{sender.index}"
        if self.state.mispaired != name:
            _log.warning("probe_misplaced", tunnel=str(self.tunnel), sender=name)
            self.state = replace(self.state, mispaired=name)
            self._on_change(self.tunnel)


def _waited(ancillary: list[tuple[int, int, bytes]]) -> float:
    """Seconds that a packet lay in its socket before we read it; 0 when the clock was set meanwhile."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            waited = time.time() - (seconds + nanoseconds / 1e9)
            return waited if 0 <= waited <= LONGEST_WAIT else 0.0
    return 0.0


def _hop_limit(ancillary: list[tuple[int, int, bytes]]) -> int:
    for level, kind, data in ancillary:
        if (level, kind) in {
            (socket.IPPROTO_IP, socket.IP_TTL),
            (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT),
        }:
            return int.from_bytes(data[:4], "little") & 0xFF
    return 0
