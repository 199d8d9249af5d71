"""From a configuration and one look at the world to the whole plan, without doing anything.

The loop, ``ikeorch plan`` and ``plan --offline`` all make their plans here, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ikeorch.core.actual import Actual
from ikeorch.core.adopt import adopt
from ikeorch.core.agreed import Agreed, observe_suites
from ikeorch.core.allocate import Allocations, Wanted
from ikeorch.core.desired import CredentialBundle, Desired, compute_desired, plan_routes, with_spared
from ikeorch.core.diff import diff_states
from ikeorch.core.establish import Memory, plan_sas
from ikeorch.core.fabric import FabricWish, compute_fabric
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Action
from ikeorch.core.rename import give_numbers
from ikeorch.core.renew import Renewals, plan_renewals
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a plan is made from, but for the configuration.

    Attributes:
        numbers: all numbers given so far.
        credentials: what the credential files hold, None while they cannot be read.
        actual: what was found.
        verdicts: health of each tunnel, missing means unknown.
        memory: what the last pass remembered of the IKE_SAs being set up.
        renewals: and of those being replaced.
        now: monotonic seconds, the clock of `memory` and `renewals`.
        names: the peers' names that the numbers belong to, by identity.
        agreed: the suites in use.
    """

    numbers: Mapping[Wanted, int]
    credentials: CredentialBundle | None
    actual: Actual
    verdicts: Mapping[TunnelId, Verdict]
    memory: Memory
    renewals: Renewals
    now: Seconds
    names: Mapping[str, str] = field(default_factory=dict)
    agreed: Agreed = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, with what it was made from.

    Attributes:
        spec: the configuration.
        desired: what should be.
        actual: what was found.
        actions: in order; empty when nothing differs.
        unproven: tunnels that would carry once packets have proved them.
        expected: what the fabric is told once they are proved; the same as `desired.fabric` where there are none.
    """

    spec: GatewaySpec
    desired: Desired
    actual: Actual
    actions: tuple[Action, ...]
    unproven: tuple[TunnelId, ...]
    expected: FabricWish


def plan_changes(spec: GatewaySpec, world: World) -> Planned:
    """What a pass would do with a configuration in this world.

    Raises:
        ExhaustedError: a kind of number is used up.
    """
    allocations = Allocations(give_numbers(world.numbers, world.names, spec)[0])
    actual = adopt(world.actual, spec, allocations)
    found = replace(actual, kernel=world.actual.kernel)
    kernel = actual.kernel
    grouped = actual.grouped_tunnels()
    resilient = kernel.resilient if kernel else False
    desired = compute_desired(
        spec,
        allocations,
        credentials=world.credentials,
        verdicts=world.verdicts,
        grouped=grouped,
        resilient=resilient,
        underlay_mtu=kernel.devices if kernel else {},
        agreed=observe_suites(spec, actual.charon, world.agreed),
    )
    # jitter only moves the time of a later attempt
    actions, _, _ = plan_actions(desired, actual, world.memory, world.renewals, found=found, now=world.now, jitter=0.0)
    unknown = {tunnel for tunnel in desired.tunnels if world.verdicts.get(tunnel, Verdict.UNKNOWN) is Verdict.UNKNOWN}
    proved = {**world.verdicts, **dict.fromkeys(unknown, Verdict.UP)}
    _, weights, held = plan_routes(
        spec, desired.tunnels, allocations, verdicts=proved, grouped=grouped, resilient=resilient
    )
    return Planned(
        spec=spec,
        desired=desired,
        actual=found,
        actions=actions,
        unproven=tuple(sorted(tunnel for tunnel in unknown if weights[tunnel] and not desired.weights[tunnel])),
        expected=compute_fabric(spec, with_spared(weights, proved), held),
    )


def plan_actions(
    desired: Desired,
    actual: Actual,
    memory: Memory,
    renewals: Renewals,
    *,
    found: Actual | None = None,
    touched: frozenset[TunnelId] = frozenset(),
    held: frozenset[TunnelId] = frozenset(),
    now: Seconds,
    jitter: float,
) -> tuple[tuple[Action, ...], Memory, Renewals]:
    """All actions in order, and what the next pass must remember.

    Args:
        desired: what should be.
        actual: what was found, under the names that tunnels have now (`adopt`).
        memory: see `World`.
        renewals: see `World`.
        found: what was found with the kernel's objects under the names that they carry, None where these are the same.
        touched: see `plan_renewals`.
        held: see `plan_renewals`.
        now: monotonic seconds.
        jitter: a random number from 0 to 1.
    """
    planned = diff_states(desired, found or actual)
    if actual.charon is None:
        return planned, memory, renewals
    renew_actions, renewals = plan_renewals(desired, actual.charon, renewals, touched=touched, held=held, now=now)
    sa_actions, memory = plan_sas(
        desired,
        actual.charon,
        memory,
        grouped=actual.grouped_tunnels(),
        renewing=renewals.busy(),
        now=now,
        jitter=jitter,
    )
    actions = (*planned, *sa_actions, *renew_actions)
    return tuple(sorted(actions, key=lambda action: action.step)), memory, renewals
