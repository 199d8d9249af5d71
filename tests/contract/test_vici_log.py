"""charon's log over VICI: refusals are found in it, and a flood costs nothing but itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ikeorch.adapters.vici.log_watch import LogWatch
from ikeorch.core.refusal import Cause, Refusal
from tests.contract.polling import eventually
from tests.fakes.fake_charon import FakeCharon

LINE = {"group": "IKE", "level": "1", "thread": "7"}
REFUSED = LINE | {"ikesa-name": "(unnamed)", "ikesa-uniqueid": "3"}
NOBODY = REFUSED | {"msg": "no IKE config found for 192.0.2.1...192.0.2.9, sending NO_PROPOSAL_CHOSEN"}


@asynccontextmanager
async def watching(
    path: Path, report: Callable[[Refusal], None], *, lines: int = 4000, pause: float = 10.0
) -> AsyncIterator[LogWatch]:
    """A watch on a charon."""
    watch = LogWatch(path, deadline=2, lines_per_second=lines, pause=pause)
    task = asyncio.create_task(watch.refusals(report))
    yield watch
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    watch.close()


async def registered(charon: FakeCharon) -> None:
    """Wait until somebody listens to the log."""

    async def listening() -> bool:
        return any("log" in client.events for client in charon._clients)

    await eventually(listening)


async def test_a_refusal_is_reported_once_and_ordinary_lines_never(tmp_path: Path) -> None:
    """Among a thousand other lines."""
    found: list[Refusal] = []
    async with FakeCharon(tmp_path / "vici") as charon, watching(charon.path, found.append) as watch:
        await registered(charon)
        for number in range(1000):
            charon.emit("log", LINE | {"msg": f"sending DPD request {number}"})
        charon.emit("log", NOBODY)

        async def reported() -> list[Refusal]:
            return found

        (refusal,) = await eventually(reported)
        assert (refusal.cause, str(refusal.remote)) == (Cause.NOT_CONFIGURED, "192.0.2.9")
        assert watch.floods == 0


async def test_a_charon_that_is_started_anew_is_watched_again(tmp_path: Path) -> None:
    """By itself."""
    found: list[Refusal] = []
    async with FakeCharon(tmp_path / "vici") as charon, watching(charon.path, found.append):
        await registered(charon)
        await charon.restart()
        await registered(charon)
        charon.emit("log", NOBODY)

        async def reported() -> list[Refusal]:
            return found

        assert len(await eventually(reported)) == 1


async def test_a_flood_ends_the_connection_for_a_while(tmp_path: Path) -> None:
    """charon keeps nothing for us meanwhile; then it is watched again."""
    found: list[Refusal] = []
    async with (
        FakeCharon(tmp_path / "vici") as charon,
        watching(charon.path, found.append, lines=50, pause=0.2) as watch,
    ):
        await registered(charon)
        for number in range(500):
            charon.emit("log", LINE | {"msg": f"received packet {number}"})

        async def flooded() -> bool:
            return watch.floods == 1 and not charon._clients

        await eventually(flooded)
        await registered(charon)
        charon.emit("log", NOBODY)

        async def reported() -> list[Refusal]:
            return found

        assert len(await eventually(reported)) == 1


async def test_a_charon_without_the_event_is_no_error(tmp_path: Path) -> None:
    """Then nobody says why, and nothing else suffers."""
    found: list[Refusal] = []
    async with (
        FakeCharon(tmp_path / "vici", known_events={"ike-updown"}) as charon,
        watching(charon.path, found.append) as watch,
    ):

        async def connected() -> bool:
            return bool(charon._clients)

        await eventually(connected)
        charon.emit("log", NOBODY)
        await asyncio.sleep(0.1)
        assert (found, watch.floods) == ([], 0)
