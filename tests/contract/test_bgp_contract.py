"""One suite for the speaker, run against FakeExabgp and against the real ExaBGP with a BGP peer of ours."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from bgp.link_bandwidth import decode_link_bandwidth, encode_link_bandwidth
from bgp.session import SessionState
from tests.contract.bgp_sessions import (
    LEAF,
    Router,
    Running,
    World,
    kill_shim,
    neighbor,
    offer,
    until_bandwidth,
    until_reconnected,
    until_routes,
    updates_until_marked,
)
from tests.contract.exabgp_world import RealExabgp
from tests.contract.polling import eventually
from tests.fakes.fake_exabgp import FakeExabgp

ONE = offer("10.2.0.0/16")
TWO = offer("10.3.0.0/16")


@pytest.fixture(params=["fake", "real"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """An ExaBGP that is not started yet."""
    world = FakeExabgp(folder=tmp_path) if request.param == "fake" else RealExabgp(folder=tmp_path)
    yield world
    await world.stop()


@pytest.fixture
async def leaf(world: World) -> Router:
    """A router."""
    return await world.add_peer(LEAF)


@pytest.fixture
async def running(world: World) -> AsyncIterator[Running]:
    """A speaker without a wish."""
    running = Running(world)
    yield running
    await running.stop()


async def announce_one(world: World, leaf: Router, running: Running, **options: int) -> None:
    """The first session, the first route."""
    running.speaker.set({neighbor(**options): [ONE]})  # type: ignore[arg-type]
    await world.start()
    await until_routes(leaf, [ONE.prefix])
    await running.until_sent([ONE])


async def test_an_announcement_arrives_with_its_exact_bandwidth(world: World, leaf: Router, running: Running) -> None:
    """The peer reads the float32 nearest to what was asked for, in bytes/s, from our AS, and our own address."""
    await announce_one(world, leaf, running)
    route = leaf.routes[ip_network("10.2.0.0/16")]
    (community,) = route.communities
    decoded = decode_link_bandwidth(community)
    assert decoded is not None
    assert (decoded.asn, decoded.bandwidth, decoded.transitive) == (65010, 3_124_999_936.0, False)
    assert str(route.next_hop) == "127.0.0.1"
    session = running.session()
    assert (session.state, session.reason, session.sent) == (SessionState.UP, "", (ONE,))
    assert running.speaker.connected


async def test_a_change_is_one_update(world: World, leaf: Router, running: Running) -> None:
    """Another bandwidth replaces the route in one message."""
    await announce_one(world, leaf, running)
    changed = offer("10.2.0.0/16", 1e9)
    running.speaker.set({neighbor(): [changed]})
    await until_bandwidth(leaf, "10.2.0.0/16", encode_link_bandwidth(1e9, asn=65010))
    assert await updates_until_marked(running, leaf, [changed]) == 2


async def test_changes_in_one_tick_are_one_update(world: World, leaf: Router, running: Running) -> None:
    """Only the last of many wishes is sent."""
    await announce_one(world, leaf, running)
    for bandwidth in (1e9, 2e9, 1.5e9, 4e9):
        running.speaker.set({neighbor(): [offer("10.2.0.0/16", bandwidth)]})
    await until_bandwidth(leaf, "10.2.0.0/16", encode_link_bandwidth(4e9, asn=65010))
    assert await updates_until_marked(running, leaf, [offer("10.2.0.0/16", 4e9)]) == 2


async def test_a_route_that_goes_to_and_fro_ends_where_it_should(world: World, leaf: Router, running: Running) -> None:
    """ExaBGP's queue would send three changes of one route in another order than it was given them."""
    await announce_one(world, leaf, running)
    for bandwidth in (1e9, 2e9, 1e9):
        running.speaker.set({neighbor(): [offer("10.2.0.0/16", bandwidth)]})
        await running.until_sent([offer("10.2.0.0/16", bandwidth)])
    await updates_until_marked(running, leaf, [offer("10.2.0.0/16", 1e9)])
    assert (encode_link_bandwidth(1e9, asn=65010),) == leaf.routes[ip_network("10.2.0.0/16")].communities


async def test_an_unchanged_wish_is_no_update(world: World, leaf: Router, running: Running) -> None:
    """However often it is repeated."""
    await announce_one(world, leaf, running)
    for _ in range(10):
        running.speaker.set({neighbor(): [ONE]})
    assert await updates_until_marked(running, leaf, [ONE]) == 1


async def test_what_is_no_longer_wished_is_withdrawn(world: World, leaf: Router, running: Running) -> None:
    """The others stay."""
    running.speaker.set({neighbor(): [ONE, TWO]})
    await world.start()
    await until_routes(leaf, [ONE.prefix, TWO.prefix])
    running.speaker.set({neighbor(): [TWO]})
    await until_routes(leaf, [TWO.prefix])
    await running.until_sent([TWO])


async def test_a_withdrawn_route_can_return(world: World, leaf: Router, running: Running) -> None:
    """Withdrawing and announcing again in a row ends with the route there."""
    await announce_one(world, leaf, running)
    running.speaker.set({neighbor(): []})
    await running.until_sent([])
    running.speaker.set({neighbor(): [ONE]})
    await running.until_sent([ONE])
    await updates_until_marked(running, leaf, [ONE])
    assert ONE.prefix in leaf.routes


async def test_a_prefix_of_another_family_is_not_sent(world: World, leaf: Router, running: Running) -> None:
    """A session carries its address's family only."""
    running.speaker.set({neighbor(): [ONE, offer("fd00:2::/48")]})
    await world.start()
    await running.until_sent([ONE])
    await until_routes(leaf, [ONE.prefix])


async def test_a_lost_session_is_replayed(world: World, leaf: Router, running: Running) -> None:
    """With what was changed while it was lost."""
    await announce_one(world, leaf, running)
    leaf.drop()
    running.speaker.set({neighbor(): [ONE, TWO]})

    async def back() -> bool:
        return leaf.established == 2

    await eventually(back)
    await until_routes(leaf, [ONE.prefix, TWO.prefix])
    await running.until_state(SessionState.UP)


async def test_a_killed_shim_costs_no_update(world: World, leaf: Router, running: Running) -> None:
    """The session stays up, nothing is sent twice, and the speaker goes on when the shim is back."""
    await announce_one(world, leaf, running)
    before = len(running.said)
    await kill_shim(world, running)
    await until_reconnected(running, before)
    assert await updates_until_marked(running, leaf, [ONE]) == 1
    assert leaf.established == 1
    assert SessionState.UP is running.session().state


async def test_a_new_speaker_sends_nothing_that_is_known(world: World, leaf: Router, running: Running) -> None:
    """It takes over what its predecessor announced; nothing was withdrawn in between."""
    await announce_one(world, leaf, running)
    await running.stop()
    assert ONE.prefix in leaf.routes
    successor = Running(world)
    successor.speaker.set({neighbor(): [ONE]})
    await successor.until_sent([ONE])
    assert SessionState.UP is successor.session().state
    assert await updates_until_marked(successor, leaf, [ONE]) == 1
    await successor.stop()


async def test_a_new_speaker_withdraws_what_is_stale(world: World, leaf: Router, running: Running) -> None:
    """What ExaBGP still holds from before is asked from ExaBGP itself."""
    running.speaker.set({neighbor(): [ONE, TWO]})
    await world.start()
    await until_routes(leaf, [ONE.prefix, TWO.prefix])
    await running.stop()
    successor = Running(world)
    successor.speaker.set({neighbor(): [ONE]})
    await until_routes(leaf, [ONE.prefix])
    assert leaf.carrying - 1 <= 2
    await successor.stop()


async def test_a_speaker_without_a_wish_withdraws_nothing(world: World, leaf: Router, running: Running) -> None:
    """Not to know what is wished is not to wish for nothing."""
    await announce_one(world, leaf, running)
    await running.stop()
    successor = Running(world)

    async def connected() -> bool:
        return successor.speaker.connected

    await eventually(connected)
    successor.speaker.set({neighbor(): [ONE]})
    assert await updates_until_marked(successor, leaf, [ONE]) == 1
    await successor.stop()


async def test_a_crash_of_exabgp_is_made_good_in_seconds(world: World, leaf: Router, running: Running) -> None:
    """The new process is told everything."""
    await announce_one(world, leaf, running)
    await world.restart()
    began = time.monotonic()

    async def back() -> bool:
        return leaf.established == 2 and ONE.prefix in leaf.routes

    await eventually(back)
    assert time.monotonic() - began < 5
    await running.until_sent([ONE])


async def test_a_neighbor_is_added_without_touching_the_others(world: World, leaf: Router, running: Running) -> None:
    """The configuration is reloaded; the first session stays."""
    other = await world.add_peer("127.0.0.3", asn=65003)
    await announce_one(world, leaf, running)
    running.speaker.set({neighbor(): [ONE], neighbor("127.0.0.3", asn=65003): [TWO]})
    await until_routes(other, [TWO.prefix])
    assert (leaf.established, leaf.carrying) == (1, 1)
    running.speaker.set({neighbor(): [ONE]})

    async def gone() -> bool:
        return "neighbor 127.0.0.3" not in world.config_file.read_text()

    await eventually(gone)
    assert await updates_until_marked(running, leaf, [ONE]) == 1
    assert leaf.established == 1


async def test_graceful_restart_ends_the_replay_with_a_marker(world: World, leaf: Router, running: Running) -> None:
    """The End-of-RIB comes after the routes, not when the session comes up."""
    await announce_one(world, leaf, running, graceful_restart=20)

    async def marked() -> bool:
        return leaf.ends_of_rib == 1

    await eventually(marked)
    assert leaf.carrying == 1


async def test_a_new_speaker_does_not_end_the_replay_of_its_predecessor(
    world: World, leaf: Router, running: Running
) -> None:
    """The marker is an UPDATE message too: none goes out because we were started anew."""
    await announce_one(world, leaf, running, graceful_restart=20)

    async def marked() -> bool:
        return leaf.ends_of_rib == 1

    await eventually(marked)
    await running.stop()
    successor = Running(world)
    successor.speaker.set({neighbor(graceful_restart=20): [ONE]})
    await successor.until_sent([ONE])
    successor.speaker.set({neighbor(graceful_restart=20): [ONE, TWO]})
    await until_routes(leaf, [ONE.prefix, TWO.prefix])
    assert leaf.ends_of_rib == 1
    await successor.stop()


async def test_without_a_wish_there_is_no_end_of_rib(world: World, leaf: Router, running: Running) -> None:
    """A peer that keeps our routes over a restart must not drop them before we know what we want."""
    await announce_one(world, leaf, running, graceful_restart=20)
    await running.stop()
    successor = Running(world)
    await world.restart()

    async def back() -> bool:
        return leaf.established == 2 and successor.speaker.connected

    await eventually(back)
    before = leaf.ends_of_rib
    successor.speaker.set({neighbor(graceful_restart=20): [ONE]})
    await until_routes(leaf, [ONE.prefix])

    async def marked() -> bool:
        return leaf.ends_of_rib == before + 1

    await eventually(marked)
    await successor.stop()


async def test_a_wrong_as_number_is_named(world: World, leaf: Router, running: Running) -> None:
    """The reason says which AS the peer has."""
    leaf.asn = 65009
    running.speaker.set({neighbor(): [ONE]})
    await world.start()
    session = await running.until_state(SessionState.DOWN, reason="65009")
    assert "NOTIFICATION 2/2" in session.reason


async def test_a_refusing_peer_is_named(world: World, leaf: Router, running: Running) -> None:
    """What the peer's NOTIFICATION says is passed on."""
    leaf.refuse = (6, 5, b"")
    running.speaker.set({neighbor(): [ONE]})
    await world.start()
    await running.until_state(SessionState.DOWN, reason="the peer sent NOTIFICATION 6/5")


async def test_many_routes_arrive(world: World, leaf: Router, running: Running) -> None:
    """A thousand, while answers keep coming."""
    offers = [offer(f"10.{index // 250}.{index % 250}.0/24") for index in range(1000)]
    running.speaker.set({neighbor(): offers})
    await world.start()
    await until_routes(leaf, [one.prefix for one in offers])
    await running.until_sent(offers)
