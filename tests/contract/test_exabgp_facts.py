"""What ExaBGP 5.0 does with commands: each of our rules that looks odd has its reason here.

A test that fails with a later ExaBGP says that a rule may go. The test is ikeorchd at the shim's socket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from bgp.advertisement import Neighbor
from bgp.configuration import render_configuration
from bgp.process import shim_command
from tests.contract.bgp_collector import Collector
from tests.contract.bgp_sessions import LEAF, neighbor
from tests.contract.exabgp_world import RealExabgp
from tests.contract.polling import eventually
from tests.contract.test_bgp_shim import Daemon

PREFIX = ip_network("10.1.0.0/16")
LAST = ip_network("10.9.0.0/16")


class Talk:
    """A session that is up, and raw commands."""

    def __init__(self, world: RealExabgp, daemon: Daemon, leaf: Collector) -> None:
        self.world = world
        self.daemon = daemon
        self.leaf = leaf

    async def say(self, *commands: str) -> None:
        """In one write, so that ExaBGP reads them in one pass; the answers are awaited."""
        self.daemon.say("".join(f"neighbor {LEAF} {command}\n" for command in commands).encode())
        for _ in commands:
            while await self.daemon.hear() not in (b"done\n", b"error\n"):
                pass

    async def held(self) -> bytes | None:
        """The last byte of the community that the peer holds, once all that was said has reached it."""
        await self.say(f"announce route {LAST} next-hop 127.0.0.1")

        async def arrived() -> bool:
            return LAST in self.leaf.routes

        await eventually(arrived)
        await self.say(f"withdraw route {LAST} next-hop 127.0.0.1")

        async def left() -> bool:
            return LAST not in self.leaf.routes

        await eventually(left)
        route = self.leaf.routes.get(PREFIX)
        return route.communities[0][-1:] if route is not None else None


def announce(value: int, verb: str = "announce") -> str:
    """A route with one of several attribute sets."""
    return f"{verb} route {PREFIX} next-hop 127.0.0.1 extended-community [ 0x4004fdf2000000{value:02x} ]"


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    """ExaBGP with one leaf."""
    world = RealExabgp(folder=tmp_path)
    leaf = await world.add_peer(LEAF)
    daemon = Daemon(world.socket)
    await daemon.start()
    wish: Neighbor = neighbor()
    world.config_file.write_text(render_configuration([wish], shim_command(world.socket)))
    await world.start()
    await daemon.accept()

    async def up() -> bool:
        return leaf.established == 1

    await eventually(up)
    yield Talk(world, daemon, leaf)
    daemon.stop()
    await world.stop()


async def test_three_changes_in_one_pass_end_with_the_second(talk: Talk) -> None:
    """The third takes the first one's place in the queue. Hence one command a prefix, and SETTLE."""
    await talk.say(announce(1), announce(2), announce(1))
    assert await talk.held() == b"\x02"


async def test_a_withdrawal_without_attributes_can_overtake(talk: Talk) -> None:
    """It has a place of its own in the queue: the announcement after it is sent before it and is lost."""
    await talk.say(announce(1))
    assert await talk.held() == b"\x01"
    await talk.say(announce(2), f"withdraw route {PREFIX} next-hop 127.0.0.1", announce(2))
    assert await talk.held() is None


async def test_a_withdrawal_with_the_same_attributes_does_not(talk: Talk) -> None:
    """It takes the announcement's place, and the announcement after it takes its."""
    await talk.say(announce(1))
    assert await talk.held() == b"\x01"
    await talk.say(announce(1, "withdraw"), announce(1))
    assert await talk.held() == b"\x01"


async def test_the_first_batch_of_a_session_sends_no_withdrawal(talk: Talk) -> None:
    """A route stays at the peer that ExaBGP has already forgotten."""
    await talk.say(announce(1), announce(2), announce(2, "withdraw"))
    assert await talk.held() == b"\x01"


async def test_next_hop_self_is_an_error_before_the_first_connection(talk: Talk) -> None:
    """ExaBGP does not know its own address then. Hence we resolve it."""
    talk.world.config_file.write_text(
        render_configuration([neighbor("127.0.0.9"), neighbor()], shim_command(talk.world.socket))
    )
    talk.daemon.say(b"reload\n")
    while await talk.daemon.hear() != b"done\n":
        pass

    async def answer() -> bytes:
        talk.daemon.say(b"neighbor 127.0.0.9 announce route 10.1.0.0/16 next-hop self\n")
        while (line := await talk.daemon.hear()) not in (b"done\n", b"error\n"):
            pass
        return line

    # "error" as long as the new neighbour is not there, and because of the address when it is.
    assert await answer() == b"error\n"
    talk.daemon.say(b"neighbor 127.0.0.9 announce route 10.1.0.0/16 next-hop 127.0.0.1\n")
    while (line := await talk.daemon.hear()) not in (b"done\n", b"error\n"):
        pass
    assert line == b"done\n"
