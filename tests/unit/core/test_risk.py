"""What a change may cost beyond its plan has a name, and nothing else has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Network, ip_address, ip_network

import pytest

from ikeorch.config.loader import load_config
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import Sysctl
from ikeorch.core.plan import Action, EnsureObject, Impact, Step, Symbol
from ikeorch.core.risk import find_risks, not_accepted
from ikeorch.core.risk_names import RiskName
from ikeorch.core.spec import GatewaySpec, PeerSpec
from ikeorch.core.units import Seconds
from tests.examples import GATEWAY_A
from tests.integration.world import FABRIC

SPEC = load_config(GATEWAY_A + FABRIC, "gw-a.yaml").spec
PEER = SPEC.peers[0]
SECOND = replace(PEER, name="gw-c", identity="gw-c.dc.example", inner=(ip_network("10.255.3.0/27"),))


def with_peers(*peers: PeerSpec) -> GatewaySpec:
    """Gateway A with other peers."""
    return replace(SPEC, peers=peers)


def counted(count: int, peer: PeerSpec = PEER) -> PeerSpec:
    """A peer with another number of tunnels."""
    return replace(peer, tunnels=replace(peer.tunnels, count=count))


def offering(*prefixes: str, peer: PeerSpec = PEER) -> PeerSpec:
    """A peer with other prefixes."""
    networks = tuple(ip_network(prefix) for prefix in prefixes)
    return replace(peer, prefixes=networks, accept=networks)


def names(after: GatewaySpec, before: GatewaySpec = SPEC, plan: Iterable[Action] = ()) -> list[tuple[str, str]]:
    """The risks of a change as (name, subject)."""
    return [(risk.name.value, risk.subject) for risk in find_risks(before, after, plan)]


@pytest.mark.parametrize(
    "after",
    [
        SPEC,
        with_peers(counted(8)),
        with_peers(counted(2)),
        with_peers(PEER, SECOND),
        with_peers(replace(PEER, tunnels=replace(PEER.tunnels, rekey_time=Seconds(7200)))),
        with_peers(replace(PEER, name="gw-x")),
        with_peers(offering("10.2.0.0/15", "fd00:b::/48")),
        with_peers(offering("10.2.0.0/17", "10.2.128.0/17", "fd00:b::/48")),
        replace(SPEC, fabric=replace(SPEC.fabric, neighbors=SPEC.fabric.neighbors[:1])),
    ],
    ids=["none", "more", "half", "peer", "rekey", "renamed", "wider", "split", "leaf"],
)
def test_what_a_plan_does_without_loss_is_no_risk(after: GatewaySpec) -> None:
    """Nobody is asked for what costs nothing, else the flag becomes a habit."""
    assert names(after) == []


@pytest.mark.parametrize("after", [with_peers(), with_peers(counted(0)), with_peers(offering())])
def test_a_prefix_without_a_tunnel_is_a_withdrawal(after: GatewaySpec) -> None:
    """Each prefix is named; that its bundle goes or its sources are refused is not said once more."""
    assert names(after) == [("withdraw-last-path", "10.2.0.0/16"), ("withdraw-last-path", "fd00:b::/48")]
    assert "10.2.0.0/16 (peer gw-b) has no tunnel afterwards" in find_risks(SPEC, after, ())[0].message


def test_tunnels_that_are_new_do_not_count_as_a_path() -> None:
    """They carry nothing before packets have proved them; those of a peer that stays do."""
    assert names(with_peers(SECOND))[0] == ("withdraw-last-path", "10.2.0.0/16")
    both = with_peers(PEER, SECOND)
    assert names(with_peers(SECOND), both) == [("most-tunnels", "gw-b")]
    bare = with_peers(PEER, offering(peer=SECOND))
    moved = names(with_peers(offering(), SECOND), bare)
    assert moved == [("drop-traffic", "gw-b"), ("drop-traffic", "gw-b")]


def test_more_than_half_of_a_bundle_is_asked_for() -> None:
    """The rest would have to carry all of it."""
    assert names(with_peers(counted(1))) == [("most-tunnels", "gw-b")]
    assert "3 of 4 tunnels to gw-b go at once" in find_risks(SPEC, with_peers(counted(1)), ())[0].message


def test_an_outage_of_the_plan_is_named_with_its_tunnel() -> None:
    """Whatever causes it."""
    action = Action(
        step=Step.LINK,
        operation=EnsureObject(Sysctl(name="x", value="1")),
        symbol=Symbol.CHANGE,
        reason="differs",
        tunnel=TunnelId("gw-b", 2),
        impact=Impact.OUTAGE,
    )
    changed = with_peers(counted(5))
    assert names(changed, plan=[action, replace(action, impact=Impact.REESTABLISH)]) == [("outage", "gw-b/2")]
    assert names(SPEC, plan=[action]) == []


def test_our_own_identity_is_asked_for() -> None:
    """Our name alone is not: peers know us by the identity."""
    assert names(replace(SPEC, identity="gw-z.dc.example")) == [("change-identity", "")]
    assert names(replace(SPEC, name="gw-a2")) == []


def test_a_peers_identity_is_asked_for() -> None:
    """No connection takes two of them."""
    assert names(with_peers(replace(PEER, identity="gw-z.dc.example"))) == [("change-identity", "gw-b")]
    by_hand = tuple((f"t{index}.gw-a.dc.example", f"x{index}.dc.example") for index in range(4))
    foreign = replace(PEER, tunnels=replace(PEER.tunnels, identities=by_hand))
    assert names(with_peers(foreign)) == [("change-identity", "gw-b")]


def test_inner_addresses_that_move_are_asked_for() -> None:
    """Because the lower name is another one now, or because it is the only tunnel; others are changed in waves."""
    moved = replace(PEER, inner=(ip_network("10.255.9.0/27"), PEER.inner[1]))
    assert names(with_peers(moved)) == []
    assert names(replace(SPEC, name="gw-z")) == [("renumber-inner", "gw-b")]
    assert names(with_peers(replace(PEER, name="a-b"))) == [("renumber-inner", "a-b")]
    (risk,) = find_risks(SPEC, replace(SPEC, name="gw-z"), ())
    assert (
        "(the lower name is another one now, the peer will initiate): half of its tunnels carry nothing" in risk.message
    )
    kept = with_peers(replace(counted(1), inner=moved.inner))
    assert "peers[].inner changes): its tunnel carries nothing" in find_risks(SPEC, kept, ())[1].message


@pytest.mark.parametrize(
    "after",
    [
        replace(SPEC, asn=65011),
        replace(SPEC, router_id="10.0.255.9"),
        replace(SPEC, fabric=replace(SPEC.fabric, neighbors=())),
        replace(
            SPEC,
            fabric=replace(
                SPEC.fabric,
                neighbors=tuple(replace(each, address=ip_address("10.0.0.9")) for each in SPEC.fabric.neighbors[:1]),
            ),
        ),
    ],
)
def test_the_end_of_every_session_with_the_leafs_is_asked_for(after: GatewaySpec) -> None:
    """They forget every prefix at once; one session that stays is enough."""
    assert names(after) == [("reset-fabric", "")]


def test_what_the_guard_lets_through_no_longer_is_asked_for() -> None:
    """Our own prefixes and the sources of a peer that stays."""
    assert names(replace(SPEC, prefixes=SPEC.prefixes[1:])) == [("drop-traffic", "10.1.0.0/16")]
    narrower = replace(PEER, accept=(IPv4Network("10.2.0.0/17"), PEER.accept[1]))
    assert names(with_peers(narrower)) == [("drop-traffic", "gw-b")]


def test_only_what_was_not_accepted_is_left() -> None:
    """By name, whatever its subject."""
    risks = find_risks(SPEC, replace(with_peers(), asn=65011), ())
    assert [risk.name for risk in not_accepted(risks, {RiskName.WITHDRAW_LAST_PATH})] == [RiskName.RESET_FABRIC]
    assert not_accepted(risks, set(RiskName)) == ()
    assert risks[0].flag == "--accept-risk=withdraw-last-path"
