"""The loop: wake, snapshot, desired, diff, act, record. Level-triggered; events only say that it is time to look.

Invariants: one pass at a time; a snapshot that failed causes no deletion; a second pass over an unchanged world does
nothing; a look or an action that fails does not end the loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import replace

from ikeorch.core.actual import Actual
from ikeorch.core.adopt import adopt
from ikeorch.core.agreed import Agreed, find_unmoved
from ikeorch.core.allocate import Allocations
from ikeorch.core.conditions import Code, Condition, carry_over, next_clearing
from ikeorch.core.desired import Desired, compute_desired
from ikeorch.core.establish import Memory, next_wake
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Action, describe_operation
from ikeorch.core.planner import World, plan_actions
from ikeorch.core.refusal import Refusal
from ikeorch.core.refusals import Refusals
from ikeorch.core.rename import heard_names
from ikeorch.core.renew import next_renewal, outstanding
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.status import (
    TunnelStatus,
    describe_tunnels,
    find_conditions,
    find_expiry,
)
from ikeorch.core.units import Seconds
from ikeorch.core.waves import Waves, hold_back, next_turn, plan_waves
from ikeorch.daemon.credentials import LoadedCredentials
from ikeorch.daemon.execute import Executor, Failure
from ikeorch.daemon.failover import Failover
from ikeorch.daemon.journal import log_actions, log_conditions, log_pass
from ikeorch.daemon.look import Look
from ikeorch.daemon.numbers import Numbers
from ikeorch.daemon.pace import Pace
from ikeorch.daemon.pass_result import PassResult
from ikeorch.daemon.ports import CharonPort, FabricPort, KernelPort, ProbePort
from ikeorch.daemon.targets import probe_targets
from ikeorch.errors import IkeorchError
from ikeorch.store.agreed import AgreedSuites
from ikeorch.store.database import Store
from ikeorch.store.made_with import MadeWith
from ikeorch.store.names import HeardNames

FAILURE_RETRY = Seconds(2.0)


class Reconciler:
    """Brings the world to the configuration and keeps it there.

    Args:
        spec: the configuration.
        kernel: the kernel.
        charon: charon.
        prober: the prober.
        fabric: the leafs.
        store: where given numbers are kept.

    Raises:
        StoreError: it cannot be read.
    """

    def __init__(
        self,
        spec: GatewaySpec,
        *,
        kernel: KernelPort,
        charon: CharonPort,
        prober: ProbePort,
        fabric: FabricPort,
        store: Store,
    ) -> None:
        self._spec = spec
        self._vici_socket = spec.vici_socket
        self._prober = prober
        self._look = Look(kernel, charon, fabric)
        self._numbers = Numbers(store)
        self._failover = Failover(kernel, fabric)
        self._executor = Executor(kernel, charon, fabric, self._failover.lock)
        self._health = asyncio.Event()
        self._pace = Pace()
        self._verdicts: dict[TunnelId, Verdict] = {}
        self._memory = Memory()
        self._waves = Waves()
        self._made_with = MadeWith(store)
        self._renewals = self._made_with.load()
        self._agreed = AgreedSuites(store)
        self._heard = HeardNames(store)
        self._refusals = Refusals()
        self._passes = 0
        self.begun = 0
        """Number of the newest pass that has begun; a later one knows all that was put in force until now."""
        self._finished = asyncio.Condition()
        self._random = random.SystemRandom()
        self._outside: dict[Code, Condition] = {}
        self.last: PassResult | None = None

    @property
    def spec(self) -> GatewaySpec:
        """The configuration in force."""
        return self._spec

    def set_spec(self, spec: GatewaySpec, reason: str) -> None:
        """Put a configuration in force; if it is another one, the next pass brings the world to it."""
        same = spec == self._spec and Code.CONFIG_INVALID not in self._outside
        self._refusals.forget(self._spec, spec)
        self._spec = spec
        self._outside.pop(Code.CONFIG_INVALID, None)
        if not same:
            self.wake(reason)

    def refuse_config(self, message: str) -> None:
        """Tell users that the file on disk is not in force because it is invalid."""
        self.set_condition(Code.CONFIG_INVALID, Condition(code=Code.CONFIG_INVALID, subject="", message=message))

    def set_condition(self, code: Code, condition: Condition | None) -> None:
        """Show a condition of which only others know, or take it away."""
        known = self._outside.pop(code, None)
        if condition is not None:
            self._outside[code] = condition
        if (known is None) != (condition is None):
            self.wake(f"{code.value} {'raised' if condition else 'cleared'}")

    def wake(self, reason: str) -> None:
        """Ask for a pass soon."""
        self._pace.wake(reason)

    def refused(self, refusal: Refusal) -> None:
        """An IKE exchange was refused, here or by a peer."""
        if self._refusals.add(refusal, Seconds(time.monotonic())):
            self.wake(f"{refusal.tunnel or refusal.remote} refused")

    async def wait_for_pass(self, after: int, patience: Seconds) -> PassResult | None:
        """Wait until a pass with a number above `after` is finished, at most `patience` seconds; then the last one."""
        try:
            async with asyncio.timeout(patience), self._finished:
                await self._finished.wait_for(lambda: self._passes > after and self.last is not None)
        except TimeoutError:
            pass
        return self.last

    def require_pass(self) -> PassResult:
        """The last pass.

        Raises:
            IkeorchError: the first one is not finished.
        """
        if self.last is None:
            raise IkeorchError("the daemon has not finished its first pass", hint="try again in a moment")
        return self.last

    async def run(self) -> None:
        """Run until cancelled."""
        self.wake("start")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_health(), name="health")
            group.create_task(self._loop(), name="loop")

    async def _loop(self) -> None:
        timer: Seconds | None = None
        while True:
            reasons = await self._pace.turn(timer)
            began = time.monotonic()
            result = await self.run_pass(reasons)
            took = time.monotonic() - began
            now = Seconds(time.monotonic())
            timers = (
                next_wake(self._memory, now),
                next_renewal(self._renewals, now),
                next_turn(self._waves, now),
                self._refusals.next_change(now),
                next_clearing(result.conditions),
            )
            timer = min((due for due in timers if due is not None), default=None)
            if result.failures or self._numbers.problem:
                timer = Seconds(min(timer or now + FAILURE_RETRY, now + FAILURE_RETRY))
            await self._pace.rest(took)

    def health_changed(self) -> None:
        """The prober has news."""
        self._health.set()

    async def _watch_health(self) -> None:
        """Act on every change of a verdict at once, and have a pass do the rest."""
        while True:
            await self._health.wait()
            self._health.clear()
            before, self._verdicts = self._verdicts, self._read_verdicts()
            if await self._failover.repair(self._verdicts):
                self._pace.repaired()
            for tunnel, verdict in self._verdicts.items():
                if verdict is not before.get(tunnel, Verdict.UNKNOWN):
                    self.wake(f"{tunnel} is {verdict.value}")
            self.wake("probes")

    def _read_verdicts(self) -> dict[TunnelId, Verdict]:
        ours = self._waves.spared() | self._renewals.moving()
        return {
            tunnel: Verdict.SPARED if state.verdict is Verdict.UP and (state.spare or tunnel in ours) else state.verdict
            for tunnel, state in self._prober.states().items()
        }

    async def run_pass(self, reasons: Sequence[str]) -> PassResult:
        """One pass: look, compare, act, record.

        Args:
            reasons: why, for the log.
        """
        began = time.monotonic()
        self.begun = self._passes + 1
        spec = self._spec
        found: list[Condition] = list(self._outside.values())
        if spec.vici_socket != self._vici_socket:
            message = f"gateway.vici_socket is {spec.vici_socket} now, {self._vici_socket} is used"
            found.append(Condition(code=Code.RESTART_NEEDED, subject="", message=message))
        credentials = self._look.credentials(spec, found)
        changes = self._numbers.changes(spec)
        self._agreed.rename(changes)
        self._renewals = self._renewals.renamed(changes)
        allocations = self._numbers.allocate(spec)
        if self._numbers.problem:
            found.append(Condition(code=Code.STORE_FAILED, subject="", message=self._numbers.problem))
        if credentials is not None:
            found.extend(find_expiry(credentials.bundle, Seconds(time.time())))
        found_world = await self._look.world(spec, allocations, found)
        actual = adopt(found_world, spec, allocations)
        now = Seconds(time.monotonic())
        if self._prober.problem:
            found.append(Condition(code=Code.PROBER_UNREACHABLE, subject="", message=self._prober.problem))
        self._verdicts = self._read_verdicts()
        outdated = self._failover.begin_pass()
        agreed = self._agreed.observe(spec, actual.charon)
        desired = self._compute(spec, allocations, actual, credentials, agreed)
        spared = self._waves.spared() | self._renewals.moving()
        self._waves = plan_waves(
            desired, actual, self._waves, self._prober.states(), renewing=self._renewals.spared(), now=now
        )
        planned, self._memory, self._renewals = plan_actions(
            desired,
            actual,
            self._memory,
            self._renewals,
            found=replace(actual, kernel=found_world.kernel),
            touched=self._waves.spared(),
            held=self._waves.no_renewal(desired.tunnels),
            now=now,
            jitter=self._random.random(),
        )
        planned = hold_back(planned, self._waves, desired, actual)
        if self._waves.spared() | self._renewals.moving() != spared:
            self.wake("tunnels spared")
        self._made_with.keep(self._renewals)
        done, failures = await self._executor.run(
            planned,
            credentials.bundle if credentials else None,
            credentials.key if credentials else None,
            outdated=outdated,
        )
        if actual.kernel is not None:
            resilient = actual.kernel.resilient
            self._failover.end_pass(spec, allocations, desired, resilient=resilient, outdated=outdated())
            spared = self._renewals.spared()
            self._heard.keep(heard_names(spec, self._prober.states(), self._heard.now))
            self._prober.set_targets(
                probe_targets(spec, desired, actual, spared=spared, waves=self._waves, heard=self._heard.now)
            )
        tunnels = describe_tunnels(desired, actual, self._prober.states(), self._verdicts)
        found.extend(
            find_conditions(
                desired, actual, tunnels, memory=self._memory, renewals=self._renewals, waves=self._waves, now=now
            )
        )
        found.extend(find_unmoved(spec, agreed))
        self._refusals.settle(tunnels, now)
        found.extend(self._refusals.conditions(desired))
        found.extend(_failed(failure) for failure in failures)
        result = await self._record(
            spec=spec,
            desired=desired,
            actual=actual,
            planned=planned,
            failures=failures,
            tunnels=tunnels,
            found=found,
        )
        log_actions(done, failures)
        log_pass(
            number=result.number,
            done=len(done),
            failed=len(failures),
            reasons=reasons,
            duration_seconds=time.monotonic() - began,
        )
        if done:
            self.wake("check what was done")
        return result

    async def look(self, spec: GatewaySpec, *, every_device: bool = False) -> tuple[World, tuple[Condition, ...]]:
        """All that a plan is made from, and what could not be seen.

        Args:
            spec: the configuration that is planned.
            every_device: look at the settings of devices that this configuration does not name, too.
        """
        found: list[Condition] = []
        credentials = self._look.credentials(spec, found)
        actual = await self._look.world(spec, self._numbers.preview(spec), found, every_device=every_device)
        world = World(
            numbers=self._numbers.given(),
            credentials=credentials.bundle if credentials else None,
            actual=actual,
            verdicts=self._verdicts,
            memory=self._memory,
            renewals=self._renewals,
            now=Seconds(time.monotonic()),
            names=self._numbers.names(),
            agreed=self._agreed.now,
        )
        return world, tuple(found)

    def _compute(
        self,
        spec: GatewaySpec,
        allocations: Allocations,
        actual: Actual,
        credentials: LoadedCredentials | None,
        agreed: Agreed,
    ) -> Desired:
        kernel = actual.kernel
        return compute_desired(
            spec,
            allocations,
            credentials=credentials.bundle if credentials else None,
            verdicts=self._verdicts,
            grouped=actual.grouped_tunnels(),
            resilient=kernel.resilient if kernel else False,
            underlay_mtu=kernel.devices if kernel else {},
            agreed=agreed,
        )

    async def _record(
        self,
        *,
        spec: GatewaySpec,
        desired: Desired,
        actual: Actual,
        planned: tuple[Action, ...],
        failures: tuple[Failure, ...],
        tunnels: tuple[TunnelStatus, ...],
        found: list[Condition],
    ) -> PassResult:
        now = Seconds(time.time())
        before = self.last.conditions if self.last else ()
        async with self._finished:
            self._passes += 1
            self.last = PassResult(
                number=self._passes,
                finished=now,
                spec=spec,
                desired=desired,
                actual=actual,
                planned=planned,
                failures=failures,
                tunnels=tunnels,
                conditions=carry_over(found, before, wall=now, now=Seconds(time.monotonic())),
                renewing=outstanding(desired, self._renewals),
                waves=self._waves,
                refused=self._renewals.refused(),
            )
            self._finished.notify_all()
        log_conditions(before, self.last.conditions)
        return self.last


def _failed(failure: Failure) -> Condition:
    subject = describe_operation(failure.action.operation)
    return Condition(code=Code.ACTION_FAILED, subject=subject, message=str(failure.error))
