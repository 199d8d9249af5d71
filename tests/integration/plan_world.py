"""A gateway without a clock: plans and does, pass by pass, on fakes of kernel, charon and fabric.

Strangers' things stand beside ours from the beginning; `foreign` says how they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ikeorch.adapters.vici.adapter import CharonAdapter
from ikeorch.core.actual import Actual
from ikeorch.core.agreed import Agreed, observe_suites
from ikeorch.core.allocate import Allocations, Wanted, allocate_missing, wanted_numbers
from ikeorch.core.desired import CredentialBundle, Desired, compute_desired, needed_sysctls
from ikeorch.core.establish import Memory
from ikeorch.core.fabric import FabricWish
from ikeorch.core.fabric_state import FabricState
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelState, XfrmInterface
from ikeorch.core.plan import Action
from ikeorch.core.planner import Planned, World, plan_actions, plan_changes
from ikeorch.core.renew import Renewals, outstanding
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import Seconds
from ikeorch.core.waves import Waves, hold_back, plan_waves
from ikeorch.daemon.execute import Executor
from tests.contract.credentials import identities
from tests.fakes.fake_charon import FakeCharon, FakeChildSa, FakeIkeSa
from tests.fakes.fake_kernel import FakeDevice, FakeKernel

US, _ = identities()
CREDENTIALS = CredentialBundle(
    certificate=US.certificate,
    ca=US.ca,
    key_id=US.key_id,
    ca_id="ikeorch-ca-test",
    names=frozenset(),
    expires=Seconds(4e9),
)
DEVICES = ("eth1", "eth2", "eth3", "eth4", "eth5.7")
STEP = Seconds(1.0)
"""Seconds from pass to pass."""
PATIENCE = 60
"""Passes: three halves of a bundle replaced one after the other, each announced 2.5 s before."""


class Listener:
    """The leafs: they take every wish."""

    def __init__(self) -> None:
        self.wish: FabricWish | None = None

    def advertise(self, wish: FabricWish) -> None:
        self.wish = wish

    def state(self) -> FabricState:
        return FabricState(wish=self.wish)


class Settings(dict[str, str]):
    """Every setting is there, at 0, but those of an XFRM interface only while that is."""

    def __init__(self, kernel: FakeKernel) -> None:
        super().__init__()
        self._kernel = kernel

    def __contains__(self, name: object) -> bool:
        device = str(name).removeprefix("net.ipv4.conf.").removesuffix(".rp_filter")
        present = not device.startswith("ikx") or ("interface", device) in self._kernel.objects
        if not present:
            self.pop(str(name), None)
        return present

    def __missing__(self, name: str) -> str:
        return "0"


@dataclass
class Gateway:
    """The gateway under test."""

    kernel: FakeKernel
    charon: FakeCharon
    adapter: CharonAdapter
    fabric: Listener = field(default_factory=Listener)
    numbers: dict[Wanted, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    renewals: Renewals = field(default_factory=Renewals)
    agreed: Agreed = field(default_factory=dict)
    waves: Waves | None = None
    """None where every change is made at once, as a plan shows it."""
    now: Seconds = Seconds(1000)
    knows: Callable[[TunnelId], bool] = lambda _: True
    """Of which tunnels the prober has a verdict."""
    sees: frozenset[str] = frozenset({"kernel", "charon", "credentials"})
    """What can be read."""
    done: list[Action] = field(default_factory=list)

    async def look(self, spec: GatewaySpec) -> World:
        """One look at the world, with the numbers that the configuration needs."""
        self.numbers |= allocate_missing(self.numbers, wanted_numbers(spec))
        names = [setting.name for setting in needed_sysctls(spec, Allocations(self.numbers))]
        kernel = await self.kernel.snapshot(names) if "kernel" in self.sees else None
        charon = await self.adapter.snapshot() if "charon" in self.sees else None
        return World(
            numbers=self.numbers,
            credentials=CREDENTIALS if "credentials" in self.sees else None,
            actual=Actual(kernel=kernel, charon=charon, fabric=self.fabric.state()),
            verdicts=self._verdicts(),
            memory=self.memory,
            renewals=self.renewals,
            now=self.now,
            agreed=self.agreed,
        )

    def _verdicts(self) -> dict[TunnelId, Verdict]:
        """What the loop makes of the prober's word: a tunnel that we spare is up, but not for others' packets."""
        ours = self.waves.spared() | self.renewals.moving() if self.waves is not None else frozenset()
        return {tunnel: Verdict.SPARED if tunnel in ours else Verdict.UP for tunnel in self._probes()}

    def _probes(self) -> dict[TunnelId, ProbeState]:
        """A tunnel is up that has its interface and an IKE_SA; its size comes through once that is asked for."""
        carrying = {sa.connection for sa in self.charon.sas if sa.state == "ESTABLISHED"}
        waiting = self.waves.waiting() if self.waves is not None else frozenset()
        found = {}
        for entry in self.kernel.objects.values():
            if isinstance(entry, XfrmInterface) and entry.tunnel.connection in carrying and self.knows(entry.tunnel):
                size = 0 if entry.tunnel in waiting else entry.mtu
                found[entry.tunnel] = ProbeState(verdict=Verdict.UP, mtu=size, fits=bool(size) or None)
        return found

    async def plan(self, spec: GatewaySpec) -> Planned:
        """What would be done now."""
        return plan_changes(spec, await self.look(spec))

    async def one_pass(self, spec: GatewaySpec) -> bool:
        """Look, plan, do; whether there was anything to do or to wait for."""
        world = await self.look(spec)
        kernel = world.actual.kernel or KernelState()
        self.agreed = observe_suites(spec, world.actual.charon, self.agreed)
        desired = compute_desired(
            spec,
            Allocations(self.numbers),
            credentials=world.credentials,
            verdicts=world.verdicts,
            grouped=world.actual.grouped_tunnels(),
            resilient=kernel.resilient,
            underlay_mtu=kernel.devices,
            agreed=self.agreed,
        )
        spared = self.renewals.spared() | (self.waves.spared() if self.waves else frozenset())
        planned = self._plan(desired, world.actual)
        executor = Executor(self.kernel, self.adapter, self.fabric, asyncio.Lock())
        done, failures = await executor.run(planned, world.credentials, US.key, outdated=lambda: False)
        assert [(failure.action, str(failure.error)) for failure in failures] == []
        self.done.extend(done)
        self._let_peers_answer(desired)
        self.now = Seconds(self.now + STEP)
        waits = spared | self.renewals.spared() | (self.waves.open() if self.waves else frozenset())
        return bool(planned or waits or outstanding(desired, self.renewals))

    def _plan(self, desired: Desired, actual: Actual) -> tuple[Action, ...]:
        """All of the plan, or what of it has its turn."""
        touched = held = frozenset[TunnelId]()
        if self.waves is not None:
            renewing = self.renewals.spared()
            self.waves = plan_waves(desired, actual, self.waves, self._probes(), renewing=renewing, now=self.now)
            touched, held = self.waves.spared(), self.waves.no_renewal(desired.tunnels)
        planned, self.memory, self.renewals = plan_actions(
            desired, actual, self.memory, self.renewals, touched=touched, held=held, now=self.now, jitter=0.5
        )
        return planned if self.waves is None else hold_back(planned, self.waves, desired, actual)

    def _let_peers_answer(self, desired: Desired) -> None:
        """Peers answer one pass later, initiate what is theirs, and packets come out of every tunnel."""
        for sa in self.charon.sas:
            if sa.state == "CONNECTING":
                self.charon.answer(sa)
        have = {sa.connection for sa in self.charon.sas}
        for tunnel, plan in desired.tunnels.items():
            if not plan.initiator and tunnel.connection in self.charon.connections and tunnel.connection not in have:
                self.charon.establish(tunnel.connection)
        for sa in self.charon.sas:
            for child in sa.children:
                child.packets_in += 1

    def let_peers_follow(self) -> bool:
        """Whose suite is taken beside another one changes it too; whether there was one."""
        names = [name for name, body in self.charon.connections.items() if len(body.get("proposals", ())) > 1]
        for name in names:
            self.charon.sas = [sa for sa in self.charon.sas if sa.connection != name]
            self.charon.establish(name)
        return bool(names)

    async def settle(self, spec: GatewaySpec) -> None:
        """Passes until nothing is to be done."""
        for _ in range(PATIENCE):
            if not await self.one_pass(spec) and not self.let_peers_follow():
                return
        raise AssertionError(f"not settled after {PATIENCE} passes:\n" + "\n".join(map(str, self.done[-20:])))

    async def restart(self) -> None:
        """Another daemon, which remembers nothing but its numbers."""
        await self.adapter.close()
        self.adapter = CharonAdapter(self.charon.path, deadline=5)
        self.memory, self.fabric = Memory(), Listener()
        self.waves = None if self.waves is None else Waves()

    def foreign(self) -> list[str]:
        """Everything that is not ours, as text."""
        charon = [line for line in self.charon.render().splitlines() if "ikeorch" not in line and "key" not in line]
        return [line for line in self.kernel.render().splitlines() if "foreign" in line or "strange" in line] + charon

    def state(self) -> list[str]:
        """Everything, as text; IKE_SAs without their numbers."""
        connections = [f"{name}: {body}" for name, body in sorted(self.charon.connections.items())]
        return [
            *self.kernel.render().splitlines(),
            *self.charon.render().splitlines(),
            *connections,
            str(self.fabric.wish),
        ]


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Gateway]:
    """A gateway on which nothing of ours is yet."""
    kernel = FakeKernel(*DEVICES)
    kernel.settings = Settings(kernel)
    kernel.devices["strange0"] = FakeDevice(if_id=4_000_000)
    kernel.foreign_next_hops.add(5)
    kernel.foreign_routes.add(("10.99.0.0/16", 100))
    async with FakeCharon(folder / "charon.vici") as charon:
        charon.connections["office"] = {"children": {"office": {}}}
        charon.authorities.add("office-ca")
        child = FakeChildSa(name="office", unique_id=900_001, if_id=0)
        office = FakeIkeSa("office", 900_000, "192.0.2.1", "198.18.0.1", "us", "them", "ESTABLISHED", [child])
        charon.sas.append(office)
        adapter = CharonAdapter(charon.path, deadline=5)
        built = Gateway(kernel, charon, adapter)
        yield built
        await built.adapter.close()
