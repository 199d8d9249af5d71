"""What a plan says of the leafs: every difference that they would notice, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from ipaddress import ip_address

import pytest

from ikeorch.core.actual import Actual
from ikeorch.core.diff import diff_states
from ikeorch.core.fabric import FabricWish, describe_change, restarted_sessions
from ikeorch.core.fabric_state import FabricState
from ikeorch.core.health import Verdict
from ikeorch.core.kernel_state import KernelState
from ikeorch.core.plan import Advertise, Impact, Symbol
from ikeorch.core.planner import Planned, plan_changes
from ikeorch.core.spec import FabricNeighbor, FabricSpec, GatewaySpec, WhenUnreachable
from tests.examples import gateway_a, world_of

LEAF = FabricNeighbor(address=ip_address("10.0.0.254"), asn=65001)
OTHER = FabricNeighbor(address=ip_address("10.0.0.253"), asn=65001)
SPEC = replace(gateway_a(), fabric=FabricSpec(neighbors=(LEAF,), bandwidth_scale=Fraction(1, 8)))
UP = dict.fromkeys(SPEC.peers[0].tunnel_ids, Verdict.UP)


def fabric(**changes: object) -> GatewaySpec:
    """The same gateway with another fabric."""
    return replace(SPEC, fabric=replace(SPEC.fabric, **changes))  # type: ignore[arg-type]


def told(spec: GatewaySpec) -> FabricWish:
    """What the leafs hear once all tunnels are up."""
    return plan_changes(spec, world_of(spec, verdicts=UP)).desired.fabric


@pytest.mark.parametrize(
    ("after", "change", "restarted"),
    [
        (fabric(neighbors=(LEAF, OTHER)), "+ neighbour 10.0.0.253 AS65001", False),
        (fabric(neighbors=(OTHER,)), "- neighbour 10.0.0.254, + neighbour 10.0.0.253 AS65001", False),
        (fabric(neighbors=(replace(LEAF, asn=65002),)), "~ neighbour 10.0.0.254 AS65001 -> AS65002", True),
        (fabric(neighbors=(replace(LEAF, transitive=True),)), "~ neighbour 10.0.0.254 transitive", False),
        (fabric(gateways_in_site=2), "~ gateways in site 1 -> 2", True),
        (fabric(when_unreachable=WhenUnreachable.WITHDRAW), "~ when unreachable keep -> withdraw", False),
        (replace(SPEC, asn=65011), "~ our AS 65010 -> 65011", True),
        (replace(SPEC, router_id="10.0.255.9"), "~ router id 10.0.255.1 -> 10.0.255.9", True),
        (
            fabric(bandwidth_scale=Fraction(1, 16)),
            "~ 10.2.0.0/16 200G, ~ fd00:b::/48 200G, ~ bandwidth scale 1/8 -> 1/16",
            False,
        ),
    ],
)
def test_what_changes_is_named_and_a_session_that_begins_anew_is_a_risk(
    after: GatewaySpec, change: str, *, restarted: bool
) -> None:
    """One action; an outage only where both ends must say the new value in their OPEN message."""
    before, wanted = told(SPEC), told(after)
    assert change == describe_change(before, wanted)
    assert bool(restarted_sessions(before, wanted)) == restarted
    planned = plan_changes(after, world_of(after, verdicts=UP))
    actual = Actual(kernel=KernelState(objects=planned.desired.kernel), charon=None, fabric=FabricState(wish=before))
    (action,) = diff_states(planned.desired, actual)
    assert isinstance(action.operation, Advertise)
    assert (action.impact, action.symbol) == (
        (Impact.OUTAGE, Symbol.RISK) if restarted else (Impact.NONE, Symbol.CHANGE)
    )
    assert ("begins anew" in action.reason) == restarted


def test_what_the_leafs_hear_later_is_said_before() -> None:
    """Two tunnels more carry nothing yet: their capacity is told once packets have proved them, and by whom."""
    spec = more_tunnels(6)
    planned = plan_changes(spec, world_of(spec, verdicts=UP))
    assert {route.bandwidth for route in planned.desired.fabric.routes} == {4 * 50e9 / 64}
    assert {route.bandwidth for route in planned.expected.routes} == {6 * 50e9 / 64}
    assert [str(tunnel) for tunnel in planned.unproven] == ["gw-b/4", "gw-b/5"]


@pytest.mark.parametrize("verdict", [Verdict.UP, Verdict.DOWN])
def test_nothing_is_promised_of_tunnels_that_are_judged(verdict: Verdict) -> None:
    """Where all carry there is nothing to come; one that is down is no promise."""
    verdicts = {**UP, SPEC.peers[0].tunnel_ids[0]: verdict}
    planned: Planned = plan_changes(SPEC, world_of(SPEC, verdicts=verdicts))
    assert planned.expected == planned.desired.fabric
    assert planned.unproven == ()


def more_tunnels(count: int) -> GatewaySpec:
    """The bundle with so many tunnels."""
    (peer,) = SPEC.peers
    return replace(SPEC, peers=(replace(peer, tunnels=replace(peer.tunnels, count=count)),))
