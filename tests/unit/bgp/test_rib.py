"""What is sent, and when: the laws of the difference between wish and knowledge."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from bgp.advertisement import Advertisement, IPNetwork, Neighbor
from bgp.rib import SETTLE, Change, Rib, Route, resolve_route

ONE, TWO = ip_network("10.1.0.0/16"), ip_network("10.2.0.0/16")
HOP = ip_address("10.0.0.1")


def route(prefix: IPNetwork = ONE, value: int = 1) -> Route:
    """A route, with one of several attribute sets."""
    return Route(prefix=prefix, next_hop=HOP, community=bytes([64, 4, 0, 1, 0, 0, 0, value]))


def wish(*routes: Route) -> dict[IPNetwork, Route]:
    """By prefix."""
    return {one.prefix: one for one in routes}


def drain(rib: Rib, now: float) -> list[Change]:
    """All that is sent now, each answered."""
    changes = []
    while (change := rib.next_change(now)) is not None:
        changes.append(change)
        rib.answered(change.route.prefix, done=True, now=now)
    return changes


def known(*held: Route) -> Rib:
    """A rib that knows what ExaBGP holds."""
    rib = Rib()
    rib.learn(wish(*held))
    return rib


def test_nothing_is_sent_while_nothing_is_known() -> None:
    """Unknown is neither empty nor full."""
    rib = Rib()
    rib.want(wish(route()))
    assert rib.next_change(0) is None
    assert not rib.settled
    rib.learn({})
    assert drain(rib, 0) == [Change(route=route(), announce=True)]
    assert rib.settled


def test_nothing_is_withdrawn_without_a_wish() -> None:
    """Not to have wished yet is not to wish for nothing."""
    rib = known(route())
    assert rib.next_change(0) is None
    assert not rib.settled
    rib.want({})
    assert drain(rib, 0) == [Change(route=route(), announce=False)]


def test_only_differences_are_sent() -> None:
    """Held and wished alike is nothing to do."""
    rib = known(route(ONE), route(TWO))
    rib.want(wish(route(ONE), route(TWO, 9)))
    assert drain(rib, 0) == [Change(route=route(TWO, 9), announce=True)]


def test_many_wishes_are_one_command() -> None:
    """The last one."""
    rib = known()
    for value in (1, 2, 3):
        rib.want(wish(route(value=value)))
    assert drain(rib, 0) == [Change(route=route(value=3), announce=True)]


def test_a_withdrawal_has_the_attributes_of_what_it_ends() -> None:
    """And need not wait."""
    rib = known()
    rib.want(wish(route(value=5)))
    drain(rib, 0)
    rib.want({})
    assert drain(rib, 0) == [Change(route=route(value=5), announce=False)]


def test_other_attributes_wait_for_exabgps_queue() -> None:
    """Once in SETTLE seconds; what is wished in between coalesces."""
    rib = known()
    rib.want(wish(route(value=1)))
    drain(rib, 10)
    rib.want(wish(route(value=2)))
    assert drain(rib, 10) == []
    assert rib.due() == 10 + SETTLE
    assert not rib.settled
    rib.want(wish(route(value=3)))
    assert drain(rib, 10 + SETTLE) == [Change(route=route(value=3), announce=True)]
    assert rib.due() is None
    assert rib.settled


def test_a_change_that_is_taken_back_in_time_is_not_sent() -> None:
    """ExaBGP holds it already."""
    rib = known()
    rib.want(wish(route(value=1)))
    drain(rib, 10)
    rib.want(wish(route(value=2)))
    drain(rib, 10)
    rib.want(wish(route(value=1)))
    assert drain(rib, 10) == []
    assert rib.settled


def test_one_command_a_prefix_is_on_the_way() -> None:
    """The next waits for the answer."""
    rib = known()
    rib.want(wish(route(value=1)))
    assert rib.next_change(0) == Change(route=route(value=1), announce=True)
    rib.want({})
    assert rib.next_change(0) is None
    rib.answered(ONE, done=True, now=0)
    assert rib.next_change(0) == Change(route=route(value=1), announce=False)


def test_a_refused_route_is_not_repeated_at_once() -> None:
    """It is with the next replay, or when the wish changes."""
    rib = known()
    rib.want(wish(route()))
    assert rib.next_change(0) is not None
    rib.answered(ONE, done=False, now=0)
    assert drain(rib, 1) == []
    assert rib.refused == (ONE,)
    assert rib.settled
    rib.replay()
    assert drain(rib, 2) == [Change(route=route(), announce=True)]
    assert not rib.refused


def test_a_replay_tells_the_whole_wish_again() -> None:
    """Once."""
    rib = known(route(ONE))
    rib.want(wish(route(ONE), route(TWO)))
    drain(rib, 0)
    rib.replay()
    expected = {Change(route=route(ONE), announce=True), Change(route=route(TWO), announce=True)}
    assert expected == set(drain(rib, 1))
    assert drain(rib, 2) == []


def test_after_a_loss_of_contact_all_is_unknown() -> None:
    """Also what was on the way; its late answer changes nothing."""
    rib = known()
    rib.want(wish(route()))
    assert rib.next_change(0) is not None
    rib.forget()
    rib.answered(ONE, done=True, now=0)
    assert not rib.known
    assert dict(rib.held) == {}
    assert rib.next_change(0) is None
    rib.learn(wish(route()))
    assert drain(rib, 1) == []
    assert rib.settled


def test_our_own_address_is_the_next_hop() -> None:
    """Until it is known there is no route; a prefix of the other family never is one."""
    neighbor = Neighbor(
        address=ip_address("10.0.0.254"), asn=65001, local_asn=65010, router_id=IPv4Address("10.0.255.1")
    )
    offer = Advertisement(prefix=ONE, link_bandwidth=1.0)
    assert resolve_route(offer, neighbor, None) is None
    resolved = resolve_route(offer, neighbor, HOP)
    assert resolved is not None
    assert (resolved.next_hop, resolved.community.hex()) == (HOP, "4004fdf23f800000")
    other = Advertisement(prefix=ip_network("fd00::/48"), link_bandwidth=1.0)
    assert resolve_route(other, neighbor, HOP) is None


class Queue:
    """ExaBGP 5.0's outgoing queue and its peer, as its source has them: a dictionary of attribute sets."""

    def __init__(self) -> None:
        self.cache: dict[IPNetwork, Route] = {}
        self.peer: dict[IPNetwork, Route] = {}
        self.updates = 0
        self._queue: dict[bytes, dict[IPNetwork, Change]] = {}
        self._withdrawals = False

    def take(self, change: Change) -> None:
        """A command."""
        prefix = change.route.prefix
        if change.announce and self.cache.get(prefix) == change.route:
            return
        self._queue.setdefault(change.route.community, {})[prefix] = change
        if change.announce:
            self.cache[prefix] = change.route
        else:
            self.cache.pop(prefix, None)

    def flush(self) -> None:
        """A batch; the first of a session leaves withdrawals out."""
        if not self._queue:
            return
        for changes in self._queue.values():
            for prefix, change in changes.items():
                if change.announce:
                    self.peer[prefix] = change.route
                    self.updates += 1
                elif self._withdrawals:
                    self.peer.pop(prefix, None)
                    self.updates += 1
        self._queue.clear()
        self._withdrawals = True

    def flap(self) -> None:
        """The session is lost and back, with all that is cached."""
        self._queue.clear()
        self.peer.clear()
        self._withdrawals = False
        for one in self.cache.values():
            self._queue.setdefault(one.community, {})[one.prefix] = Change(route=one, announce=True)
        self.flush()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.dictionaries(st.sampled_from([ONE, TWO]), st.integers(1, 3))),
        st.tuples(st.sampled_from(["flap", "forget", "shim"]), st.none()),
        st.tuples(st.just("time"), st.sampled_from([0.0, 0.05, 0.15, 0.3])),
    ),
    max_size=25,
)


@given(STEPS)
def test_the_peer_ends_with_the_wish(steps: list[tuple[str, dict[IPNetwork, int] | float | None]]) -> None:
    """However wishes, flaps and losses of contact mix, if ExaBGP's queue empties within SETTLE; then all is quiet."""
    rib, world, now, flushed = Rib(), Queue(), 0.0, 0.0
    rib.learn({})
    current: dict[IPNetwork, Route] = {}
    for kind, value in [*steps, ("time", 1.0)]:
        match kind, value:
            case "want", dict():
                current = wish(*(route(prefix, number) for prefix, number in value.items()))
                rib.want(current)
            case "flap", _:
                world.flap()
                rib.replay()
            case "forget", _:
                rib.forget()
                rib.learn(dict(world.cache))
            case "time", float():
                now += value
                if now - flushed >= SETTLE / 2:
                    world.flush()
                    flushed = now
        while (change := rib.next_change(now)) is not None:
            world.take(change)
            rib.answered(change.route.prefix, done=True, now=now)
    if any(kind == "want" for kind, _ in steps):
        now += 1
        while (change := rib.next_change(now)) is not None:
            world.take(change)
            rib.answered(change.route.prefix, done=True, now=now)
        world.flush()
        assert world.peer == current
        assert rib.settled
        rib.want(dict(current))
        assert rib.next_change(now + 1) is None
