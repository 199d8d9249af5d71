"""What the tests of the speaker share: neighbours, offers, a running speaker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address, ip_network

from bgp.advertisement import Advertisement, IPNetwork, Neighbor
from bgp.session import Session, SessionState
from bgp.speaker import Speaker
from tests.contract.bgp_collector import Collector
from tests.contract.exabgp_world import RealExabgp
from tests.contract.polling import eventually
from tests.fakes.fake_exabgp import FakeExabgp, FakePeer

World = FakeExabgp | RealExabgp
Router = FakePeer | Collector
LEAF = "127.0.0.2"
MARK = ip_network("10.255.255.0/24")


def neighbor(address: str = LEAF, *, asn: int = 65001, graceful_restart: int | None = None) -> Neighbor:
    """A leaf, as it is wished."""
    return Neighbor(
        address=ip_address(address),
        asn=asn,
        local_asn=65010,
        router_id=IPv4Address("10.0.255.1"),
        graceful_restart=graceful_restart,
    )


def offer(prefix: str, bandwidth: float = 6.25e9 / 2) -> Advertisement:
    """A prefix of the other site."""
    return Advertisement(prefix=ip_network(prefix), link_bandwidth=bandwidth)


class Running:
    """A speaker at work."""

    def __init__(self, world: World) -> None:
        self.said: list[str] = []
        self.speaker = Speaker(
            world.socket, config_file=world.config_file, on_change=self.said.append, validate=world.validate
        )
        self._task = asyncio.create_task(self.speaker.run())

    async def stop(self) -> None:
        """As a daemon that ends."""
        await self.speaker.close()
        await self._task

    def session(self, address: str = LEAF) -> Session:
        """One session."""
        return self.speaker.sessions()[ip_address(address)]

    async def until_state(self, state: SessionState, address: str = LEAF, *, reason: str = "") -> Session:
        """Wait for a state and a reason that holds these words."""

        async def look() -> bool:
            session = self.session(address)
            return session.state is state and reason in session.reason

        await eventually(look)
        return self.session(address)

    async def until_sent(self, offers: Sequence[Advertisement], address: str = LEAF) -> None:
        """Wait until ExaBGP has taken exactly these."""

        async def look() -> bool:
            return self.session(address).sent == tuple(offers)

        await eventually(look)


async def until_routes(router: Router, prefixes: Sequence[IPNetwork | str]) -> None:
    """Wait until the router holds exactly these."""
    wanted = {ip_network(str(prefix)) for prefix in prefixes}

    async def look() -> bool:
        return set(router.routes) == wanted

    await eventually(look)


async def until_bandwidth(router: Router, prefix: str, community: bytes) -> None:
    """Wait until the router holds this prefix with this community."""

    async def look() -> bool:
        route = router.routes.get(ip_network(prefix))
        return route is not None and route.communities == (community,)

    await eventually(look)


async def updates_until_marked(running: Running, router: Router, offers: Sequence[Advertisement]) -> int:
    """How many UPDATEs the router had before that of one more prefix, which is announced now and overtakes none."""
    running.speaker.set({running.session().neighbor: [*offers, offer(str(MARK), 1.0)]})

    async def look() -> bool:
        return MARK in router.routes

    await eventually(look)
    return router.carrying - 1


async def kill_shim(world: World, running: Running) -> None:
    """SIGKILL to the process that serves the socket."""
    if isinstance(world, FakeExabgp):
        await world.kill_shim()
    else:
        pid = running.speaker.shim_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)


async def until_reconnected(running: Running, before: int) -> None:
    """Wait until ExaBGP's process was lost and is back."""

    async def look() -> bool:
        return running.said[before:].count("ExaBGP's process is connected") > 0

    await eventually(look)
