"""One gateway on stand-ins: the wire of VICI, a kernel in Python, a prober and a fabric that say what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.adapters.vici.adapter import CharonAdapter
from ikeorch.cli.client import Client
from ikeorch.config.loader import read_config
from ikeorch.core.fabric import FabricWish
from ikeorch.core.fabric_state import FabricSession, FabricState
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import NextHopGroup
from ikeorch.core.spec import FabricNeighbor
from ikeorch.core.units import Seconds
from ikeorch.daemon.api import Api
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.daemon.history import History
from ikeorch.daemon.pass_result import PassResult
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.store.database import Store
from pki.issue import GatewayCredentials, create_ca, issue_gateway, new_key, new_serial
from pki.profiles import CaProfile, GatewayProfile
from pki.store import save_gateway
from tests.examples import GATEWAY_A
from tests.fakes.fake_charon import FakeCharon
from tests.fakes.fake_kernel import FakeKernel


@dataclass
class FakeProber:
    """Says what it is told: all tunnels that have a target are up, or not known, but for the ones that are down.

    Packets up to `largest` bytes come through.
    """

    answering: bool = False
    problem: str = ""
    down: set[int] = field(default_factory=set)
    largest: int = 9000
    targets: dict[TunnelId, ProbeTarget] = field(default_factory=dict)

    def states(self) -> dict[TunnelId, ProbeState]:
        if self.problem:
            return {}
        return {tunnel: self._state(tunnel, target.mtu) for tunnel, target in self.targets.items()}

    def _state(self, tunnel: TunnelId, mtu: int) -> ProbeState:
        fits = mtu <= self.largest if mtu and self._verdict(tunnel) is Verdict.UP else None
        return ProbeState(verdict=self._verdict(tunnel), sent=1, received=1, mtu=mtu, fits=fits)

    def _verdict(self, tunnel: TunnelId) -> Verdict:
        if tunnel.index in self.down:
            return Verdict.DOWN
        return Verdict.UP if self.answering else Verdict.UNKNOWN

    def set_targets(self, targets: Mapping[TunnelId, ProbeTarget]) -> None:
        self.targets = dict(targets)


FABRIC = """\
fabric:
  neighbors: [{address: 10.0.0.254, asn: 65001}, {address: "fd00:a:ffff::fe", asn: 65001}]
  bandwidth_scale: 1/16
"""


@dataclass
class FakeFabric:
    """Takes every wish; its sessions stand as they are told to."""

    problem: str = ""
    down: dict[str, str] = field(default_factory=dict)
    wishes: list[FabricWish] = field(default_factory=list)

    def advertise(self, wish: FabricWish) -> None:
        self.wishes.append(wish)

    @property
    def wish(self) -> FabricWish | None:
        return self.wishes[-1] if self.wishes else None

    def state(self) -> FabricState:
        wish = self.wish
        neighbors = wish.fabric.neighbors if wish else ()
        return FabricState(wish=wish, problem=self.problem, sessions=tuple(self._session(each) for each in neighbors))

    def _session(self, neighbor: FabricNeighbor) -> FabricSession:
        reason = self.down.get(str(neighbor.address), "")
        sent = self.wishes[-1].routes
        return FabricSession(neighbor=neighbor, up=not reason, reason=reason, since=Seconds(0), sent=sent)

    def told(self) -> dict[str, float]:
        """What the leafs know, in bytes/s."""
        return {str(route.prefix): route.bandwidth for route in self.wishes[-1].routes}


class AnySetting(dict[str, str]):
    """A kernel that has every setting that is asked for, at 0."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "0"


@dataclass
class World:
    """One gateway on stand-ins."""

    charon: FakeCharon
    kernel: FakeKernel
    prober: FakeProber
    fabric: FakeFabric
    reconciler: Reconciler
    client: Client
    config: Path
    history: History

    async def passes(self, count: int = 1) -> PassResult:
        """Run passes, letting charon's answers arrive between them."""
        for _ in range(count):
            result = await self.reconciler.run_pass(["test"])
            await asyncio.sleep(0.05)
        return result


@asynccontextmanager
async def gateway(tmp_path: Path) -> AsyncIterator[World]:
    """Gateway A with four tunnels configured; charon and kernel are empty."""
    now = datetime.now(UTC)
    signer = create_ca(CaProfile(name="test CA"), new_key(), serial=new_serial(), now=now)
    key = new_key()
    profile = GatewayProfile(identity="gw-a.dc.example")
    certificate = issue_gateway(profile, key.public_key(), signer, serial=new_serial(), now=now)
    save_gateway(tmp_path, "gw-a", GatewayCredentials(certificate=certificate, key=key), signer.certificate)
    config = tmp_path / "ikeorch.yaml"
    config.write_text(GATEWAY_A.replace("/etc/ikeorch/pki", str(tmp_path)) + FABRIC)
    kernel, prober, fabric = FakeKernel("eth1", "eth2"), FakeProber(), FakeFabric()
    kernel.settings = AnySetting()
    async with FakeCharon(tmp_path / "charon.vici") as charon:
        adapter = CharonAdapter(charon.path, deadline=2)
        store = Store.open(tmp_path / "state" / "ikeorch.db")
        loaded = read_config(config)
        spec = loaded.spec
        reconciler = Reconciler(spec, kernel=kernel, charon=adapter, prober=prober, fabric=fabric, store=store)
        file = ConfigFile(config, lambda loaded: reconciler.set_spec(loaded.spec, "edited"), loaded)
        history = History(store, file, reconciler)
        history.record(loaded, uid=-1, what="start")
        api = Api(reconciler, file, history)
        await api.start(tmp_path / "api.sock")
        yield World(charon, kernel, prober, fabric, reconciler, Client(tmp_path / "api.sock"), config, history)
        await api.stop()
        await adapter.close()
        store.close()


async def up(world: World) -> None:
    """Four tunnels that carry."""
    await world.passes(2)
    for index in range(4):
        world.charon.establish(f"ikeorch.gw-b.{index}")
    world.prober.answering = True
    await world.passes(3)
    assert members(world) == [4, 4]


def members(world: World) -> list[int]:
    """How many tunnels stand in each group."""
    return [len(entry.members) for entry in world.kernel.objects.values() if isinstance(entry, NextHopGroup)]


async def until(true: Callable[[], bool]) -> None:
    """Wait for a condition; without the loop's resync it must come by itself."""
    for _ in range(4000):
        if true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not become true")
