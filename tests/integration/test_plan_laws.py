"""Laws of plans, for configurations at random: done once they are empty, their order does not matter, and nothing goes
that is not ours or could not be seen."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from itertools import combinations
from pathlib import Path

from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ikeorch.core.kernel_state import NextHopGroup, PrefixRoute
from ikeorch.core.plan import Advertise, EnsureObject, Initiate, LoadConnection, Operation, RemoveObject, Terminate
from ikeorch.core.planner import Planned
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.waves import Waves, hold_back
from tests.configurations import Tree, build, configurations, trees
from tests.integration.plan_world import Gateway, gateway

LAW = settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
"""The same examples in every run; not made smaller when one fails, since each takes a while."""


def on_a_gateway(story: Callable[[Gateway], Awaitable[None]]) -> None:
    """Tell a story on a gateway on which nothing of ours is yet."""

    async def tell() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with gateway(Path(folder)) as ours:
                before = ours.foreign()
                assert len(before) == 6
                await story(ours)
                assert before == ours.foreign()

    asyncio.run(tell())


def assert_established(ours: Gateway, planned: Planned) -> None:
    """Each tunnel has one IKE_SA, and those that we initiate were established with what is configured now."""
    desired = planned.desired
    sas = [sa for sa in ours.charon.sas if sa.connection != "office"]
    assert sorted(sa.connection for sa in sas) == sorted(tunnel.connection for tunnel in desired.tunnels)
    for sa in sas:
        plan = next(plan for tunnel, plan in desired.tunnels.items() if tunnel.connection == sa.connection)
        if plan.initiator:
            assert (sa.local, sa.remote) == (str(plan.path.local), str(plan.path.remote))
            assert (sa.local_id, sa.remote_id) == (plan.local_id, plan.remote_id)
            assert [child.if_id for child in sa.children] == [plan.if_id]


@settings(LAW, max_examples=25)
@given(configurations(), configurations())
def test_a_plan_that_was_done_is_empty(first: GatewaySpec, second: GatewaySpec) -> None:
    """From nothing to one configuration, and on to another one; strangers' things stay as they were."""

    async def story(ours: Gateway) -> None:
        for spec in (first, second):
            await ours.settle(spec)
            planned = await ours.plan(spec)
            assert planned.actions == ()
            assert planned.expected == planned.desired.fabric
            assert_established(ours, planned)

    on_a_gateway(story)


@settings(LAW, max_examples=25)
@given(configurations(), configurations())
def test_one_pass_does_all_that_needs_no_proof(first: GatewaySpec, second: GatewaySpec) -> None:
    """What a plan says is what happens: left are IKE_SAs, and what packets must prove before it may be used."""

    async def story(ours: Gateway) -> None:
        for spec in (first, second):
            await ours.one_pass(spec)
            left = [action.operation for action in (await ours.plan(spec)).actions]
            assert [each for each in left if not needs_proof(each)] == []

    on_a_gateway(story)


def needs_proof(operation: Operation) -> bool:
    """Whether it waits for packets, or for an answer of charon's."""
    match operation:
        case EnsureObject(NextHopGroup() | PrefixRoute()) | RemoveObject(NextHopGroup() | PrefixRoute()):
            return True
        case Advertise() | Initiate() | Terminate():
            return True
        case _:
            return False


def aspects(tree: Tree) -> dict[str, tuple[Tree, list[str]]]:
    """Parts of a configuration that change independently of one another: where they stand, and their keys."""
    found: dict[str, tuple[Tree, list[str]]] = {
        "identity": (tree["gateway"], ["identity"]),
        "asn": (tree["gateway"], ["asn", "router_id"]),
        "prefixes": (tree["gateway"], ["prefixes"]),
        "uplinks": (tree["gateway"], ["uplinks"]),
        "leafs": (tree["fabric"], ["neighbors"]),
        "fabric": (tree["fabric"], ["gateways_in_site", "bandwidth_scale"]),
    }
    for peer in tree["peers"]:
        name, tunnels = peer["name"], peer["tunnels"]
        found[f"{name} identity"] = (peer, ["identity", "asn"])
        found[f"{name} inner"] = (peer, ["inner", "prefixes"])
        found[f"{name} initiate"] = (peer, ["initiate"])
        found[f"{name} capacity"] = (tunnels, ["capacity"])
        found[f"{name} suite"] = (tunnels, ["suite", "rekey_time", "dpd_delay", "replay_window", "mobike"])
        found[f"{name} mtu"] = (tunnels, ["mtu"])
        if "identities" not in tunnels:
            found[f"{name} count"] = (tunnels, ["count"])
    return found


def changed(tree: Tree, other: Tree, names: Iterable[str]) -> Tree:
    """The tree with some of its aspects as they are in another one."""
    result = copy.deepcopy(tree)
    target, source = aspects(result), aspects(other)
    for name in names:
        (here, keys), (there, _) = target[name], source[name]
        here.update({key: there[key] for key in keys if key in there})
    return result


@settings(LAW, max_examples=30)
@given(trees(), trees(), st.data())
def test_the_order_of_changes_does_not_matter(before: Tree, other: Tree, data: st.DataObject) -> None:
    """Two changes, one after the other in either order, or both at once: the same kernel, charon and fabric."""
    common = sorted(name for name in aspects(before) if name in aspects(other))
    first, second = data.draw(st.permutations(common).map(lambda names: (names[0], names[1])))
    start, both = build(before), build(changed(before, other, [first, second]))
    ways = [build(changed(before, other, [name])) for name in (first, second)]
    assume(start is not None and both is not None and None not in ways)
    ends = []
    for way in (*ways, None):

        async def story(ours: Gateway, way: GatewaySpec | None = way) -> None:
            # a number is given to whoever comes first, and kept
            for spec in (start, *ways, both):
                assert spec is not None
                await ours.look(spec)
            for spec in (start, way, both):
                if spec is not None:
                    await ours.settle(spec)
            ends.append(ours.state())

        on_a_gateway(story)
    assert ends[0] == ends[1]
    assert ends[0] == ends[2]


BLIND = [frozenset(sees) for count in range(3) for sees in combinations(("kernel", "charon", "credentials"), count)]
"""Whenever something cannot be read: what can."""


@settings(LAW, max_examples=25)
@given(configurations(), configurations(), st.sampled_from(BLIND))
def test_nothing_goes_that_could_not_be_seen(
    first: GatewaySpec, second: GatewaySpec, while_done: frozenset[str]
) -> None:
    """What cannot be read is left alone, whatever the configuration says now; once it is seen all is done."""

    async def story(ours: Gateway) -> None:
        everything = ours.sees
        await ours.settle(first)
        for ours.sees in BLIND:
            for operation in (action.operation for action in (await ours.plan(second)).actions):
                kernel = isinstance(operation, EnsureObject | RemoveObject | Advertise)
                assert ("kernel" if kernel else "charon") in ours.sees
                assert kernel or "credentials" in ours.sees
        ours.sees = while_done
        for _ in range(3):
            await ours.one_pass(second)
        ours.sees = everything
        await ours.settle(second)
        assert (await ours.plan(second)).actions == ()

    on_a_gateway(story)


@settings(LAW, max_examples=25)
@given(configurations(), configurations())
def test_waves_end_where_the_plan_does(first: GatewaySpec, second: GatewaySpec) -> None:
    """Half a bundle at a time, whatever changes; in the end as if all had been done at once."""

    async def story(ours: Gateway) -> None:
        await ours.settle(first)
        ours.waves = Waves()
        sizes = {peer.name: peer.tunnels.count for peer in second.peers}
        for _ in range(150):
            pending = await ours.one_pass(second)
            touched = Counter(
                tunnel.peer for tunnel in (ours.waves.spared() - ours.waves.leaving()) | ours.renewals.spared()
            )
            assert all(count <= max(1, sizes[peer] // 2) for peer, count in touched.items() if peer in sizes)
            if not pending and not ours.let_peers_follow():
                break
        planned = await ours.plan(second)
        # an address that the peer's IKE_SAs run on is given up once the peer has moved
        assert hold_back(planned.actions, ours.waves, planned.desired, planned.actual) == ()
        assert ours.waves == Waves()
        assert_established(ours, planned)

    on_a_gateway(story)


@settings(LAW, max_examples=20)
@given(configurations())
def test_another_daemon_adopts_what_it_finds(spec: GatewaySpec) -> None:
    """It remembers nothing, the prober knows none of the tunnels yet, or some: no IKE_SA, group or route is touched."""

    async def story(ours: Gateway) -> None:
        await ours.settle(spec)
        before = ours.state()
        await ours.restart()
        for ours.knows in (lambda _: False, lambda tunnel: tunnel.index % 2 == 0):
            operations = [action.operation for action in (await ours.plan(spec)).actions]
            assert all(isinstance(operation, LoadConnection | Advertise) for operation in operations)
        await ours.settle(spec)
        assert before == ours.state()

    on_a_gateway(story)
