"""An ExaBGP with its shim and its peers, in one object: speaks the shim's wire, its world is text.

It connects to the speaker's socket as the shim does. Reads the configuration when it starts and on `reload`, answers
each command in order, keeps an Adj-RIB-Out per neighbour, and gives each peer what the real one would have sent it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from tests.contract.polling import eventually

_NEIGHBOR = re.compile(r"neighbor (\S+) \{(.*?)\n\}", re.DOTALL)
_SETTING = re.compile(r"^\s+([a-z-]+) ([^;{]+);", re.MULTILINE)
_ROUTE = re.compile(
    r"neighbor (\S+) (announce|withdraw) route (\S+) next-hop (\S+)(?: extended-community \[ 0x([0-9a-f]{16}) \])?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRoute:
    """What a peer holds for a prefix."""

    next_hop: IPv4Address | IPv6Address
    communities: tuple[bytes, ...]


@dataclass(slots=True, kw_only=True)
class FakePeer:
    """A router at the other end.

    Attributes:
        routes: what it was told.
        carrying: UPDATEs that announced or withdrew something.
        ends_of_rib: End-of-RIB markers.
        established: sessions that came up so far.
        refuse: code, subcode and text of a NOTIFICATION that answers each OPEN.
    """

    address: str
    asn: int = 65001
    routes: dict[IPv4Network | IPv6Network, FakeRoute] = field(default_factory=dict)
    carrying: int = 0
    ends_of_rib: int = 0
    established: int = 0
    refuse: tuple[int, int, bytes] | None = None
    world: FakeExabgp | None = None

    def drop(self) -> None:
        """The session is lost; ExaBGP connects again at once."""
        assert self.world is not None
        self.world.drop(self.address)


@dataclass(slots=True, kw_only=True)
class _Configured:
    """A neighbour of the configuration in force."""

    settings: dict[str, str]
    up: bool = False
    held: dict[IPv4Network | IPv6Network, FakeRoute] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FakeExabgp:
    """The process.

    Attributes:
        folder: where socket and configuration are.
        peers: the routers.
        fail_next: beginnings of commands, without the neighbour, each of which is answered with an error once.
        commands: all that came.
        silent: commands are taken and never answered.
    """

    folder: Path
    peers: dict[str, FakePeer] = field(default_factory=dict)
    fail_next: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    silent: bool = False
    _neighbors: dict[str, _Configured] = field(default_factory=dict)
    _memory: dict[str, list[str]] = field(default_factory=dict)
    _writer: asyncio.StreamWriter | None = None
    _task: asyncio.Task[None] | None = None
    _clock: float = 1_800_000_000.0

    @property
    def socket(self) -> Path:
        """Where the speaker listens."""
        return self.folder / "shim.sock"

    @property
    def config_file(self) -> Path:
        """What ExaBGP reads."""
        return self.folder / "exabgp.conf"

    @property
    def validate(self) -> tuple[str, ...]:
        """No check."""
        return ()

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._task.done()

    def text(self) -> str:
        """The world: each neighbour and what its peer holds."""
        lines = []
        for address, neighbor in sorted(self._neighbors.items()):
            lines.append(f"neighbor {address} {'up' if neighbor.up else 'down'}")
            peer = self.peers.get(address)
            for prefix, route in sorted(peer.routes.items(), key=lambda item: str(item[0])) if peer else ():
                lines.append(f"  {prefix} via {route.next_hop} {route.communities[0].hex()}")
        return "\n".join(lines)

    async def add_peer(self, address: str, asn: int = 65001) -> FakePeer:
        """A router."""
        peer = self.peers[address] = FakePeer(address=address, asn=asn, world=self)
        return peer

    async def start(self) -> None:
        """Start with the configuration that is there, without any route."""

        async def written() -> bool:
            return self.config_file.exists()

        await eventually(written)
        self._neighbors.clear()
        self._memory.clear()
        for peer in self.peers.values():
            peer.routes.clear()
        self._reload()
        self._task = asyncio.create_task(self._serve())

    async def kill(self) -> None:
        """The process is gone, and so are its sessions."""
        await self.kill_shim(again=False)

    async def kill_shim(self, *, again: bool = True) -> None:
        """The connection ends; sessions and routes stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if again:
            self._memory.clear()
            self._task = asyncio.create_task(self._serve())

    async def restart(self) -> None:
        """A crash, and a supervisor."""
        await self.kill()
        await self.start()

    async def stop(self) -> None:
        """The end."""
        await self.kill()

    def drop(self, address: str) -> None:
        """A session is lost and comes back, unless the peer refuses."""
        neighbor = self._neighbors[address]
        if neighbor.up:
            neighbor.up = False
            self._state(address, "down", reason="closing connection")
        self._connect(address)

    # Sessions

    def _reload(self) -> None:
        text = self.config_file.read_text(encoding="ascii")
        found = {match[1]: dict(_SETTING.findall(match[2])) for match in _NEIGHBOR.finditer(text)}
        for address in list(self._neighbors):
            if self._neighbors[address].settings != found.get(address):
                del self._neighbors[address]
                if address in self.peers:
                    self.peers[address].routes.clear()
        for address, settings in found.items():
            if address not in self._neighbors:
                self._neighbors[address] = _Configured(settings=settings)
                self._connect(address)

    def _connect(self, address: str) -> None:
        neighbor, peer = self._neighbors[address], self.peers.get(address)
        if peer is None:
            return
        self._state(address, "connected")
        expected = int(neighbor.settings["peer-as"])
        if peer.refuse is not None:
            code, subcode, raw = peer.refuse
            self._notification(address, "receive", code, subcode, raw.decode())
        elif expected != peer.asn:
            text = f"ASN in OPEN ({peer.asn}) did not match ASN expected ({expected})"
            code, subcode = 2, 2
            self._notification(address, "send", code, subcode, text)
        else:
            neighbor.up = True
            peer.established += 1
            peer.routes = dict(neighbor.held)
            peer.carrying += len({route.communities for route in neighbor.held.values()})
            if neighbor.settings["manual-eor"] == "false":
                peer.ends_of_rib += 1
            self._state(address, "up")
            return
        self._state(address, "down", reason=f"notification ({code},{subcode})")

    def _local(self, address: str) -> str:
        local = self._neighbors[address].settings["local-address"]
        return local if local != "auto" else {4: "127.0.0.1", 6: "::1"}[ip_address(address).version]

    def _event(self, address: str, kind: str, more: str) -> None:
        self._clock += 1
        settings = self._neighbors[address].settings
        line = (
            f'{{ "exabgp": "5.0.0", "time": {self._clock}, "host" : "fake", "pid" : 2, "ppid" : 1, "counter": 1, '
            f'"type": "{kind}", '
            f'"neighbor": {{ "address": {{ "local": "{self._local(address)}", "peer": "{address}" }}, '
            f'"asn": {{ "local": {settings["local-as"]}, "peer": {settings["peer-as"]} }}, {more} }} }}'
        )
        self._memory.setdefault(address, []).append(line)
        del self._memory[address][:-3]
        self._say(line)

    def _state(self, address: str, state: str, *, reason: str = "") -> None:
        self._event(address, "state", f'"state": "{state}"' + (f', "reason": {json.dumps(reason)}' if reason else ""))

    def _notification(self, address: str, direction: str, code: int, subcode: int, text: str) -> None:
        more = f'"code": {code}, "subcode": {subcode}, "data": "0x", "message": {json.dumps(text)}'
        self._event(address, "notification", f'"direction": "{direction}", "notification": {{ {more} }}')

    # The wire

    def _say(self, *lines: str) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write("".join(line + "\n" for line in lines).encode("ascii"))

    async def _serve(self) -> None:
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(str(self.socket))
            except OSError:
                await asyncio.sleep(0.01)
                continue
            try:
                memory = [line for lines in self._memory.values() for line in lines]
                self._say("ikeorch-shim 1", *memory, "ikeorch-shim ready")
                while line := await reader.readline():
                    self._command(line.decode("ascii").strip())
            except OSError:
                pass
            finally:
                self._writer.close()
                with contextlib.suppress(OSError):
                    await self._writer.wait_closed()
                self._writer = None

    def _command(self, command: str) -> None:
        self.commands.append(command)
        if self.silent:
            return
        verb = re.sub(r"^neighbor \S+ ", "", command)
        for beginning in self.fail_next:
            if verb.startswith(beginning):
                self.fail_next.remove(beginning)
                self._say("error")
                return
        self._say("done" if self._do(command) else "error")

    def _do(self, command: str) -> bool:
        if command == "show neighbor json":
            self._say(json.dumps([self._shown(address) for address in self._neighbors]))
            return True
        if command == "show neighbor configuration":
            for address, neighbor in self._neighbors.items():
                self._say(f"neighbor {address} {{", f"\tdescription {neighbor.settings['description']};", "}")
            return True
        if command == "show adj-rib out extensive":
            for address, neighbor in self._neighbors.items():
                for prefix, route in neighbor.held.items():
                    self._say(
                        f"neighbor {address} local-ip {self._local(address)} local-as 1 peer-as 2 router-id 10.0.0.1 "
                        f"family-allowed in-open ipv{prefix.version} unicast {prefix} next-hop {route.next_hop} "
                        f"extended-community 0x{route.communities[0].hex().upper()}"
                    )
            return True
        if command == "reload":
            self._say("reload in progress")
            self._reload()
            return True
        if match := re.fullmatch(r"neighbor (\S+) announce eor ipv[46] unicast", command):
            if match[1] not in self._neighbors or not self._neighbors[match[1]].up:
                return False
            self.peers[match[1]].ends_of_rib += 1
            return True
        return (match := _ROUTE.fullmatch(command)) is not None and self._route(*match.groups())

    def _route(self, address: str, verb: str, prefix: str, next_hop: str, community: str | None) -> bool:
        if address not in self._neighbors:
            return False
        neighbor, network = self._neighbors[address], ip_network(prefix)
        if network.version != ip_address(address).version:
            return True
        route = FakeRoute(next_hop=ip_address(next_hop), communities=(bytes.fromhex(community or ""),))
        if verb == "announce" and neighbor.held.get(network) == route:
            return True
        if verb == "announce":
            neighbor.held[network] = route
        else:
            neighbor.held.pop(network, None)
        if neighbor.up:
            peer = self.peers[address]
            peer.carrying += 1
            peer.routes = dict(neighbor.held)
        return True

    def _shown(self, address: str) -> dict[str, object]:
        neighbor = self._neighbors[address]
        return {
            "fsm": "ESTABLISHED" if neighbor.up else "IDLE",
            "local": {"address": self._local(address)},
            "peer": {"address": address},
        }
