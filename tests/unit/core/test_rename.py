"""A peer that has another name now is recognised by its identity, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

from ikeorch.core.rename import find_renames
from tests.examples import gateway_a

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


def test_two_names_that_change_places_are_not_renames() -> None:
    """A name that is known before and after keeps what it has."""
    other = replace(PEER, name="gw-c", identity="gw-c.dc.example")
    before = replace(SPEC, peers=(PEER, other))
    swapped = replace(SPEC, peers=(replace(PEER, name="gw-c"), replace(other, name="gw-b")))
    assert find_renames(before, swapped) == {}
