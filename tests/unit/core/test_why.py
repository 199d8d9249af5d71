"""The chain of reasons: what concerns a tunnel or a peer, the nearest first, and nothing else."""

from __future__ import annotations

from ikeorch.core.conditions import Code, Condition
from ikeorch.core.status import TunnelState, TunnelStatus
from ikeorch.core.why import Why, why_peer, why_tunnel
from tests.examples import desired_a


def tunnels(state: TunnelState = TunnelState.WAITING) -> list[TunnelStatus]:
    """Four tunnels to gw-b: 0 and 2 over isp1 (eth1)."""
    plans = desired_a().tunnels.values()
    return [
        TunnelStatus(plan=plan, state=state, reason="so", ike=None, child=None, rtt=None, weight=0) for plan in plans
    ]


ALL = [
    Condition(code=code, subject=subject, message="")
    for code, subject in [
        (Code.CHARON_UNREACHABLE, ""),
        (Code.REFUSED_UNKNOWN, ""),
        (Code.EXABGP_UNREACHABLE, ""),
        (Code.FABRIC_SESSION_DOWN, "10.0.0.254"),
        (Code.SITE_DARK, "dc-b"),
        (Code.SITE_DARK, "dc-c"),
        (Code.REFUSED_PROPOSAL, "gw-b"),
        (Code.REFUSED_PROPOSAL, "gw-c"),
        (Code.UPLINK_MISSING, "eth1"),
        (Code.UPLINK_MISSING, "eth2"),
        (Code.ACTION_FAILED, "connection ikeorch.gw-b.0"),
        (Code.TUNNEL_PENDING, "gw-b/0"),
        (Code.TUNNEL_PENDING, "gw-b/1"),
        (Code.REFUSED_BY_PEER, "gw-b/0"),
    ]
]


def chain(why: Why) -> list[tuple[str, str]]:
    """What each link is about, and its code."""
    return [(reason.about, reason.condition.code.value) for reason in why.because]


def test_a_tunnels_chain_goes_from_the_tunnel_to_the_gateway() -> None:
    """Another uplink, tunnel, peer, site and the fabric are no part of it."""
    why = why_tunnel(tunnels()[0], ALL, site="dc-b", actions=["connection ikeorch.gw-b.0"])
    assert why.summary == "gw-b/0 is waiting: so"
    assert chain(why) == [
        ("tunnel gw-b/0", "refused-by-peer"),
        ("tunnel gw-b/0", "tunnel-pending"),
        ("action", "action-failed"),
        ("uplink isp1", "uplink-missing"),
        ("peer gw-b", "refused-proposal"),
        ("site dc-b", "site-dark"),
        ("gateway", "charon-unreachable"),
        ("gateway", "refused-unknown"),
    ]


def test_a_peers_chain_holds_all_of_its_tunnels_and_uplinks() -> None:
    """Each once."""
    why = why_peer("gw-b", tunnels(), ALL, site="dc-b")
    assert why.summary == "0 of 4 tunnels to gw-b carry packets"
    assert chain(why) == [
        ("tunnel gw-b/0", "refused-by-peer"),
        ("tunnel gw-b/0", "tunnel-pending"),
        ("tunnel gw-b/1", "tunnel-pending"),
        ("uplink isp1", "uplink-missing"),
        ("uplink isp2", "uplink-missing"),
        ("peer gw-b", "refused-proposal"),
        ("site dc-b", "site-dark"),
        ("gateway", "charon-unreachable"),
        ("gateway", "refused-unknown"),
    ]


def test_strangers_say_nothing_about_a_tunnel_that_carries() -> None:
    """They may about one that waits: perhaps the peer's address is another."""
    stranger = [Condition(code=Code.REFUSED_UNKNOWN, subject="", message="")]
    assert chain(why_tunnel(tunnels(TunnelState.CARRYING)[0], stranger, site="dc-b")) == []
    assert len(chain(why_tunnel(tunnels()[0], stranger, site="dc-b"))) == 1


def test_a_peer_without_tunnels_has_its_own_chain() -> None:
    """What concerns it and the gateway."""
    why = why_peer("gw-c", [], ALL, site="dc-c")
    assert why.summary == "gw-c has no tunnels"
    assert chain(why) == [
        ("peer gw-c", "refused-proposal"),
        ("site dc-c", "site-dark"),
        ("gateway", "charon-unreachable"),
        ("gateway", "refused-unknown"),
    ]
