"""What `plan --explain` prints for ExaBGP, given to the real one, tells its peer what the plan said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

from bgp.configuration import render_configuration
from bgp.link_bandwidth import encode_link_bandwidth
from bgp.process import shim_command
from ikeorch.core.fabric import FabricRoute, FabricWish
from ikeorch.core.spec import FabricNeighbor, FabricSpec
from ikeorch.core.units import BytesPerSecond
from ikeorch.daemon.explain_fabric import fabric_lines
from tests.contract.bgp_collector import Collector
from tests.contract.bgp_sessions import LEAF
from tests.contract.exabgp_world import RealExabgp
from tests.contract.polling import eventually

NEIGHBOR = FabricNeighbor(address=ip_address(LEAF), asn=65001)


def wish(routes: dict[str, float], neighbor: FabricNeighbor = NEIGHBOR) -> FabricWish:
    """What the leaf shall hear."""
    return FabricWish(
        fabric=FabricSpec(neighbors=(neighbor,)),
        asn=65010,
        router_id="10.0.255.1",
        routes=tuple(
            FabricRoute(prefix=ip_network(prefix), bandwidth=BytesPerSecond(value)) for prefix, value in routes.items()
        ),
    )


def commands(lines: Sequence[str]) -> list[str]:
    """Those of ExaBGP's API."""
    return [line for line in lines if line.startswith("neighbor ") and not line.endswith("{")]


def blocks(lines: Sequence[str]) -> str:
    """Those of its configuration."""
    end = lines.index("reload")
    return "".join(f"{line}\n" for line in lines[:end] if not line.startswith("#"))


def told(leaf: Collector) -> dict[str, bytes]:
    """What the leaf holds."""
    return {str(prefix): route.communities[0] for prefix, route in leaf.routes.items()}


async def test_the_lines_lead_the_leaf_from_wish_to_wish(tmp_path: Path) -> None:
    """The first neighbour with its routes; then one route more, one less, one with another bandwidth."""
    world = RealExabgp(folder=tmp_path)
    leaf = await world.add_peer(LEAF)
    arrived: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_unix_server(lambda _, writer: arrived.put_nowait(writer), str(world.socket))
    first = wish({"10.2.0.0/16": 3e9, "10.3.0.0/16": 1.0, "fd00:b::/48": 3e9})
    second = wish({"10.2.0.0/16": 1.5e9, "10.4.0.0/16": 6.25e9 / 2, "fd00:b::/48": 3e9})
    empty = render_configuration((), shim_command(world.socket))
    world.config_file.write_text(empty + blocks(fabric_lines(None, first)))
    await world.start()
    try:
        shim = await arrived.get()
        await eventually(lambda: _true(leaf.established == 1))
        before: FabricWish | None = None
        for after in (first, second):
            lines = commands(fabric_lines(before, after))
            assert len(lines) == (2 if before is None else 3)
            shim.write("".join(f"{line}\n" for line in lines).encode())
            wanted = {
                str(route.prefix): encode_link_bandwidth(route.bandwidth, asn=65010)
                for route in after.routes
                if route.prefix.version == 4
            }
            await eventually(lambda wanted=wanted: _true(told(leaf) == wanted))  # type: ignore[misc]
            before = after
        shim.close()
    finally:
        await world.stop()
        server.close()


async def _true(value: bool) -> bool:
    return value


def test_what_the_session_opens_with_is_a_new_block_and_all_routes_again() -> None:
    """Another AS of the leaf's: its block, a reload, every route; a leaf that stays as it is hears nothing."""
    routes = {"10.2.0.0/16": 3e9}
    before = wish(routes)
    assert fabric_lines(before, before) == ["# nothing that ExaBGP is told"]
    lines = fabric_lines(before, wish(routes, replace(NEIGHBOR, asn=65009)))
    assert "    peer-as 65009;" in lines
    assert "reload" in lines
    assert len(commands(lines)) == 1
    gone = fabric_lines(before, replace(before, fabric=FabricSpec()))
    assert gone == [f"# exabgp.conf without neighbor {LEAF}", "reload"]
