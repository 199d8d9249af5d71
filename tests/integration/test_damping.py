"""A condition that comes and goes, in the running loop: shown throughout, logged once, cleared without being asked."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from ikeorch.core.conditions import DAMPED, Code
from tests.integration.world import World, until, up


async def test_a_session_that_flaps_is_one_condition(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Up and down five times: always shown, since the first time; cleared once it has been up for the damping time."""
    await up(world)
    capsys.readouterr()
    loop = asyncio.create_task(world.reconciler.run())

    def shown() -> list[bool]:
        result = world.reconciler.last
        assert result is not None
        return [each.absent_since is None for each in result.conditions if each.code is Code.FABRIC_SESSION_DOWN]

    try:
        since = set()
        for _ in range(5):
            world.fabric.down = {"10.0.0.254": "hold timer expired"}
            world.reconciler.wake("session down")
            await until(lambda: shown() == [True])
            world.fabric.down = {}
            world.reconciler.wake("session up")
            await until(lambda: shown() == [False])
            assert world.reconciler.last is not None
            since |= {each.since for each in world.reconciler.last.conditions}
        assert len(since) == 1
        began = time.monotonic()
        await until(lambda: shown() == [])
        assert time.monotonic() - began > DAMPED / 2
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop
    written = capsys.readouterr()
    lines = [line for line in (written.out + written.err).splitlines() if "fabric-session-down" in line]
    assert [line.split("]")[1].split()[0] for line in lines] == ["condition_raised", "condition_cleared"]
    assert all("class=peer" in line for line in lines)
