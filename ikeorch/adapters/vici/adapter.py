"""charon as the loop sees it: snapshots, commands and events, each on a connection of its own (D2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ikeorch.adapters.vici.convert import to_ike_sas, to_load_conn
from ikeorch.adapters.vici.transport import DEADLINE, Transport
from ikeorch.adapters.vici.wire import Section
from ikeorch.core.charon_state import CharonState, Connection
from ikeorch.core.ids import CONNECTION_PREFIX, TunnelId
from ikeorch.core.secret import Secret
from ikeorch.errors import CharonRefusedError, CharonUnreachableError, IkeorchError

EVENTS = ("ike-updown", "child-updown", "ike-rekey", "child-rekey", "ike-update")
SINCE_FORMAT = "%b %d %H:%M:%S %Y"
SINCE_TOLERANCE = 2.0
RECONNECT_FIRST = 0.1
RECONNECT_CAP = 2.0


@dataclass(frozen=True, slots=True)
class CharonEvent:
    """Something happened in charon; what it was is read from a snapshot.

    Attributes:
        kind: the event's name, ``connected`` after each (re)connect, ``disconnected`` when the socket was lost.
        connection: the connection concerned, "" where there is none.
    """

    kind: str
    connection: str = ""


class CharonAdapter:
    """One charon.

    Args:
        path: its VICI socket.
        deadline: seconds for one exchange.
    """

    def __init__(self, path: Path, *, deadline: float = DEADLINE) -> None:
        self._snapshots = Transport(path, deadline=deadline)
        self._commands = Transport(path, deadline=deadline)
        self._listener = Transport(path, deadline=deadline)
        self._started = ""
        self._loaded: dict[str, Connection] = {}

    async def close(self) -> None:
        """Close all connections."""
        for transport in (self._snapshots, self._commands, self._listener):
            transport.close()

    async def snapshot(self) -> CharonState:
        """Everything of ours in one charon process, from one ``noblock`` list-sas pass.

        Raises:
            CharonUnreachableError: charon does not answer.
            NotPermittedError: its socket may not be used.
        """
        version = await self._snapshots.request("version")
        stats = await self._snapshots.request("stats")
        started = f"{self._snapshots.peer_pid} since {_text(_section(stats, 'uptime'), 'since')}"
        if not same_process(started, self._started):
            self._started = started
            self._loaded = {}
        connections = await self._snapshots.stream("list-conns", "list-conn")
        names = frozenset(name for message in connections for name in message)
        authorities = await self._snapshots.stream("list-authorities", "list-authority")
        keys = await self._snapshots.request("get-keys")
        sas = await self._snapshots.stream("list-sas", "list-sa", {"noblock": "yes"})
        return CharonState(
            version=_text(version, "version"),
            started=self._started,
            connections=names,
            loaded={name: connection for name, connection in self._loaded.items() if name in names},
            authorities=frozenset(name for message in authorities for name in message),
            keys=frozenset(_texts(keys, "keys")),
            sas=tuple(
                sa for message in sas for sa in to_ike_sas(message) if sa.connection.startswith(CONNECTION_PREFIX)
            ),
        )

    async def load_authority(self, name: str, certificate_pem: str) -> None:
        """Load a trust anchor under a name; it can be unloaded again.

        Raises:
            CharonRefusedError: it is no CA certificate.
        """
        await self._commands.request("load-authority", {name: {"cacert": certificate_pem}})

    async def load_key(self, pem: Secret) -> None:
        """Load a private key; one that is there already stays one.

        Raises:
            CharonRefusedError: charon cannot read it.
        """
        await self._commands.request("load-key", {"type": "any", "data": pem.reveal()})

    async def load_connection(self, connection: Connection) -> None:
        """Load or replace a connection; live SAs keep what they have.

        Raises:
            CharonRefusedError: an option that this charon does not take.
        """
        try:
            await self._commands.request("load-conn", to_load_conn(connection))
        except ValueError as error:
            raise CharonRefusedError(f"connection {connection.name} cannot be written: {error}") from None
        self._loaded[connection.name] = connection

    async def unload_connection(self, name: str) -> None:
        """Unload a connection; one that is not there is no error. Live SAs stay."""
        self._loaded.pop(name, None)
        try:
            await self._commands.request("unload-conn", {"name": name})
        except CharonRefusedError as error:
            if "not found" not in error.what:
                raise

    async def initiate(self, tunnel: TunnelId) -> None:
        """Queue a new IKE_SA with its CHILD_SA.

        Never blocks: a waiting `initiate` holds one of charon's threads, and eight of them freeze 5.9.8.
        """
        name = tunnel.connection
        await self._commands.request("initiate", {"ike": name, "child": name, "timeout": "-1", "loglevel": "-1"})

    async def terminate(self, ike_id: int, *, force: bool) -> None:
        """Queue the end of an IKE_SA; one that is gone is no error.

        Args:
            ike_id: charon's unique id.
            force: do not wait for the peer's answer.
        """
        message = {"ike-id": str(ike_id), "timeout": "-1", "loglevel": "-1", "force": "yes" if force else "no"}
        try:
            await self._commands.request("terminate", message)
        except CharonRefusedError as error:
            if "no matching" not in error.what:
                raise

    async def events(self, wake: Callable[[CharonEvent], None]) -> None:
        """Call `wake` for every event, and after every (re)connect, for ever."""
        pause = RECONNECT_FIRST
        connected = False
        while True:
            try:
                async for name, message in self._listener.events(EVENTS):
                    pause = RECONNECT_FIRST
                    connected = True
                    kind = "connected" if name == "registered" else name
                    wake(CharonEvent(kind, _concerned(message)))
            except (CharonUnreachableError, IkeorchError):
                if connected:
                    wake(CharonEvent("disconnected"))
                connected = False
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_CAP)


def same_process(left: str, right: str) -> bool:
    """Whether two ``PID since TIME`` texts mean one charon.

    charon computes the time anew in each answer, from two clocks, and it wavers by a second.
    """
    left_pid, _, left_time = left.partition(" since ")
    right_pid, _, right_time = right.partition(" since ")
    if left_pid != right_pid:
        return False
    try:
        first = datetime.strptime(left_time, SINCE_FORMAT).replace(tzinfo=UTC)
        second = datetime.strptime(right_time, SINCE_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return left_time == right_time
    return abs((first - second).total_seconds()) <= SINCE_TOLERANCE


def _section(message: Section, key: str) -> Section:
    value = message.get(key)
    return value if isinstance(value, dict) else {}


def _text(message: Section, key: str) -> str:
    value = message.get(key)
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _texts(message: Section, key: str) -> list[str]:
    value = message.get(key)
    return [item.decode(errors="replace") for item in value] if isinstance(value, list) else []


def _concerned(message: Section) -> str:
    """The name of the connection that an event is about: its one section."""
    return next((name for name, value in message.items() if isinstance(value, dict)), "")
