"""A changed connection replaces its live IKE_SAs: make before break, half a bundle at a time, and never by force."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address

import pytest

from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.desired import Desired
from ikeorch.core.establish import CONNECT_TIMEOUT
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import Initiate, Terminate
from ikeorch.core.renew import (
    APPEAR,
    LEAD,
    PROOF,
    RETRY_FIRST,
    Renewals,
    Standing,
    next_renewal,
    outstanding,
    plan_renewals,
)
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.spec import Initiate as WhoInitiates
from ikeorch.core.units import Seconds
from tests.examples import desired_of, gateway_a

TUNNELS = [TunnelId("gw-b", index) for index in range(4)]


def desire(spec: GatewaySpec, **tunnels: object) -> Desired:
    """Gateway A, with options of its bundle changed."""
    peer = replace(spec.peers[0], tunnels=replace(spec.peers[0].tunnels, **tunnels))  # type: ignore[arg-type]
    spec = replace(spec, peers=(peer,))
    return desired_of(spec)


OLD = desire(gateway_a())
NEW = desire(gateway_a(), rekey_time=Seconds(7200))


def sa(
    tunnel: TunnelId,
    number: int,
    *,
    state: IkeState = IkeState.ESTABLISHED,
    child: int | None = None,
    packets: int = 0,
) -> IkeSa:
    """An IKE_SA with one CHILD_SA, whose number is its own unless it was taken over."""
    children: tuple[ChildSa, ...] = ()
    if state is IkeState.ESTABLISHED:
        number_of_child = number if child is None else child
        children = (
            ChildSa(name=tunnel.connection, unique_id=number_of_child, state=ChildState.INSTALLED, packets_in=packets),
        )
    return IkeSa(connection=tunnel.connection, unique_id=number, state=state, initiator=True, children=children)


class World:
    """charon with some IKE_SAs, pass after pass."""

    def __init__(self, desired: Desired = OLD) -> None:
        self.desired = desired
        self.sas = [sa(tunnel, tunnel.index + 1, packets=100) for tunnel in TUNNELS]
        self.renewals = Renewals()
        self.now = 1000.0

    def step(self, seconds: float = 0.1) -> list[Initiate | Terminate]:
        """One pass; what charon is asked to end is ended."""
        self.now += seconds
        assert self.desired.connections is not None
        charon = CharonState(version="5.9.8", started="1", loaded=dict(self.desired.connections), sas=tuple(self.sas))
        actions, self.renewals = plan_renewals(self.desired, charon, self.renewals, now=Seconds(self.now))
        operations = [action.operation for action in sorted(actions, key=lambda action: action.step)]
        asked = [operation for operation in operations if isinstance(operation, Initiate | Terminate)]
        ended = {operation.ike_id for operation in asked if isinstance(operation, Terminate)}
        self.sas = [each for each in self.sas if each.unique_id not in ended]
        return asked

    def add(self, *sas: IkeSa) -> None:
        self.sas += sas


def begun(operations: Iterable[Initiate | Terminate]) -> list[int]:
    """Indices of the tunnels whose successor is begun."""
    return [operation.tunnel.index for operation in operations if isinstance(operation, Initiate)]


def ended(operations: Iterable[Initiate | Terminate]) -> list[int]:
    """Numbers of the IKE_SAs that are ended."""
    return [operation.ike_id for operation in operations if isinstance(operation, Terminate)]


def changed() -> World:
    """A bundle whose connections have just been loaded with another option, and whose peer was asked to spare two."""
    world = World()
    assert world.step() == []
    world.desired = NEW
    assert world.step() == []
    world.now += LEAD
    return world


def test_what_is_found_is_taken_as_it_is() -> None:
    """A daemon that starts renews nothing."""
    world = World()
    assert [world.step() for _ in range(3)] == [[], [], []]
    assert outstanding(OLD, world.renewals) == frozenset()


def test_half_a_bundle_at_a_time_and_the_old_ones_end_last() -> None:
    """Two successors; each old IKE_SA ends once packets came out of its successor; then the next two."""
    world = changed()
    assert begun(world.step()) == [0, 1]
    assert outstanding(NEW, world.renewals) == set(TUNNELS)
    world.add(sa(TUNNELS[0], 11), sa(TUNNELS[1], 12, state=IkeState.CONNECTING))
    assert world.step() == []
    world.sas = [
        replace(each, children=sa(TUNNELS[0], 11, packets=1).children) if each.unique_id == 11 else each
        for each in world.sas
    ]
    operations = world.step()
    assert ended(operations) == [1]
    assert begun(operations) == []
    assert world.renewals.spared() == {TUNNELS[0], TUNNELS[1]}
    assert begun(world.step()) == []
    assert world.renewals.spared() == {TUNNELS[1], TUNNELS[2]}
    assert begun(world.step(LEAD)) == [2]
    world.sas = [each for each in world.sas if each.unique_id != 12]
    world.add(sa(TUNNELS[1], 12, packets=5), sa(TUNNELS[2], 13, packets=5))
    assert sorted(ended(world.step())) == [2, 3]
    assert begun(world.step()) == []
    assert begun(world.step(LEAD)) == [3]
    world.add(sa(TUNNELS[3], 14, packets=5))
    assert ended(world.step()) == [4]
    assert world.step() == []
    assert outstanding(NEW, world.renewals) == frozenset()
    assert sorted(each.unique_id for each in world.sas) == [11, 12, 13, 14]


def test_a_refusal_stops_the_wave_and_touches_no_living_tunnel() -> None:
    """Nothing is ended; only those that failed are tried again, with growing pauses; it is shown which."""
    world = changed()
    assert begun(world.step()) == [0, 1]
    assert world.step(APPEAR) == []
    assert world.renewals.refused() == {TUNNELS[0]: 1, TUNNELS[1]: 1}
    assert world.renewals.spared() == frozenset()
    assert world.step(RETRY_FIRST - 0.5) == []
    assert world.step(0.6) == []
    assert begun(world.step(LEAD)) == [0, 1]
    world.step(APPEAR)
    assert world.renewals.refused() == {TUNNELS[0]: 2, TUNNELS[1]: 2}
    assert world.step(RETRY_FIRST) == []
    assert [each.unique_id for each in world.sas] == [1, 2, 3, 4]


def test_a_change_that_is_taken_back_costs_nothing() -> None:
    """Successors under way are given up, and the old ones are as they should be again."""
    world = changed()
    world.step()
    world.add(sa(TUNNELS[0], 11))
    world.step()
    world.desired = OLD
    assert ended(world.step()) == [11]
    assert world.step() == []
    assert world.renewals.refused() == {}
    assert [each.unique_id for each in world.sas] == [1, 2, 3, 4]


def test_a_successor_without_an_answer_is_given_up() -> None:
    """After five seconds, by force."""
    world = changed()
    world.step()
    world.add(sa(TUNNELS[0], 11, state=IkeState.CONNECTING), sa(TUNNELS[1], 12, packets=1))
    assert ended(world.step()) == [2]
    operations = world.step(CONNECT_TIMEOUT)
    assert Terminate(TUNNELS[0].connection, 11, force=True) in operations
    assert world.renewals.refused()[TUNNELS[0]] == 1


def test_a_successor_out_of_which_nothing_comes_is_given_up() -> None:
    """Established is not proven: the old one carries on."""
    world = changed()
    world.step()
    world.add(sa(TUNNELS[0], 11), sa(TUNNELS[1], 12))
    assert world.step(PROOF - 1) == []
    assert sorted(ended(world.step(1))) == [11, 12]
    assert [each.unique_id for each in world.sas] == [1, 2, 3, 4]


def test_a_rekeyed_ike_sa_is_no_successor() -> None:
    """It has another number, and the old CHILD_SA with its packets."""
    world = changed()
    world.step()
    world.sas = [each for each in world.sas if each.unique_id != 1]
    world.add(sa(TUNNELS[0], 21, child=1, packets=100))
    assert world.step() == []
    world.add(sa(TUNNELS[0], 22, packets=1))
    assert ended(world.step()) == [21]


def test_only_the_end_that_initiates_renews() -> None:
    """The other one waits for it."""
    peer = replace(gateway_a().peers[0], initiate=WhoInitiates.PEER)
    spec = replace(gateway_a(), peers=(peer,))
    world = World(desire(spec))
    world.step()
    world.desired = desire(spec, rekey_time=Seconds(7200))
    assert world.step() == []
    assert outstanding(world.desired, world.renewals) == frozenset()


def test_a_restarted_daemon_goes_on_where_the_last_one_was() -> None:
    """What it kept says with what each IKE_SA was established."""
    world = changed()
    kept = Renewals(
        standings={tunnel: Standing(made_with=each.made_with) for tunnel, each in world.renewals.standings.items()}
    )
    successor = World(NEW)
    successor.renewals = kept
    successor.step()
    assert begun(successor.step(LEAD)) == [0, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_never_more_than_half(count: int) -> None:
    """At least one."""
    spec = gateway_a()
    world = World(desire(spec, count=count))
    world.sas = [sa(TunnelId("gw-b", index), index + 1, packets=1) for index in range(count)]
    world.step()
    world.desired = desire(spec, count=count, rekey_time=Seconds(7200))
    assert world.step() == []
    assert len(world.renewals.spared()) == max(1, count // 2)
    assert len(begun(world.step(LEAD))) == max(1, count // 2)


def test_the_loop_is_woken_for_what_only_time_changes() -> None:
    """While a successor is under way, and for the next attempt; otherwise not."""
    world = World()
    world.step()
    assert next_renewal(world.renewals, Seconds(world.now)) is None
    world.desired = NEW
    world.step()
    assert next_renewal(world.renewals, Seconds(world.now)) == pytest.approx(world.now + LEAD)
    world.step(LEAD)
    assert next_renewal(world.renewals, Seconds(world.now)) == pytest.approx(world.now + 0.5)
    world.step(APPEAR)
    assert next_renewal(world.renewals, Seconds(world.now)) == pytest.approx(world.now + RETRY_FIRST)


def test_one_that_moves_to_other_addresses_is_left_out_by_us_too_until_the_old_one_is_gone() -> None:
    """The kernel sends by the old SAs until then, which the peer may be first to forget; one that stays is not."""
    world = World()
    world.step()
    assert NEW.connections is not None
    moved = {
        name: replace(each, local_address=ip_address("192.0.2.9")) if name == TUNNELS[0].connection else each
        for name, each in NEW.connections.items()
    }
    for at, each in enumerate(world.sas):
        same = NEW.connections[each.connection]
        world.sas[at] = replace(each, local_address=same.local_address, remote_address=same.remote_address)
    world.desired = replace(NEW, connections=moved)
    world.step()
    assert world.renewals.spared() == {TUNNELS[0], TUNNELS[1]}
    assert world.renewals.moving() == {TUNNELS[0]}
    assert begun(world.step(LEAD)) == [0, 1]
    world.add(sa(TUNNELS[0], 11, packets=1))
    old = [each for each in world.sas if each.unique_id == 1]
    assert ended(world.step()) == [1]
    world.sas += old  # its end takes a round trip
    world.step()
    assert world.renewals.moving() == {TUNNELS[0]}
    world.sas = [each for each in world.sas if each.unique_id != 1]
    world.step()
    assert world.renewals.moving() == frozenset()
