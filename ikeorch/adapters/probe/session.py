"""One tunnel's probes on real sockets: sends the rounds that `core.liveness` asks for, and reflects the peer's."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from ikeorch.adapters.probe import echo, sockets
from ikeorch.adapters.probe.full_size import FullSizeProbes
from ikeorch.adapters.probe.stamp import (
    Probe,
    Reply,
    Sender,
    decode_probe,
    decode_reply,
    encode_probe,
    encode_reply,
    ntp_timestamp,
)
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import NAME_PATTERN, TunnelId
from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.liveness import Answer, Liveness
from ikeorch.core.units import Seconds

SPARE = 0.4
"""Seconds for which the peer's wish holds; it is repeated in every probe."""

_NAME = re.compile(NAME_PATTERN)

_log = structlog.get_logger("ikeorch.probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """One tunnel as the prober sees it.

    Attributes:
        interface: the XFRM interface.
        local: our inner address.
        remote: the peer's inner address.
        us: our own name and the index; a rename makes no other target.
        peer: the peer's name and the index; who must answer; a rename makes no other target.
        known: names of all peers and our own: who carries another one of them is not this peer.
        also: what the peer called itself when a tunnel to it was proven, "" where that is the name above.
        spare: ask the peer to send nothing else into it; no other target for that.
        proven: it stands in a group, so an answer with that name has come before; no other target for that.
        mtu: bytes; packets of this size are probed too, 0 for none; no other target for another one.
    """

    interface: str
    local: IPAddress
    remote: IPAddress
    us: Sender = field(compare=False)
    peer: Sender = field(compare=False)
    known: frozenset[str] = field(default=frozenset(), compare=False)
    also: str = field(default="", compare=False)
    spare: bool = field(default=False, compare=False)
    proven: bool = field(default=False, compare=False)
    mtu: int = field(default=0, compare=False)

    def is_counterpart(self, sender: Sender, *, proven: bool) -> bool:
        """Whether a packet is from the other end of this tunnel.

        Args:
            sender: who it says that it is from.
            proven: the right name has come through it before. Then a name that nobody else has is this peer's other
                one: the two ends are renamed one after the other, and IKE has proved the identity.
        """
        if sender == self.peer:
            return True
        unknown = sender.gateway not in self.known and _NAME.fullmatch(sender.gateway) is not None
        return unknown and sender.index == self.peer.index and (proven or sender.gateway == self.also)


class Session:
    """Probes one tunnel until it is closed.

    Args:
        tunnel: its name.
        target: how it is reached.
        interval: seconds between two rounds.
        on_change: called when the verdict, or who answers, changed.
    """

    def __init__(
        self, tunnel: TunnelId, target: ProbeTarget, *, interval: Seconds, on_change: Callable[[TunnelId], None]
    ) -> None:
        self.tunnel = tunnel
        self.target = target
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        # the tunnels of a gateway are spread over the interval
        begin = Seconds(time.monotonic() + random.random() * interval)  # noqa: S311
        self._liveness = Liveness(begin, interval=interval, proven=target.proven)
        self._identifier = int.from_bytes(os.urandom(2))
        self._round = 0
        self._spare_until = 0.0
        self._sender: socket.socket | None = None
        self._reflector: socket.socket | None = None
        self._echo: socket.socket | None = None
        self._full_size: FullSizeProbes | None = None
        self._if_index = 0
        self._calls_itself = ""
        self._told: tuple[object, ...] = ()
        self._timer = self._loop.call_at(self._liveness.due, self._tick)

    def state(self) -> ProbeState:
        """What is known now."""
        now = time.monotonic()
        full = self._full_size
        return replace(
            self._liveness.state(now),
            spare=now < self._spare_until,
            mtu=full.mtu if full else 0,
            fits=full.fits if full else None,
            calls_itself=self._calls_itself,
        )

    def close(self) -> None:
        """Stop."""
        self._timer.cancel()
        self._close_sockets()

    def _tick(self) -> None:
        """Take in all that has arrived, then judge what is missing and send what is due."""
        for read in (self._read_replies, self._read_echoes):
            read()
        number = self._liveness.advance(time.monotonic())
        if number is not None:
            self._send_round(number)
            self._probe_full_size()
        self._timer = self._loop.call_at(self._liveness.due, self._tick)
        self._tell()

    def _tell(self) -> None:
        state = self.state()
        now = (
            state.verdict,
            state.reflector_silent,
            state.mispaired,
            state.spare,
            state.mtu,
            state.fits,
            state.calls_itself,
        )
        if now != self._told:
            self._told = now
            self._on_change(self.tunnel)

    def _send_round(self, number: int) -> None:
        """A missing interface, address or SA, or a full queue, is silence, not an error."""
        self._round = number
        try:
            self._open_if_needed()
            assert self._sender is not None
            probe = Probe(
                sequence=number & 0xFFFFFFFF,
                timestamp=ntp_timestamp(time.time()),
                sender=self.target.us,
                spare=self.target.spare,
            )
            self._sender.send(encode_probe(probe))
        except OSError as error:
            if error.errno not in sockets.FULL:
                self._close_sockets()
        self._send_echo(number)

    def _probe_full_size(self) -> None:
        """Only where small ones come back, from the peer's prober."""
        target = self.target
        full = self._full_size
        if full is not None and (full.mtu, full.us) != (target.mtu, target.us):
            full.close()
            self._full_size = None
        if self._full_size is None and target.mtu:
            self._full_size = FullSizeProbes(
                target.interface, target.local, target.remote, us=target.us, is_peer=self._is_peer, mtu=target.mtu
            )
        if self._full_size is not None:
            self._full_size.send_due(alive=self._liveness.verdict is Verdict.UP and not self._liveness.echoing)

    def _send_echo(self, number: int) -> None:
        if not self._liveness.echoing:
            self._close(self._echo)
            self._echo = None
            return
        version = self.target.local.version
        try:
            if self._echo is None:
                self._echo = sockets.open_echo(self.target.interface, self.target.local, self.target.remote)
                self._loop.add_reader(self._echo.fileno(), self._read_echoes)
            self._echo.send(echo.encode_request(version, self._identifier, number & 0xFFFF))
        except OSError as error:
            if error.errno == errno.EPERM:
                _log.error("echo_not_permitted", tunnel=str(self.tunnel), hint="the prober needs CAP_NET_RAW")
            if error.errno not in sockets.FULL:
                self._close(self._echo)
                self._echo = None

    def _open_if_needed(self) -> None:
        """Open the sockets, anew when the interface is not the one that they were bound to."""
        target = self.target
        index = socket.if_nametoindex(target.interface)
        if self._sender is not None and index == self._if_index:
            return
        self._close_sockets()
        self._reflector = sockets.open_reflector(target.interface, target.local)
        self._loop.add_reader(self._reflector.fileno(), self._reflect)
        self._sender = sockets.open_sender(target.interface, target.local, target.remote)
        self._loop.add_reader(self._sender.fileno(), self._read_replies)
        self._if_index = index

    def _close_sockets(self) -> None:
        if self._full_size is not None:
            self._full_size.close()
        self._close(self._sender)
        self._sender = None
        self._close(self._reflector)
        self._reflector = None
        self._close(self._echo)
        self._echo = None

    def _close(self, opened: socket.socket | None) -> None:
        """Close one of them."""
        if opened is not None:
            self._loop.remove_reader(opened.fileno())
            opened.close()

    def _read_replies(self) -> None:
        for packet, ancillary, _ in sockets.received(self._sender):
            reply = decode_reply(packet) if sockets.hop_limit(ancillary) == sockets.DIRECT else None
            if reply is None or not self._is_peer(reply.reflector):
                continue
            arrived = time.monotonic() - sockets.waited(ancillary)
            number = self._number_of(reply.probe_sequence, 32)
            self._liveness.answered(number, Answer.STAMP, arrived, dwell=reply.dwell_seconds)
        self._tell()

    def _read_echoes(self) -> None:
        for packet, ancillary, _ in sockets.received(self._echo):
            sequence = echo.decode_reply(self.target.local.version, packet, self._identifier)
            if sequence is not None:
                arrived = time.monotonic() - sockets.waited(ancillary)
                self._liveness.answered(self._number_of(sequence, 16), Answer.ECHO, arrived)
        self._tell()

    def _number_of(self, sequence: int, bits: int) -> int:
        """The newest round that has this sequence number on the wire."""
        return self._round - ((self._round - sequence) % (1 << bits))

    def _reflect(self) -> None:
        reflector = self._reflector
        if reflector is None:
            return
        for packet, ancillary, address in sockets.received(reflector):
            received = ntp_timestamp(time.time() - sockets.waited(ancillary))
            probe = decode_probe(packet) if sockets.hop_limit(ancillary) == sockets.DIRECT else None
            if probe is None:
                continue
            if not self._is_peer(probe.sender):
                self._misplaced(probe.sender)
                continue
            if probe.spare:
                self._spare_until = time.monotonic() + SPARE
                self._tell()
            reply = Reply(
                sequence=probe.sequence,
                sent=ntp_timestamp(time.time()),
                received=received,
                probe_sequence=probe.sequence,
                probe_timestamp=probe.timestamp,
                reflector=self.target.us,
            )
            with contextlib.suppress(OSError):
                reflector.sendto(encode_reply(reply, ttl=sockets.hop_limit(ancillary)), address)

    def _is_peer(self, sender: Sender) -> bool:
        """Whether a packet is from the other end of this tunnel; another name of it is told."""
        right = self.target.is_counterpart(sender, proven=self._liveness.proven)
        if right:
            self._calls_itself = "" if sender == self.target.peer else sender.gateway
        return right

    def _misplaced(self, sender: Sender) -> None:
        """A packet of another tunnel came out of this one."""
        gateway = sender.gateway[:32] if sender.gateway.isprintable() else "?"
        name = f"{gateway}/{sender.index}"
        self._liveness.misplaced(name, time.monotonic())
        self._tell()
