"""What the speaker does when the other end is slow, hostile, refuses, or dies at a bad moment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from bgp import conversation, link
from bgp.errors import SocketError
from bgp.session import SessionState
from bgp.speaker import Speaker
from tests.contract.bgp_collector import Collector
from tests.contract.bgp_sessions import (
    LEAF,
    Running,
    neighbor,
    offer,
    until_reconnected,
    until_routes,
    updates_until_marked,
)
from tests.contract.exabgp_world import RealExabgp
from tests.contract.polling import eventually
from tests.fakes.fake_exabgp import FakeExabgp

ONE = offer("10.2.0.0/16")
TWO = offer("10.3.0.0/16")
MANY = [offer(f"10.{index // 250}.{index % 250}.0/24") for index in range(1000)]


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[FakeExabgp]:
    """A fake with one leaf."""
    world = FakeExabgp(folder=tmp_path)
    await world.add_peer(LEAF)
    yield world
    await world.stop()


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealExabgp]:
    """A real ExaBGP with one leaf."""
    world = RealExabgp(folder=tmp_path)
    await world.add_peer(LEAF)
    yield world
    await world.stop()


@pytest.fixture
async def running(request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """A speaker for whichever world the test has."""
    name = "real" if "real" in request.fixturenames else "fake"
    running = Running(request.getfixturevalue(name))
    yield running
    await running.stop()


def parent_of(pid: int) -> int:
    """A process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and not only its remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until_listening(world: FakeExabgp | RealExabgp) -> None:
    """Wait until the socket is there."""

    async def there() -> bool:
        return world.socket.exists()

    await eventually(there)


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"ikeorch-shim 2\n",
        b"\xff\xfe\n",
        b"x" * 3_000_000,
        b"ikeorch-shim 1\n",
        b"ikeorch-shim 1\nikeorch-shim ready\n",
        b"ikeorch-shim 1\nikeorch-shim ready\ndone\n",
        b"ikeorch-shim 1\nikeorch-shim ready\n[]\ndone\nnonsense\nerror\n",
        b"ikeorch-shim 1\nikeorch-shim ready\n[[[[" + b"[" * 900_000 + b"\ndone\n",
        b'ikeorch-shim 1\n{ "exabgp": 1, "type": "state", "neighbor": 7 }\nikeorch-shim ready\n' + b"x" * 3_000_000,
    ],
    ids=range(11),
)
async def test_a_strange_client_does_not_keep_the_shim_out(fake: FakeExabgp, running: Running, words: bytes) -> None:
    """Whatever it says and however long it stays."""
    running.speaker.set({neighbor(): [ONE]})
    await until_listening(fake)
    reader, writer = await asyncio.open_unix_connection(str(fake.socket))
    writer.write(words)
    await fake.start()
    await running.until_sent([ONE])
    del reader
    writer.close()


async def test_a_silent_exabgp_is_left_and_found_again(
    fake: FakeExabgp, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command without an answer ends the conversation; the next one begins from what ExaBGP holds."""
    monkeypatch.setattr(link, "DEADLINE", 0.2)
    running.speaker.set({neighbor(): [ONE]})
    await fake.start()
    await running.until_sent([ONE])
    fake.silent = True
    running.speaker.set({neighbor(): [ONE, TWO]})
    session = await running.until_state(SessionState.UNKNOWN, reason="has not answered")
    assert not running.speaker.connected
    assert session.sent == ()
    fake.silent = False
    await running.until_sent([ONE, TWO])
    assert running.speaker.connected


async def test_a_refused_route_is_named_and_tried_again(
    fake: FakeExabgp, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other routes are not held up by it."""
    monkeypatch.setattr(conversation, "RESYNC", 0.5)
    fake.fail_next.append("announce route 10.2.0.0/16")
    running.speaker.set({neighbor(): [ONE, TWO]})
    await fake.start()
    await running.until_sent([TWO])
    assert "refuses 1 of the routes" in running.session().reason
    await running.until_sent([ONE, TWO])
    assert running.session().reason == ""


async def test_what_exabgp_lost_is_found_by_the_survey(
    fake: FakeExabgp, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's withdrawal is made good."""
    monkeypatch.setattr(conversation, "RESYNC", 0.2)
    running.speaker.set({neighbor(): [ONE]})
    await fake.start()
    await running.until_sent([ONE])
    fake._neighbors[LEAF].held.clear()
    fake.peers[LEAF].routes.clear()
    await until_routes(fake.peers[LEAF], [ONE.prefix])


async def test_a_socket_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """With its path."""
    speaker = Speaker(tmp_path / "no" / "sock", config_file=tmp_path / "conf", on_change=lambda _: None)
    with pytest.raises(SocketError, match="no/sock"):
        await speaker.run()


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('unset process sections')"), "unset process sections"),
        (("/no/such/exabgp", "validate"), "cannot be run"),
    ],
)
async def test_a_refused_configuration_is_not_put_in_place(tmp_path: Path, check: tuple[str, ...], words: str) -> None:
    """The old file stays, and the reason says what ExaBGP said."""
    file = tmp_path / "exabgp.conf"
    file.write_text("old\n")
    speaker = Speaker(tmp_path / "sock", config_file=file, on_change=lambda _: None, validate=check)
    task = asyncio.create_task(speaker.run())
    speaker.set({neighbor(): [ONE]})

    async def named() -> bool:
        return words in speaker.sessions()[ip_address(LEAF)].reason

    await eventually(named)
    assert file.read_text() == "old\n"
    assert not (tmp_path / ".exabgp.conf.new").exists()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_real_check_refuses_what_exabgp_would_choke_on(tmp_path: Path, real: RealExabgp) -> None:
    """A later reload of a good file would fail too, until ExaBGP is restarted."""
    shim = ("/no/such/program", "x")
    speaker = Speaker(
        real.socket, config_file=real.config_file, on_change=lambda _: None, shim=shim, validate=real.validate
    )
    task = asyncio.create_task(speaker.run())
    speaker.set({neighbor(): [ONE]})

    async def named() -> bool:
        return "can not locate the program" in speaker.sessions()[ip_address(LEAF)].reason

    await eventually(named)
    assert not real.config_file.exists()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_worker_killed_in_full_flight_costs_no_session(real: RealExabgp, running: Running) -> None:
    """ExaBGP would stop every session if its answer met a closed pipe; the guardian holds it open."""
    running.speaker.set({neighbor(): [ONE]})
    await real.start()
    leaf = real.peers[LEAF]
    await until_routes(leaf, [ONE.prefix])
    for turn in range(6):
        before = len(running.said)
        running.speaker.set({neighbor(): [replace(one, link_bandwidth=float(turn + 1)) for one in MANY]})
        count = leaf.carrying

        async def flowing(count: int = count) -> bool:
            return leaf.carrying > count

        await eventually(flowing)
        pid = running.speaker.shim_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until_reconnected(running, before)
    await running.until_sent([replace(one, link_bandwidth=6.0) for one in MANY])
    assert (leaf.established, len(leaf.notifications)) == (1, 0)
    assert {route.communities[0][4:] for route in leaf.routes.values()} == {b"\x40\xc0\0\0"}


async def test_a_killed_guardian_is_replaced_by_exabgp(real: RealExabgp, running: Running) -> None:
    """No session is lost and nothing is withdrawn."""
    running.speaker.set({neighbor(): [ONE]})
    await real.start()
    leaf = real.peers[LEAF]
    await running.until_sent([ONE])
    worker = running.speaker.shim_pid
    assert worker is not None
    guardian = parent_of(worker)
    before = len(running.said)
    os.kill(guardian, signal.SIGKILL)

    async def dead() -> bool:
        return not is_alive(guardian)

    await eventually(dead)
    # ExaBGP notices with the next command.
    running.speaker.set({neighbor(): [ONE, TWO]})
    await until_reconnected(running, before)
    assert running.speaker.shim_pid != worker
    await running.until_sent([ONE, TWO])
    assert await updates_until_marked(running, leaf, [ONE, TWO]) == 2
    assert leaf.established == 1

    async def gone() -> bool:
        return not is_alive(worker)

    await eventually(gone)


async def test_a_lost_leaf_does_not_keep_others_from_being_configured(real: RealExabgp, running: Running) -> None:
    """ExaBGP passes over a reload while routes wait for a session; it is asked until it does it."""
    dead = replace(neighbor("127.0.0.9"), local_address=ip_address("127.0.0.1"))
    running.speaker.set({neighbor(): [ONE], dead: [ONE]})
    await real.start()
    await running.until_sent([ONE], "127.0.0.9")
    await running.until_state(SessionState.DOWN, "127.0.0.9", reason="refused or lost")
    other = await real.add_peer("127.0.0.3", asn=65003)
    running.speaker.set({neighbor(): [ONE], dead: [TWO], neighbor("127.0.0.3", asn=65003): [TWO]})
    await until_routes(other, [TWO.prefix])
    assert real.peers[LEAF].established == 1


async def test_a_neighbor_whose_as_changes_starts_anew(real: RealExabgp, running: Running) -> None:
    """And is told everything."""
    running.speaker.set({neighbor(asn=65009): [ONE]})
    await real.start()
    await running.until_state(SessionState.DOWN, reason="NOTIFICATION")
    running.speaker.set({neighbor(): [ONE]})
    await running.until_state(SessionState.UP)
    await until_routes(real.peers[LEAF], [ONE.prefix])


async def test_the_end_of_rib_comes_after_many_routes(real: RealExabgp, running: Running) -> None:
    """After the last of them, however many commands may be on the way at once."""
    leaf = real.peers[LEAF]
    running.speaker.set({neighbor(graceful_restart=20): MANY})
    await real.start()

    async def marked() -> bool:
        return leaf.ends_of_rib == 1

    await eventually(marked)
    before = [update.end_of_rib for update in leaf.updates].index(True)
    assert len({prefix for update in leaf.updates[:before] for prefix in update.announced}) == len(MANY)


async def test_a_change_that_shows_nowhere_is_taken_too(real: RealExabgp, running: Running) -> None:
    """The restart time is said in the OPEN only; the fingerprint shows whether ExaBGP has read it."""
    leaf = real.peers[LEAF]
    running.speaker.set({neighbor(graceful_restart=20): [ONE]})
    await real.start()
    await running.until_sent([ONE])
    running.speaker.set({neighbor(graceful_restart=30): [ONE]})

    async def said() -> bool:
        return leaf.opens[-1].capabilities[64][1] == 30

    await eventually(said)
    await until_routes(leaf, [ONE.prefix])
    assert leaf.opens[0].capabilities[64][1] == 20


async def test_a_file_that_is_in_force_is_not_read_again(real: RealExabgp, running: Running) -> None:
    """A reload at the moment in which a session comes up costs that session."""
    running.speaker.set({neighbor(): [ONE]})
    await real.start()
    await running.until_sent([ONE])
    assert real.log.count("performing reload") == 1


async def test_a_peer_may_connect_by_itself(real: RealExabgp, running: Running) -> None:
    """One that was gone for long need not wait for ExaBGP's next attempt."""
    real.listen = (ip_address("127.0.0.1"),)
    silent = Collector(address="127.0.0.3", asn=65003)
    running.speaker.set({replace(neighbor("127.0.0.3", asn=65003), local_address=real.listen[0]): [ONE]})
    await real.start()
    await running.until_state(SessionState.DOWN, "127.0.0.3", reason="refused or lost")
    await silent.dial("127.0.0.1", real.port)
    await until_routes(silent, [ONE.prefix])
    await silent.stop()


async def test_an_ipv6_session_carries_ipv6(real: RealExabgp, running: Running) -> None:
    """Prefixes of the other family stay away, AS numbers may have four bytes, and a new speaker sends nothing twice."""
    leaf = await real.add_peer("::1", asn=4_200_000_001)
    wished = replace(neighbor("::1", asn=4_200_000_001), local_asn=4_200_000_000, transitive=True)
    offers = [offer("fd00:2::/48", 1.0), offer("fd00:3::/64", 0.0), ONE]
    running.speaker.set({wished: offers})
    await real.start()
    await running.until_sent(offers[:2], "::1")
    await until_routes(leaf, ["fd00:2::/48", "fd00:3::/64"])
    route = leaf.routes[offers[0].prefix]
    assert (str(route.next_hop), route.communities[0].hex()) == ("::1", "00045ba03f800000")
    await running.stop()
    successor = Running(real)
    successor.speaker.set({wished: offers[:1]})
    await until_routes(leaf, ["fd00:2::/48"])
    assert (leaf.carrying, leaf.established) == (3, 1)
    await successor.stop()


async def test_a_hung_exabgp_is_noticed(real: RealExabgp, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions end without a word: it is asked for a sign of life, and that it hangs is said; it may come back."""
    monkeypatch.setattr(conversation, "HEARTBEAT", 0.5)
    monkeypatch.setattr(conversation, "HEARTBEAT_PATIENCE", 1.0)
    running.speaker.set({neighbor(): [ONE]})
    await real.start()
    await running.until_sent([ONE])
    os.kill(real.pid, signal.SIGSTOP)
    try:

        async def noticed() -> bool:
            return "it hangs" in running.speaker.trouble

        await eventually(noticed)
        assert not running.speaker.connected
    finally:
        os.kill(real.pid, signal.SIGCONT)
    await running.until_sent([ONE])
    assert running.speaker.connected
