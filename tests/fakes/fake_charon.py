"""A charon of plain Python that speaks VICI's real wire on a unix socket.

The wire is the ``vici`` package's codec, not ours, so that an error of ours is not mirrored. What it answers, and how
it refuses, was read from charon 5.9.8; tests/contract holds it to that. Its world is open to tests: `connections`,
`authorities`, `keys` and `sas` may be looked at and changed, `render` shows it as text, and faults are armed with
`fail_next` and `disturb_next`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from vici.protocol import FiniteStream, Message, Packet

from tests.fakes.charon_options import AUTH_KEYS, CHILD_KEYS, CONNECTION_KEYS, RefusedError, check_options, is_ca

EVENTS = {"ike-updown", "child-updown", "ike-rekey", "child-rekey", "ike-update", "list-sa", "list-conn", "log"}
EVENTS |= {"list-authority", "list-cert", "control-log"}


class Disturbance(Enum):
    """What happens to the next command instead of its answer."""

    SILENCE = "silence"
    GARBAGE = "garbage"
    OVERSIZE = "oversize"
    CLOSE = "close"
    CUT_OFF = "cut-off"
    """Half of the answer, then the end of the connection."""
    OUT_OF_STEP = "out-of-step"
    """An event confirmation where an answer belongs."""


@dataclass
class FakeChildSa:
    """A CHILD_SA in the fake's world."""

    name: str
    unique_id: int
    if_id: int
    state: str = "INSTALLED"
    spi_in: int = 0xC0DE0001
    spi_out: int = 0xC0DE0002
    packets_in: int = 0


@dataclass
class FakeIkeSa:
    """An IKE_SA in the fake's world."""

    connection: str
    unique_id: int
    local: str
    remote: str
    local_id: str
    remote_id: str
    state: str = "CONNECTING"
    children: list[FakeChildSa] = field(default_factory=list)
    proposal: str = "aes256gcm16-prfsha384-ecp384"


_ALGORITHMS = {
    "aes128gcm16": {"encr-alg": "AES_GCM_16", "encr-keysize": "128"},
    "aes256gcm16": {"encr-alg": "AES_GCM_16", "encr-keysize": "256"},
    "chacha20poly1305": {"encr-alg": "CHACHA20_POLY1305"},
    "prfsha256": {"prf-alg": "PRF_HMAC_SHA2_256"},
    "prfsha384": {"prf-alg": "PRF_HMAC_SHA2_384"},
    "prfsha512": {"prf-alg": "PRF_HMAC_SHA2_512"},
    "ecp256": {"dh-group": "ECP_256"},
    "ecp384": {"dh-group": "ECP_384"},
    "ecp521": {"dh-group": "ECP_521"},
    "curve25519": {"dh-group": "CURVE_25519"},
    "modp3072": {"dh-group": "MODP_3072"},
    "modp4096": {"dh-group": "MODP_4096"},
}


def _negotiated(proposal: str) -> dict[str, str]:
    """A proposal as list-sas tells it of an IKE_SA."""
    return {key: value for word in proposal.split("-") for key, value in _ALGORITHMS.get(word, {}).items()}


class _Client:
    """One accepted connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.events: set[str] = set()

    def send(self, packet: bytes) -> None:
        self.writer.write(struct.pack("!I", len(packet)) + packet)

    def send_event(self, event: str, message: dict[str, Any]) -> None:
        if event in self.events:
            name = event.encode()
            self.send(struct.pack("!BB", Packet.EVENT, len(name)) + name + Message.serialize(message))


class FakeCharon:
    """charon's stand-in; use it as an async context manager.

    Args:
        path: where its VICI socket appears.
        version: what it says that it is.
        known_events: events that it knows; older versions know fewer.
    """

    def __init__(self, path: Path, *, version: str = "5.9.8", known_events: set[str] | None = None) -> None:
        self.path = path
        self.version = version
        self.known_events = EVENTS if known_events is None else known_events
        self.connections: dict[str, dict[str, Any]] = {}
        self.authorities: set[str] = set()
        self.keys: set[str] = set()
        self.sas: list[FakeIkeSa] = []
        self.peer_answers = False
        self.commands: list[str] = []
        self._generation = 0
        self._ids = itertools.count(1)
        self._clients: set[_Client] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._failures: dict[str, str] = {}
        self._disturbances: list[tuple[str, Disturbance]] = []
        self._handlers: dict[str, Callable[[_Client, dict[str, Any]], dict[str, Any]]] = {
            "version": lambda _client, _message: {"daemon": "charon-systemd", "version": self.version},
            "stats": lambda _client, _message: {"uptime": {"running": "1 second", "since": self._since()}},
            "get-conns": lambda _client, _message: {"conns": list(self.connections)},
            "get-authorities": lambda _client, _message: {"authorities": sorted(self.authorities)},
            "get-keys": lambda _client, _message: {"keys": sorted(self.keys)},
            "list-conns": self._list_conns,
            "list-authorities": self._list_authorities,
            "list-sas": self._list_sas,
            "load-conn": self._load_conn,
            "unload-conn": self._unload_conn,
            "load-authority": self._load_authority,
            "unload-authority": self._unload_authority,
            "load-key": self._load_key,
            "unload-key": self._unload_key,
            "initiate": self._initiate,
            "terminate": self._terminate,
        }

    async def __aenter__(self) -> FakeCharon:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin to listen, as a process that knows nothing yet."""
        self._generation += 1
        self.connections, self.authorities, self.keys, self.sas = {}, set(), set(), []
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        """End as SIGKILL ends charon: all connections break, the socket's file stays."""
        if self._server is None:
            return
        self._server.close()
        for client in list(self._clients):
            client.writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    async def restart(self) -> None:
        """Another process on the same socket."""
        await self.stop()
        self.path.unlink(missing_ok=True)
        await self.start()

    def fail_next(self, command: str, reason: str) -> None:
        """Let the next such command be answered with success=no and this reason."""
        self._failures[command] = reason

    def disturb_next(self, command: str, disturbance: Disturbance) -> None:
        """Let this happen to the next such command instead of its answer."""
        self._disturbances.append((command, disturbance))

    def emit(self, event: str, message: dict[str, Any]) -> None:
        """Raise an event to everyone who is registered for it."""
        for client in self._clients:
            client.send_event(event, message)

    def render(self) -> str:
        """The world as text, one line a thing, sorted."""
        lines = [f"connection {name}" for name in self.connections]
        lines += [f"authority {name}" for name in self.authorities]
        lines += [f"key {name}" for name in self.keys]
        for sa in self.sas:
            children = ", ".join(f"{child.name} {child.state} if_id {child.if_id}" for child in sa.children)
            lines.append(f"ike_sa {sa.connection} {sa.state} [{children}]")
        return "\n".join(sorted(lines))

    def establish(self, connection: str) -> FakeIkeSa:
        """Let an IKE_SA of a loaded connection come up with its child, with the events of it."""
        waiting = [sa for sa in self.sas if sa.connection == connection and sa.state == "CONNECTING"]
        sa = waiting[0] if waiting else self._new_sa(connection)
        self.answer(sa)
        return sa

    def answer(self, sa: FakeIkeSa) -> None:
        """Let this IKE_SA come up with its child, with the events of it."""
        connection = sa.connection
        sa.state = "ESTABLISHED"
        self.emit("ike-updown", {"up": "yes", connection: self._ike_section(sa)})
        name, child = next(iter(self.connections[connection]["children"].items()))
        if_id = int(child.get("if_id_in", b"0"))
        sa.children.append(FakeChildSa(name=name, unique_id=next(self._ids), if_id=if_id))
        self.emit("child-updown", {"up": "yes", connection: self._ike_section(sa)})

    def freeze(self) -> None:
        """Compose the answer to list-sas once, so that a benchmark measures its reader."""
        sent = bytearray()
        sink = _Client(type("Sink", (), {"write": staticmethod(sent.extend)})())
        sink.events.add("list-sa")
        self._list_sas(sink, {})
        answer = bytes(sent)

        def list_sas(client: _Client, _message: dict[str, Any]) -> dict[str, Any]:
            client.writer.write(answer)
            return {}

        self._handlers["list-sas"] = list_sas

    def _since(self) -> str:
        """Wavers by a second, as charon's own does."""
        return f"Jan {self._generation:02} 12:00:0{next(self._ids) % 2} 2026"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        self._clients.add(client)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    (length,) = struct.unpack("!I", await reader.readexactly(4))
                    await self._packet(client, await reader.readexactly(length))
                    await writer.drain()
        finally:
            self._clients.discard(client)
            self._tasks.discard(task)
            writer.close()

    async def _packet(self, client: _Client, packet: bytes) -> None:
        kind, length = packet[0], packet[1]
        name = packet[2 : 2 + length].decode()
        if kind in {Packet.EVENT_REGISTER, Packet.EVENT_UNREGISTER}:
            known = name in self.known_events
            if known and kind == Packet.EVENT_REGISTER:
                client.events.add(name)
            client.events -= {name} if kind == Packet.EVENT_UNREGISTER else set()
            client.send(bytes([Packet.EVENT_CONFIRM if known else Packet.EVENT_UNKNOWN]))
            return
        self.commands.append(name)
        if self._disturb(client, name):
            return
        handler = self._handlers.get(name)
        if handler is None:
            client.send(bytes([Packet.CMD_UNKNOWN]))
            return
        try:
            if name in self._failures:
                raise RefusedError(self._failures.pop(name))
            answer = handler(client, Message.deserialize(FiniteStream(packet[2 + length :])))
        except RefusedError as refused:
            answer = {"success": "no", "errmsg": str(refused)}
        client.send(bytes([Packet.CMD_RESPONSE]) + Message.serialize(answer))

    def _disturb(self, client: _Client, command: str) -> bool:
        found = next((entry for entry in self._disturbances if entry[0] == command), None)
        if found is None:
            return False
        self._disturbances.remove(found)
        match found[1]:
            case Disturbance.SILENCE:
                pass
            case Disturbance.GARBAGE:
                client.send(bytes([Packet.CMD_RESPONSE]) + b"\xff\xfe GET / HTTP/1.1")
            case Disturbance.OVERSIZE:
                client.writer.write(struct.pack("!I", 2**31))
            case Disturbance.CLOSE:
                client.writer.close()
            case Disturbance.CUT_OFF:
                client.writer.write(struct.pack("!I", 100) + bytes([Packet.CMD_RESPONSE]) + os.urandom(20))
                client.writer.close()
            case Disturbance.OUT_OF_STEP:
                client.send(bytes([Packet.EVENT_CONFIRM]))
        return True

    def _list_conns(self, client: _Client, _message: dict[str, Any]) -> dict[str, Any]:
        for name, body in self.connections.items():
            children = {child: {"mode": "TUNNEL"} for child in body.get("children", {})}
            client.send_event("list-conn", {name: {"version": "IKEv2", "children": children}})
        return {}

    def _list_authorities(self, client: _Client, _message: dict[str, Any]) -> dict[str, Any]:
        for name in self.authorities:
            client.send_event("list-authority", {name: {"cacert": "CN=ca"}})
        return {}

    def _list_sas(self, client: _Client, _message: dict[str, Any]) -> dict[str, Any]:
        for sa in self.sas:
            client.send_event("list-sa", {sa.connection: self._ike_section(sa)})
        return {}

    def _ike_section(self, sa: FakeIkeSa) -> dict[str, Any]:
        section: dict[str, Any] = {
            "uniqueid": sa.unique_id,
            "version": "2",
            "state": sa.state,
            "local-host": sa.local,
            "local-id": sa.local_id,
            "remote-host": sa.remote,
            "remote-id": sa.remote_id,
            "initiator": "yes",
        }
        if sa.state != "CONNECTING":
            section |= _negotiated(sa.proposal) | {"established": "1"}
        section["child-sas"] = {
            f"{child.name}-{child.unique_id}": {
                "name": child.name,
                "uniqueid": child.unique_id,
                "reqid": "1",
                "state": child.state,
                "if-id-in": f"{child.if_id:08x}",
                "if-id-out": f"{child.if_id:08x}",
                "spi-in": f"{child.spi_in:08x}",
                "spi-out": f"{child.spi_out:08x}",
                "encr-alg": "AES_GCM_16",
                "encr-keysize": "256",
                "esn": "1",
                "bytes-in": "0",
                "packets-in": str(child.packets_in),
                "bytes-out": "0",
                "packets-out": "0",
                "install-time": "1",
            }
            for child in sa.children
        }
        return section

    def _load_conn(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        for name, body in message.items():
            for key, value in body.items():
                if key.startswith(("local", "remote")) and isinstance(value, dict):
                    check_options(value, AUTH_KEYS)
                elif key == "children":
                    for child in value.values():
                        check_options(child, CHILD_KEYS)
                else:
                    check_options({key: value}, CONNECTION_KEYS)
            self.connections[name] = body
        return {"success": "yes"}

    def _unload_conn(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        name = message["name"].decode()
        if self.connections.pop(name, None) is None:
            raise RefusedError(f"unload: connection '{name}' not found")
        return {"success": "yes"}

    def _load_authority(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        for name, body in message.items():
            if not is_ca(body.get("cacert", b"")):
                raise RefusedError(f"CA certificate missing: {name}")
            self.authorities.add(name)
        return {"success": "yes"}

    def _unload_authority(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        name = message["name"].decode()
        if name not in self.authorities:
            raise RefusedError(f"unload: authority '{name}' not found")
        self.authorities.remove(name)
        return {"success": "yes"}

    def _load_key(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        try:
            key = load_pem_private_key(message["data"], password=None)
        except ValueError:
            raise RefusedError(f"parsing {message['type'].decode().upper()} private key failed") from None
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex()  # type: ignore[arg-type]
        self.keys.add(identifier)
        return {"success": "yes", "id": identifier}

    def _unload_key(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        identifier = message["id"].decode()
        if identifier not in self.keys:
            raise RefusedError("key not found")
        self.keys.remove(identifier)
        return {"success": "yes"}

    def _new_sa(self, connection: str) -> FakeIkeSa:
        body = self.connections[connection]
        sa = FakeIkeSa(
            connection=connection,
            unique_id=next(self._ids),
            local=body["local_addrs"][0].decode(),
            remote=body["remote_addrs"][0].decode(),
            local_id=body["local"]["id"].decode(),
            remote_id=body["remote"]["id"].decode(),
            proposal=body["proposals"][0].decode(),
        )
        self.sas.append(sa)
        return sa

    def _initiate(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        ike, child = message.get("ike", b"").decode(), message["child"].decode()
        if child not in self.connections.get(ike, {}).get("children", {}):
            raise RefusedError(f"CHILD_SA config '{child}' not found")
        if message.get("timeout") != b"-1":
            raise AssertionError("a blocking initiate freezes charon (A01)")
        self._new_sa(ike)
        if self.peer_answers:
            self.establish(ike)
        return {"success": "yes"}

    def _terminate(self, _client: _Client, message: dict[str, Any]) -> dict[str, Any]:
        gone = [sa for sa in self.sas if str(sa.unique_id).encode() == message.get("ike-id")]
        if not gone:
            raise RefusedError("no matching SAs to terminate found")
        for sa in gone:
            self.sas.remove(sa)
            if sa.state == "ESTABLISHED":
                # charon tells of the IKE_SA first, and of children that still look INSTALLED
                self.emit("ike-updown", {sa.connection: self._ike_section(sa)})
                self.emit("child-updown", {sa.connection: self._ike_section(sa)})
        return {"success": "yes", "matches": str(len(gone)), "terminated": str(len(gone))}
