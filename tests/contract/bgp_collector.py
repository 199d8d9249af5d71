"""A BGP peer for tests: takes sessions, answers OPEN and KEEPALIVE, decodes and counts UPDATEs.

Written from RFC 4271, 4760, 4724 and 4360, and knows only what the tests look at: unicast prefixes, next hops and the
raw extended communities. It never announces anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

MARKER = b"\xff" * 16
OPEN, UPDATE, NOTIFICATION, KEEPALIVE = 1, 2, 3, 4
LIMIT = 100_000
"""UPDATEs kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What the peer holds for a prefix."""

    next_hop: IPv4Address | IPv6Address
    communities: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One UPDATE message."""

    announced: tuple[IPv4Network | IPv6Network, ...] = ()
    withdrawn: tuple[IPv4Network | IPv6Network, ...] = ()
    route: Route | None = None

    @property
    def end_of_rib(self) -> bool:
        """Neither announces nor withdraws (RFC 4724, section 2)."""
        return not self.announced and not self.withdrawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """The other end's OPEN."""

    asn: int
    hold_time: int
    router_id: IPv4Address
    capabilities: dict[int, bytes]


@dataclass(slots=True, kw_only=True)
class Collector:
    """Listens on one address; `routes` and `updates` are what it was told."""

    address: str
    asn: int = 65001
    router_id: str = "10.255.255.1"
    port: int = 0
    refuse: tuple[int, int, bytes] | None = None
    """Code, subcode and data of a NOTIFICATION that answers every OPEN."""
    routes: dict[IPv4Network | IPv6Network, Route] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)
    opens: list[Open] = field(default_factory=list)
    notifications: list[tuple[int, int]] = field(default_factory=list)
    established: int = 0
    """Sessions that came up so far."""
    open_now: int = 0
    _server: asyncio.Server | None = None
    _dialled: asyncio.Task[None] | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, self.address, self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and end the sessions."""
        if self._server is not None:
            self._server.close()
        self.drop()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None
        if self._dialled is not None:
            await self._dialled

    async def dial(self, address: str, port: int) -> None:
        """Connect, as the active end of a session."""
        reader, writer = await asyncio.open_connection(address, port, local_addr=(self.address, 0))
        self._dialled = asyncio.create_task(self._serve(reader, writer))

    def drop(self) -> None:
        """End the sessions without a NOTIFICATION, as a lost link does."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def notify(self, code: int, subcode: int, data: bytes = b"") -> None:
        """End the sessions with a NOTIFICATION."""
        for writer in tuple(self._writers):
            writer.write(_message(NOTIFICATION, bytes([code, subcode]) + data))
            writer.close()

    @property
    def carrying(self) -> int:
        """UPDATEs that announced or withdrew something."""
        return sum(not update.end_of_rib for update in self.updates)

    @property
    def ends_of_rib(self) -> int:
        """End-of-RIB markers so far."""
        return sum(update.end_of_rib for update in self.updates)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        up = False
        try:
            while True:
                kind, body = await _read_message(reader)
                if kind == OPEN:
                    self.opens.append(_decode_open(body))
                    if self.refuse is not None:
                        code, subcode, data = self.refuse
                        writer.write(_message(NOTIFICATION, bytes([code, subcode]) + data))
                        await writer.drain()
                        return
                    writer.write(_message(OPEN, self._open()) + _message(KEEPALIVE))
                elif kind == KEEPALIVE:
                    if not up:
                        up = True
                        self.established += 1
                        self.open_now += 1
                        self.routes.clear()
                    else:
                        writer.write(_message(KEEPALIVE))
                elif kind == UPDATE:
                    self._take(_decode_update(body))
                elif kind == NOTIFICATION:
                    self.notifications.append((body[0], body[1]))
                    return
        except (OSError, EOFError):
            pass
        finally:
            self.open_now -= up
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _take(self, update: Update) -> None:
        if len(self.updates) < LIMIT:
            self.updates.append(update)
        for prefix in update.withdrawn:
            self.routes.pop(prefix, None)
        for prefix in update.announced:
            assert update.route is not None
            self.routes[prefix] = update.route

    def _open(self) -> bytes:
        family = 1 if ip_address(self.address).version == 4 else 2
        capabilities = _tlv(1, struct.pack("!HBB", family, 0, 1)) + _tlv(65, struct.pack("!I", self.asn))
        if self.opens[-1].capabilities.get(64):
            capabilities += _tlv(64, struct.pack("!HHBB", 120, family, 1, 0))
        parameters = _tlv(2, capabilities)
        asn = min(self.asn, 23456 if self.asn > 65535 else 65535)
        header = struct.pack("!BHH4sB", 4, asn, 90, IPv4Address(self.router_id).packed, len(parameters))
        return header + parameters


def _tlv(kind: int, value: bytes) -> bytes:
    return bytes([kind, len(value)]) + value


def _message(kind: int, body: bytes = b"") -> bytes:
    return MARKER + struct.pack("!HB", 19 + len(body), kind) + body


async def _read_message(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    header = await reader.readexactly(19)
    length, kind = struct.unpack("!HB", header[16:])
    assert header.startswith(MARKER)
    return kind, await reader.readexactly(length - 19)


def _decode_open(body: bytes) -> Open:
    _, asn, hold_time, router_id, length = struct.unpack("!BHH4sB", body[:10])
    capabilities: dict[int, bytes] = {}
    for kind, parameter in _each_tlv(body[10 : 10 + length]):
        if kind == 2:
            capabilities.update(_each_tlv(parameter))
    if 65 in capabilities:
        (asn,) = struct.unpack("!I", capabilities[65])
    return Open(asn=asn, hold_time=hold_time, router_id=IPv4Address(router_id), capabilities=capabilities)


def _each_tlv(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        length = data[1]
        yield data[0], data[2 : 2 + length]
        data = data[2 + length :]


def _prefixes(data: bytes, version: int) -> Iterator[IPv4Network | IPv6Network]:
    while data:
        bits = data[0]
        size = (bits + 7) // 8
        raw = data[1 : 1 + size]
        if version == 4:
            yield IPv4Network((raw.ljust(4, b"\0"), bits))
        else:
            yield IPv6Network((raw.ljust(16, b"\0"), bits))
        data = data[1 + size :]


def _decode_update(body: bytes) -> Update:
    (length,) = struct.unpack("!H", body[:2])
    withdrawn = list(_prefixes(body[2 : 2 + length], 4))
    body = body[2 + length :]
    (length,) = struct.unpack("!H", body[:2])
    attributes, announced = body[2 : 2 + length], list(_prefixes(body[2 + length :], 4))
    next_hop: IPv4Address | IPv6Address | None = None
    communities: tuple[bytes, ...] = ()
    while attributes:
        flags, kind = attributes[:2]
        wide = bool(flags & 0x10)
        size = struct.unpack("!H", attributes[2:4])[0] if wide else attributes[2]
        start = 4 if wide else 3
        value, attributes = attributes[start : start + size], attributes[start + size :]
        if kind == 3:
            next_hop = IPv4Address(value)
        elif kind == 14:
            hops = value[3]
            next_hop = IPv6Address(value[4:20])
            announced += _prefixes(value[5 + hops :], 6)
        elif kind == 15:
            withdrawn += _prefixes(value[3:], 6)
        elif kind == 16:
            communities = tuple(value[at : at + 8] for at in range(0, len(value), 8))
    route = Route(next_hop=next_hop, communities=communities) if announced and next_hop is not None else None
    return Update(announced=tuple(announced), withdrawn=tuple(withdrawn), route=route)
