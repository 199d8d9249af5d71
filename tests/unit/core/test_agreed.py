"""Both ends change their suite in any order: the old one is taken until the peer has moved, and no longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ikeorch.core.agreed import find_unmoved, observe_suites, taken_beside
from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.conditions import Code
from ikeorch.core.desired import compute_desired
from ikeorch.core.ids import TunnelId
from ikeorch.core.spec import GatewaySpec, Initiate
from ikeorch.core.suites import (
    AEAD_ALGORITHMS,
    DEFAULT_SUITE,
    KEY_EXCHANGES,
    PRF_ALGORITHMS,
    Suite,
    from_negotiated,
    parse_suite,
)
from tests.examples import CREDENTIALS, allocations, gateway_a

OLD = DEFAULT_SUITE
NEW = parse_suite("aes128gcm16-prfsha256-ecp256")
TOLD = {OLD: "AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384", NEW: "AES_GCM_16-128/PRF_HMAC_SHA2_256/ECP_256"}
TUNNELS = [TunnelId("gw-b", index) for index in range(4)]


def spec(suite: Suite, initiate: Initiate = Initiate.PEER) -> GatewaySpec:
    """Gateway A with a suite; the peer initiates."""
    known = gateway_a()
    peer = known.peers[0]
    return replace(known, peers=(replace(peer, initiate=initiate, tunnels=replace(peer.tunnels, suite=suite)),))


def charon(suites: Mapping[int, tuple[Suite, ...]], state: ChildState = ChildState.INSTALLED) -> CharonState:
    """charon with live IKE_SAs, by the tunnel's index."""
    child = ChildSa(name="c", unique_id=1, state=state)
    sas = [
        IkeSa(
            connection=TUNNELS[index].connection,
            unique_id=index * 10 + position,
            state=IkeState.ESTABLISHED,
            suite=TOLD[suite],
            children=(child,),
        )
        for index, found in suites.items()
        for position, suite in enumerate(found)
    ]
    return CharonState(version="5.9.8", started="1", sas=tuple(sas))


ALL_OLD = observe_suites(spec(OLD), charon(dict.fromkeys(range(4), (OLD,))), {})


def test_the_old_suite_is_taken_beside_the_new_one_until_the_peer_has_moved() -> None:
    """The new one first, in IKE and ESP; then the new one alone."""
    changed = spec(NEW)
    agreed = observe_suites(changed, charon(dict.fromkeys(range(4), (OLD,))), ALL_OLD)
    assert taken_beside(changed, changed.peers[0], agreed) == (OLD,)
    desired = compute_desired(
        changed,
        allocations(changed),
        credentials=CREDENTIALS,
        verdicts={},
        grouped=frozenset(),
        resilient=True,
        underlay_mtu={},
        agreed=agreed,
    )
    assert desired.connections is not None
    for connection in desired.connections.values():
        assert connection.ike_proposals == (str(NEW), str(OLD))
        assert connection.esp_proposals == ("aes128gcm16-ecp256-esn", "aes256gcm16-ecp384-esn")
    moved = observe_suites(changed, charon(dict.fromkeys(range(4), (OLD, NEW))), agreed)
    assert taken_beside(changed, changed.peers[0], moved) == ()
    assert list(find_unmoved(changed, moved)) == []


def test_half_a_bundle_that_moved_is_not_the_whole() -> None:
    """The peer may still go back; all of its live tunnels must have the new one."""
    changed = spec(NEW)
    agreed = observe_suites(changed, charon({0: (NEW,), 1: (OLD, NEW), 2: (OLD,), 3: (OLD,)}), ALL_OLD)
    assert taken_beside(changed, changed.peers[0], agreed) == (OLD,)


def test_tunnels_that_are_down_are_remembered() -> None:
    """They come back with what they had; once those that live have moved, they have too."""
    changed = spec(NEW)
    for seen in (None, charon({}), charon({0: (OLD,)}), charon({0: (NEW,)}, ChildState.DELETED)):
        agreed = observe_suites(changed, seen, ALL_OLD)
        assert agreed == ALL_OLD
        assert taken_beside(changed, changed.peers[0], agreed) == (OLD,)
    assert set(observe_suites(changed, charon({0: (NEW,)}), ALL_OLD).values()) == {NEW}


def test_a_peer_that_goes_back_is_taken_again() -> None:
    """The truth is what lives now, not what was remembered."""
    changed = spec(NEW)
    moved = observe_suites(changed, charon(dict.fromkeys(range(4), (NEW,))), ALL_OLD)
    back = observe_suites(changed, charon(dict.fromkeys(range(4), (OLD,))), moved)
    assert taken_beside(changed, changed.peers[0], back) == (OLD,)


def test_the_end_that_initiates_takes_nothing_beside() -> None:
    """It is the one who moves; with both it would ask for the old one again."""
    ours = spec(NEW, Initiate.US)
    assert taken_beside(ours, ours.peers[0], ALL_OLD) == ()
    assert list(find_unmoved(ours, ALL_OLD)) == []


def test_nothing_is_remembered_of_tunnels_that_are_not_configured() -> None:
    """Nor of IKE_SAs with algorithms that nobody may configure."""
    fewer = replace(spec(OLD), peers=())
    assert observe_suites(fewer, charon({0: (OLD,)}), ALL_OLD) == {}
    strange = replace(charon({0: (OLD,)}).sas[0], suite="3DES_CBC/HMAC_MD5_96/PRF_HMAC_MD5/MODP_1024")
    assert observe_suites(spec(OLD), CharonState(version="", started="", sas=(strange,)), {}) == {}


def test_the_condition_names_both_suites() -> None:
    """And the peer that has not moved."""
    (condition,) = find_unmoved(spec(NEW), ALL_OLD)
    assert (condition.code, condition.subject) == (Code.SUITE_PENDING, "gw-b")
    assert condition.message == f"it still uses {OLD}, which is taken beside {NEW} until it has moved"


@pytest.mark.parametrize("text", ["", "AES_GCM_16-256", "AES_GCM_16-256/ECP_384/PRF_HMAC_SHA2_384/X", "a/b/c", "//"])
def test_what_is_no_suite_of_ours_is_none(text: str) -> None:
    """Not known is not another suite."""
    assert from_negotiated(text) is None


def test_every_suite_that_may_be_configured_is_recognised() -> None:
    """One that is not would be forgotten while its peer still uses it."""
    told = {
        "aes128gcm16": "AES_GCM_16-128",
        "aes256gcm16": "AES_GCM_16-256",
        "chacha20poly1305": "CHACHA20_POLY1305-256",
        "prfsha256": "PRF_HMAC_SHA2_256",
        "prfsha384": "PRF_HMAC_SHA2_384",
        "prfsha512": "PRF_HMAC_SHA2_512",
        "ecp256": "ECP_256",
        "ecp384": "ECP_384",
        "ecp521": "ECP_521",
        "curve25519": "CURVE_25519",
        "modp3072": "MODP_3072",
        "modp4096": "MODP_4096",
    }
    assert told.keys() == AEAD_ALGORITHMS | PRF_ALGORITHMS | KEY_EXCHANGES
    for aead in AEAD_ALGORITHMS:
        for prf in PRF_ALGORITHMS:
            for group in KEY_EXCHANGES:
                suite = Suite(aead=aead, prf=prf, key_exchange=group)
                assert from_negotiated("/".join(told[part] for part in (aead, prf, group))) == suite
