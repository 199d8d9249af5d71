"""What has a tunnel's if_id is the tunnel's, whatever name it carries."""

from __future__ import annotations

from dataclasses import replace

from ikeorch.core.actual import Actual
from ikeorch.core.adopt import adopt
from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.desired import Desired
from ikeorch.core.diff import diff_states
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelState, XfrmInterface
from ikeorch.core.plan import Impact, LoadConnection, UnloadConnection
from ikeorch.core.renew import FORMER_NAME, Renewal, Renewals, Standing, plan_renewals
from ikeorch.core.units import Seconds
from tests.examples import CREDENTIALS, allocations, desired_of, gateway_a

SPEC = gateway_a()
RENAMED = replace(SPEC, peers=(replace(SPEC.peers[0], name="gw-x"),))
NUMBERS = allocations(RENAMED)
"""The same numbers as before, under the new name."""


def desire(name: str = "gw-x") -> Desired:
    """What should be, with the peer under a name."""
    spec = replace(SPEC, peers=(replace(SPEC.peers[0], name=name),))
    return desired_of(spec)


def sa(connection: str, if_id: int, number: int = 1) -> IkeSa:
    """A live IKE_SA."""
    child = ChildSa(name=connection, unique_id=number, state=ChildState.INSTALLED, if_id_in=if_id, packets_in=5)
    return IkeSa(connection=connection, unique_id=number, state=IkeState.ESTABLISHED, children=(child,))


def world(*sas: IkeSa) -> Actual:
    """Everything as it was under the old name."""
    old = desire("gw-b")
    assert old.connections is not None
    charon = CharonState(
        version="5.9.8",
        started="1",
        connections=frozenset(old.connections),
        loaded=old.connections,
        authorities=frozenset({CREDENTIALS.ca_id}),
        keys=frozenset({CREDENTIALS.key_id}),
        sas=sas,
    )
    return Actual(kernel=KernelState(objects=dict(old.kernel), resilient=True), charon=charon)


ALL = tuple(sa(f"ikeorch.gw-b.{index}", NUMBERS.if_id(TunnelId("gw-x", index)), index + 1) for index in range(4))


def test_interfaces_and_sas_of_the_former_name_are_the_tunnels() -> None:
    """Nothing counts as missing or left over; what it is called is remembered of an SA."""
    adopted = adopt(world(*ALL), RENAMED, NUMBERS)
    assert adopted.kernel is not None
    assert adopted.charon is not None
    interfaces = [entry for entry in adopted.kernel.objects.values() if isinstance(entry, XfrmInterface)]
    assert sorted(str(entry.tunnel) for entry in interfaces) == [f"gw-x/{index}" for index in range(4)]
    assert {(each.connection, each.former) for each in adopted.charon.sas} == {
        (f"ikeorch.gw-x.{index}", f"ikeorch.gw-b.{index}") for index in range(4)
    }
    assert adopt(adopted, RENAMED, NUMBERS) == adopted


def test_what_has_no_tunnels_number_keeps_its_name() -> None:
    """Somebody else's if_id, none at all, or an SA that is only being set up."""
    connecting = replace(sa("ikeorch.gw-b.0", 1), state=IkeState.CONNECTING, children=())
    for each in (sa("ikeorch.gw-b.0", 999), sa("ikeorch.gw-b.0", 0), connecting):
        adopted = adopt(world(each), RENAMED, NUMBERS)
        assert adopted.charon is not None
        assert adopted.charon.sas == (each,)
    nothing = Actual(kernel=None, charon=None)
    assert adopt(nothing, RENAMED, NUMBERS) == nothing


def test_a_former_holder_of_the_name_is_not_taken_for_the_tunnel() -> None:
    """gw-b went, and another peer is called gw-b now: only the interface with the right number is its tunnel's."""
    found = world()
    assert found.kernel is not None
    spec = replace(SPEC, peers=(replace(SPEC.peers[0], identity="gw-z.dc.example"),))
    given = replace(NUMBERS, numbers={wanted: number + 100 for wanted, number in allocations(SPEC).numbers.items()})
    own = XfrmInterface(name="ikx101", tunnel=TunnelId("gw-c", 0), if_id=101, underlay="eth1", mtu=1400, addresses=())
    objects = {**found.kernel.objects, own.key: own}
    adopted = adopt(replace(found, kernel=replace(found.kernel, objects=objects)), spec, given)
    assert adopted.kernel is not None
    holders = [
        entry.name
        for entry in adopted.kernel.objects.values()
        if isinstance(entry, XfrmInterface) and entry.tunnel == TunnelId("gw-b", 0)
    ]
    assert holders == ["ikx101"]


def test_the_plan_of_a_rename_costs_no_outage() -> None:
    """The alias in place, connections anew, each IKE_SA replaced one tunnel at a time; no group, no route."""
    desired, found = desire(), world(*ALL)
    adopted = adopt(found, RENAMED, NUMBERS)
    plan = diff_states(desired, replace(adopted, kernel=found.kernel))
    assert {type(action.operation).__name__ for action in plan} == {
        "EnsureObject",
        "LoadConnection",
        "UnloadConnection",
    }
    interfaces = [action for action in plan if type(action.operation).__name__ == "EnsureObject"]
    assert {action.reason for action in interfaces} == {f"differs: tunnel gw-b/{i} -> gw-x/{i}" for i in range(4)}
    assert {action.impact for action in interfaces} == {Impact.NONE}
    loads = [action for action in plan if isinstance(action.operation, LoadConnection)]
    assert {action.impact for action in loads} == {Impact.REESTABLISH}
    assert loads[0].reason == "its peer has another name now; its IKE_SA is of ikeorch.gw-b.0"
    assert sum(isinstance(action.operation, UnloadConnection) for action in plan) == 4


def test_what_is_known_of_sas_goes_along_with_the_name() -> None:
    """And back again: a suite that was still to be changed is not forgotten. What was under way begins anew."""
    under_way = Renewal(since=Seconds(1), old_ids=frozenset({1}), old_children=frozenset({1}))
    before = Renewals(
        standings={
            TunnelId("gw-b", 0): Standing(made_with="abc", renewal=under_way, failures=2),
            TunnelId("gw-c", 0): Standing(made_with="def", renewal=under_way),
        }
    )
    after = before.renamed({"gw-b": "gw-x", "gw-x": "gw-b"})
    assert after.standings == {
        TunnelId("gw-x", 0): Standing(made_with="abc", failures=2),
        TunnelId("gw-c", 0): Standing(made_with="def", renewal=under_way),
    }
    assert after.renamed({"gw-x": "gw-b", "gw-b": "gw-x"}).standings[TunnelId("gw-b", 0)].made_with == "abc"


def test_sas_of_the_former_name_are_replaced_though_nobody_remembers_them() -> None:
    """After a restart, or with a database that could not be written: the name itself says that they are old."""
    adopted = adopt(world(*ALL), RENAMED, NUMBERS)
    assert adopted.charon is not None
    _, renewals = plan_renewals(desire(), adopted.charon, Renewals(), now=Seconds(100))
    assert {standing.made_with for standing in renewals.standings.values()} == {FORMER_NAME}
