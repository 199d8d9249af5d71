"""Refusals become conditions: whom they concern, in which words, and when they are over."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

import pytest

from ikeorch.core.charon_state import ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.desired import Desired
from ikeorch.core.ids import TunnelId
from ikeorch.core.refusal import Cause, Refusal
from ikeorch.core.refusals import HOLD, SETTLED_AGE, STRANGERS, Refusals
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.status import TunnelState, TunnelStatus
from ikeorch.core.units import Seconds
from tests.examples import desired_a, gateway_a

LOCAL, REMOTE = ip_address("192.0.2.1"), ip_address("198.51.100.1")
T0 = TunnelId("gw-b", 0)


@pytest.fixture(scope="module")
def desired() -> Desired:
    """Gateway A with four tunnels to B: 0 and 2 over isp1."""
    return desired_a()


def statuses(
    desired: Desired, *, up: int = 0, carrying: bool = True, age: float = 0, only: TunnelId | None = None
) -> list[TunnelStatus]:
    """All tunnels without an SA, or with IKE_SAs numbered from `up`."""
    found = []
    for number, (tunnel, plan) in enumerate(desired.tunnels.items()):
        child = ChildSa(name=tunnel.connection, unique_id=1, state=ChildState.INSTALLED)
        ike = IkeSa(
            connection=tunnel.connection,
            unique_id=up + number,
            state=IkeState.ESTABLISHED,
            age=Seconds(age),
            children=(child,),
        )
        there = bool(up) and only in {None, tunnel}
        state = TunnelState.CARRYING if there and carrying else TunnelState.WAITING
        found.append(
            TunnelStatus(
                plan=plan,
                state=state,
                reason="",
                ike=ike if there else None,
                child=child if there else None,
                rtt=None,
                weight=1,
            )
        )
    return found


def refusal(cause: Cause = Cause.PROPOSAL, **more: object) -> Refusal:
    """One from the peer's first address, with what is usual of it."""
    base = Refusal(cause=cause, local=LOCAL, remote=REMOTE, offered="IKE:A", configured="IKE:B")
    return replace(base, **more)  # type: ignore[arg-type]


def told(desired: Desired, *refusals: Refusal) -> list[Condition]:
    """The conditions after refusals in a world without SAs."""
    book = Refusals()
    book.settle(statuses(desired), Seconds(0))
    for each in refusals:
        book.add(each, Seconds(1))
    return book.conditions(desired)


@pytest.mark.parametrize(
    ("given", "code", "subject", "words"),
    [
        (refusal(), Code.REFUSED_PROPOSAL, "gw-b", "198.51.100.1 offers IKE:A; configured here is IKE:B"),
        (
            refusal(Cause.PROPOSAL, tunnel=T0, offered="ESP:A", configured="ESP:B"),
            Code.REFUSED_PROPOSAL,
            "gw-b/0",
            "offers ESP:A; configured here is ESP:B",
        ),
        (
            refusal(Cause.IDENTITY, offered="", remote_id="t0.gw-x", local_id="t0.gw-a"),
            Code.REFUSED_IDENTITY,
            "gw-b",
            "says that it is t0.gw-x and asks for t0.gw-a; configured here is t0.gw-b.dc.example asking for "
            "t0.gw-a.dc.example, t2.gw-b.dc.example asking for t2.gw-a.dc.example",
        ),
        (
            refusal(Cause.IDENTITY, tunnel=T0, offered="identity 't0.gw-b.dc.example' required"),
            Code.REFUSED_IDENTITY,
            "gw-b/0",
            "is not who it should be: identity 't0.gw-b.dc.example' required",
        ),
        (
            refusal(Cause.EXPIRED, tunnel=T0, remote_id="t0.gw-b", offered="valid from May to June"),
            Code.REFUSED_EXPIRED,
            "gw-b/0",
            "the certificate of t0.gw-b is valid from May to June",
        ),
        (
            refusal(Cause.UNKNOWN_CA, tunnel=T0, offered="CN=other", configured=""),
            Code.REFUSED_UNKNOWN_CA,
            "gw-b/0",
            "the certificate of t0.gw-b.dc.example is from CN=other, which is not ours",
        ),
        (
            refusal(Cause.UNKNOWN_CA, tunnel=T0, offered="CN=other", configured="CN=our CA"),
            Code.REFUSED_UNKNOWN_CA,
            "gw-b/0",
            "the certificate of t0.gw-b.dc.example is from CN=other, ours is CN=our CA",
        ),
        (
            refusal(Cause.CERTIFICATE, tunnel=T0, offered=""),
            Code.REFUSED_CERTIFICATE,
            "gw-b/0",
            "no certificate that it sent names this identity",
        ),
        (
            refusal(Cause.SELECTORS, tunnel=T0, offered="10.0.0.0/8 === 10.0.0.0/8"),
            Code.REFUSED_SELECTORS,
            "gw-b/0",
            "offers the traffic selectors 10.0.0.0/8 === 10.0.0.0/8",
        ),
        (
            refusal(Cause.NOT_CONFIGURED, local=ip_address("203.0.113.1")),
            Code.REFUSED_UNKNOWN,
            "gw-b",
            "198.51.100.1 asks at 203.0.113.1; no tunnel is configured between these addresses",
        ),
    ],
)
def test_what_is_told_of_a_refusal_of_ours(
    desired: Desired, given: Refusal, code: Code, subject: str, words: str
) -> None:
    """The tunnel where charon knew it, else the peer; both sides' values side by side."""
    (condition,) = told(desired, given)
    assert (condition.code, condition.subject) == (code, subject)
    assert words in condition.message


@pytest.mark.parametrize(
    ("notify", "authenticating", "words"),
    [
        ("NO_PROPOSAL_CHOSEN", False, "no IKE proposal in common with aes256gcm16-prfsha384-ecp384, or nothing"),
        ("NO_PROPOSAL_CHOSEN", True, "no ESP proposal in common with aes256gcm16-ecp384-esn"),
        ("AUTHENTICATION_FAILED", True, "does not take our identity t0.gw-a.dc.example"),
        ("TS_UNACCEPTABLE", True, "it refused the SA"),
    ],
)
def test_what_is_told_of_a_peers_refusal(desired: Desired, notify: str, authenticating: bool, words: str) -> None:
    """The NOTIFY, what it can mean, and what was offered."""
    given = refusal(Cause.BY_PEER, tunnel=T0, notify=notify, authenticating=authenticating, remote=None)
    (condition,) = told(desired, given)
    assert (condition.code, condition.subject) == (Code.REFUSED_BY_PEER, "gw-b/0")
    assert condition.message.startswith(f"198.51.100.1 answered {notify}: ")
    assert words in condition.message


def test_strangers_are_one_condition_however_many(desired: Desired) -> None:
    """Ten thousand addresses: eight are remembered, three are named."""
    book = Refusals()
    book.settle(statuses(desired), Seconds(0))
    news = [
        book.add(refusal(Cause.NOT_CONFIGURED, remote=ip_address(0x0A000000 + number)), Seconds(1))
        for number in range(10000)
    ]
    (condition,) = book.conditions(desired)
    assert (condition.code, condition.subject) == (Code.REFUSED_UNKNOWN, "")
    assert f"and {STRANGERS - 3} more addresses" in condition.message
    assert sum(news) == STRANGERS


def test_the_same_again_is_no_news(desired: Desired) -> None:
    """Only the first is worth a pass, and one that says something else."""
    book = Refusals()
    book.settle(statuses(desired), Seconds(0))
    assert book.add(refusal(ike_id=1), Seconds(1))
    assert not book.add(refusal(ike_id=2), Seconds(2))
    assert book.add(refusal(ike_id=3, offered="IKE:C"), Seconds(3))


def after(desired: Desired, given: Refusal, *passes: tuple[float, list[TunnelStatus]]) -> list[Code]:
    """What is left of a refusal at second 1 after passes at (second, tunnels)."""
    book = Refusals()
    book.settle(statuses(desired), Seconds(0))
    book.add(given, Seconds(1))
    for second, tunnels in passes:
        book.settle(tunnels, Seconds(second))
    return [condition.code for condition in book.conditions(desired)]


def test_it_holds_for_its_time_and_no_longer(desired: Desired) -> None:
    """Without another refusal."""
    idle = statuses(desired)
    assert after(desired, refusal(), (HOLD, idle)) == [Code.REFUSED_PROPOSAL]
    assert after(desired, refusal(), (HOLD + 1, idle)) == []


def test_it_is_over_when_a_tunnel_that_it_concerns_carries(desired: Desired) -> None:
    """By a new IKE_SA; tunnel 1 runs over other addresses and says nothing of it."""
    assert after(desired, refusal(), (2, statuses(desired, up=5))) == []
    assert after(desired, refusal(), (2, statuses(desired, up=5, only=TunnelId("gw-b", 2)))) == []
    elsewhere = statuses(desired, up=5, only=TunnelId("gw-b", 1))
    assert after(desired, refusal(), (2, elsewhere)) == [Code.REFUSED_PROPOSAL]


def test_an_sa_that_was_there_before_says_nothing(desired: Desired) -> None:
    """A changed connection is refused while the old IKE_SA carries."""
    book = Refusals()
    book.settle(statuses(desired, up=5, age=100), Seconds(0))
    book.add(refusal(tunnel=T0), Seconds(1))
    book.settle(statuses(desired, up=5, age=101), Seconds(2))
    assert len(book.conditions(desired)) == 1
    book.settle(statuses(desired, up=9), Seconds(3))
    assert book.conditions(desired) == []


def test_an_sa_that_the_peer_gives_up_at_once_settles_nothing(desired: Desired) -> None:
    """A responder takes it for established until the initiator has looked at its certificate."""
    late = refusal(Cause.BY_PEER, tunnel=T0, notify="AUTHENTICATION_FAILED", late=True)
    young = statuses(desired, up=5, age=SETTLED_AGE - 1)
    assert after(desired, late, (2, young), (3, statuses(desired))) == [Code.REFUSED_BY_PEER]
    assert after(desired, late, (2, young), (3, statuses(desired, up=5, age=SETTLED_AGE))) == []


def test_the_loop_looks_again_when_time_may_end_it(desired: Desired) -> None:
    """After the hold, or when a young SA is old enough."""
    book = Refusals()
    assert book.next_change(Seconds(0)) is None
    book.settle(statuses(desired), Seconds(0))
    book.add(refusal(), Seconds(1))
    assert book.next_change(Seconds(2)) == 1 + HOLD
    book.settle(statuses(desired, up=5, carrying=False), Seconds(3))
    assert book.next_change(Seconds(3)) == 3 + SETTLED_AGE


def test_a_peer_that_has_been_configured_since_is_no_stranger(desired: Desired) -> None:
    """It asked too early, as while it is being added."""
    book = Refusals()
    book.add(refusal(Cause.NOT_CONFIGURED), Seconds(0))
    assert len(book.conditions(desired)) == 1
    book.settle(statuses(desired), Seconds(1))
    assert book.conditions(desired) == []


def test_a_refusal_that_names_nobody_is_passed_over(desired: Desired) -> None:
    """Neither a tunnel nor an address."""
    assert told(desired, refusal(remote=None)) == []


def test_what_was_said_of_an_older_configuration_is_forgotten(desired: Desired) -> None:
    """A peer, or the gateway itself, is configured otherwise now; other peers' refusals stay."""
    spec = gateway_a()
    (peer,) = spec.peers
    other = replace(peer, name="gw-c", uplinks=(replace(peer.uplinks[0], addresses=(ip_address("203.0.113.77"),)),))
    spec = replace(spec, peers=(peer, other))
    changed = replace(spec, peers=(replace(peer, identity="gw-x.dc.example"), other))

    def left(after: GatewaySpec, refused: Refusal) -> int:
        book = Refusals()
        book.settle(statuses(desired), Seconds(0))
        book.add(refused, Seconds(1))
        book.forget(spec, after)
        return len(book._entries)

    for place in (refusal(tunnel=T0), refusal()):
        assert left(spec, place) == 1
        assert left(changed, place) == 0
        assert left(replace(spec, identity="gw-y.dc.example"), place) == 0
    assert left(changed, refusal(tunnel=TunnelId("gw-c", 0))) == 1
