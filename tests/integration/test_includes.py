"""A configuration of several files under the daemon: history and rollback know all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ikeorch.cli.client import RefusedError
from tests.integration.test_history import proven
from tests.integration.world import World, up

PEER = """\
peers:
  - {name: gw-c, site: dc-c, identity: gw-c.dc.example, asn: 65030, inner: [10.255.3.0/27],
     uplinks: [{name: isp1, addresses: [203.0.114.1]}], tunnels: {count: 1}}
"""


def include(world: World) -> Path:
    """Have the main file include a file with a second peer."""
    folder = world.config.parent / "conf.d"
    folder.mkdir(mode=0o755)
    path = folder / "gw-c.yaml"
    path.write_text(PEER)
    path.chmod(0o644)
    world.config.write_text("include: conf.d/*.yaml\n" + world.config.read_text())
    return path


async def test_a_change_of_an_included_file_alone_is_a_revision_that_goes_back(world: World) -> None:
    """It waits for its confirmation like any other, and the rollback puts that file back."""
    await up(world)
    path = include(world)
    await asyncio.to_thread(world.client.request, "POST", "/v1/apply", {})
    proven(world)
    path.write_text(PEER.replace("count: 1", "count: 2"))
    answer = await asyncio.to_thread(world.client.request, "POST", "/v1/apply", {"confirm_within": 600})
    assert answer["confirm_within"] is not None
    assert world.reconciler.spec.peers[1].tunnels.count == 2
    await asyncio.to_thread(world.client.request, "POST", "/v1/rollback", {})
    assert path.read_text() == PEER
    assert world.reconciler.spec.peers[1].tunnels.count == 1


async def test_a_plan_of_another_included_file_is_refused(world: World) -> None:
    """The digest of a plan is that of all files."""
    await up(world)
    path = include(world)
    view = await asyncio.to_thread(world.client.get, "/v1/plan")
    path.write_text(f"# another\n{PEER}")
    plan = {"config": view["config_digest"], "actions": view["actions_digest"]}
    with pytest.raises(RefusedError, match="the world moved"):
        await asyncio.to_thread(world.client.request, "POST", "/v1/apply", plan)


async def test_a_rollback_needs_no_valid_file(world: World) -> None:
    """Who broke the file by hand gets out by it."""
    await up(world)
    good = world.config.read_text()
    world.config.write_text(good.replace("count: 4", "count: 3"))
    await asyncio.to_thread(world.client.request, "POST", "/v1/apply", {"confirm_within": 600})
    world.config.write_text("rubbish: [")
    await asyncio.to_thread(world.client.request, "POST", "/v1/rollback", {})
    assert world.config.read_text() == good
    assert world.reconciler.spec.peers[0].tunnels.count == 4
