"""A peer that has another name now is recognised by its identity, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ikeorch.core.allocate import Kind, allocate_missing, wanted_numbers
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.rename import find_renames, follow, heard_names, name_changes, renamed_number
from tests.examples import allocations, gateway_a

SPEC = gateway_a()
PEER = SPEC.peers[0]


def test_the_same_identity_under_another_name_is_a_rename() -> None:
    """From the old name to the new one; without a change there is none."""
    after = replace(SPEC, peers=(replace(PEER, name="gw-x"),))
    assert find_renames(SPEC, after) == {"gw-b": "gw-x"}
    assert find_renames(SPEC, SPEC) == {}


def test_another_identity_is_another_peer() -> None:
    """Even where all else is the same."""
    after = replace(SPEC, peers=(replace(PEER, name="gw-x", identity="gw-x.dc.example"),))
    assert find_renames(SPEC, after) == {}


def test_an_identity_that_two_peers_share_says_nothing() -> None:
    """No numbers move on a guess."""
    after = replace(SPEC, peers=(replace(PEER, name="gw-x"), replace(PEER, name="gw-y")))
    assert find_renames(SPEC, after) == {}
    assert find_renames(after, SPEC) == {}


def test_two_names_may_change_places() -> None:
    """Each identity takes its own along."""
    other = replace(PEER, name="gw-c", identity="gw-c.dc.example")
    before = replace(SPEC, peers=(PEER, other))
    swapped = replace(SPEC, peers=(replace(PEER, name="gw-c"), replace(other, name="gw-b")))
    assert find_renames(before, swapped) == {"gw-b": "gw-c", "gw-c": "gw-b"}


def test_a_name_that_another_peer_has_taken_leads_nowhere() -> None:
    """The peer that had it is gone."""
    other = replace(PEER, name="gw-c", identity="gw-c.dc.example")
    before, after = replace(SPEC, peers=(PEER, other)), replace(SPEC, peers=(replace(other, name="gw-b"),))
    renames = find_renames(before, after)
    assert [follow(name, renames) for name in ("gw-b", "gw-c", "gw-d")] == ["", "gw-b", "gw-d"]


TUNNELS = [TunnelId("gw-b", index) for index in range(2)]


def test_what_a_peer_calls_itself_is_remembered_while_nothing_is_up() -> None:
    """Of a tunnel that is up it is the truth, also that the names agree again; another name of ours changes nothing."""
    other, same = (ProbeState(verdict=Verdict.UP, calls_itself=name) for name in ("gw-x", ""))
    down = ProbeState(verdict=Verdict.DOWN, calls_itself="")
    heard = heard_names(SPEC, {TUNNELS[0]: other, TUNNELS[1]: same}, {})
    assert heard == {"gw-b.dc.example": "gw-x"}
    assert heard_names(SPEC, {TUNNELS[0]: down}, heard) == heard
    assert heard_names(SPEC, {}, heard) == heard
    assert heard_names(SPEC, {TUNNELS[0]: same}, heard) == {}
    assert heard_names(replace(SPEC, peers=(replace(PEER, name="gw-x"),)), {}, heard) == {}
    assert heard_names(replace(SPEC, peers=()), {}, heard) == {}


NAMES = st.dictionaries(st.sampled_from("ABCDE"), st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=5).filter(
    lambda names: len(set(names.values())) == len(names)
)


@given(NAMES, NAMES)
def test_every_identity_finds_its_own_and_nothing_is_lost(kept: dict[str, str], now: dict[str, str]) -> None:
    """The changes are a permutation, whatever names were exchanged, taken over or given up."""
    changes = name_changes(kept, now)
    assert set(changes) == set(changes.values())
    assert all(
        changes.get(kept[identity], kept[identity]) == name for identity, name in now.items() if identity in kept
    )
    assert name_changes({identity: changes.get(name, name) for identity, name in kept.items()}, now) == {}


def test_all_numbers_of_a_peer_move() -> None:
    """if_ids, next hops and the groups that it stands in, whose peers are in order; no one else's, and no tables."""
    changes = {"gw-b": "gw-x", "gw-x": "gw-b"}
    moved = {
        (Kind.IF_ID, "gw-b/0"): "gw-x/0",
        (Kind.NEXT_HOP, "gw-b/12 ipv6"): "gw-x/12 ipv6",
        (Kind.NEXT_HOP, "gw-x/12 ipv6"): "gw-b/12 ipv6",
        (Kind.NEXT_HOP, "group dc-b via gw-b ipv4"): "group dc-b via gw-x ipv4",
        (Kind.NEXT_HOP, "group dc-b via gw-b,gw-c ipv4"): "group dc-b via gw-c,gw-x ipv4",
        (Kind.NEXT_HOP, "group gw-b via gw-c ipv4"): "group gw-b via gw-c ipv4",
        (Kind.TABLE, "gw-b"): "gw-b",
        (Kind.IF_ID, "gw-bb/0"): "gw-bb/0",
    }
    assert {wanted: renamed_number(wanted, changes)[1] for wanted in moved} == moved


def test_the_numbers_of_a_renamed_configuration_are_all_there() -> None:
    """Nothing is left to be given, so no interface, next hop or group is another one."""
    after = replace(SPEC, peers=(replace(PEER, name="gw-x"),))
    given = allocations(SPEC).numbers
    moved = {renamed_number(wanted, {"gw-b": "gw-x"}): number for wanted, number in given.items()}
    assert allocate_missing(moved, wanted_numbers(after)) == {}
