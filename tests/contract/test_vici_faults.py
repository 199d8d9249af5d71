"""What the adapter makes of a charon that misbehaves: only the stand-in can be made to."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ikeorch.adapters.vici.adapter import CharonAdapter, CharonEvent
from ikeorch.core.charon_state import ChildState, IkeState
from ikeorch.core.ids import TunnelId
from ikeorch.errors import CharonRefusedError, CharonUnreachableError, NotPermittedError
from tests.contract.credentials import connection, identities
from tests.contract.polling import eventually
from tests.contract.real_charon import RealCharon, why_not
from tests.fakes.fake_charon import EVENTS, Disturbance, FakeCharon

TUNNEL = TunnelId("gw-b", 0)
US, PEER = identities()
CONNECTION = connection(TUNNEL, US, PEER, if_id=0x16)


@pytest.fixture
async def charon(tmp_path: Path) -> AsyncIterator[FakeCharon]:
    async with FakeCharon(tmp_path / "charon.vici") as world:
        yield world


@pytest.fixture
async def adapter(charon: FakeCharon) -> AsyncIterator[CharonAdapter]:
    adapter = CharonAdapter(charon.path, deadline=0.3)
    yield adapter
    await adapter.close()


@pytest.mark.parametrize("disturbance", Disturbance)
@pytest.mark.parametrize("command", ["version", "stats", "list-sas", "get-keys"])
async def test_a_disturbed_snapshot_is_unknown_and_the_next_is_whole(
    adapter: CharonAdapter, charon: FakeCharon, disturbance: Disturbance, command: str
) -> None:
    """Never a part of the truth, never a foreign exception, never the answer to an older question."""
    await adapter.load_connection(CONNECTION)
    charon.disturb_next(command, disturbance)
    with pytest.raises(CharonUnreachableError) as caught:
        await adapter.snapshot()
    assert str(charon.path) == caught.value.where
    assert {CONNECTION.name} == (await adapter.snapshot()).connections


@pytest.mark.parametrize("disturbance", Disturbance)
async def test_a_disturbed_command_fails_and_the_next_works(
    adapter: CharonAdapter, charon: FakeCharon, disturbance: Disturbance
) -> None:
    """The same for commands."""
    charon.disturb_next("load-conn", disturbance)
    with pytest.raises(CharonUnreachableError):
        await adapter.load_connection(CONNECTION)
    await adapter.load_connection(CONNECTION)
    assert f"connection {CONNECTION.name}" == charon.render()


async def test_silence_ends_at_the_deadline(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """The message names the command and how long it was waited for."""
    charon.disturb_next("version", Disturbance.SILENCE)
    with pytest.raises(CharonUnreachableError, match=r"did not answer version within 0\.3 s"):
        await adapter.snapshot()


async def test_a_refusal_names_charons_reason_and_keeps_the_connection(
    adapter: CharonAdapter, charon: FakeCharon
) -> None:
    """success=no is an answer, not a fault of the conversation."""
    charon.fail_next("load-conn", "no memory")
    with pytest.raises(CharonRefusedError, match="no memory"):
        await adapter.load_connection(CONNECTION)
    await adapter.load_connection(CONNECTION)


async def test_an_established_tunnel_is_read_with_hexadecimal_ids(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """if_id 0x16 is 22, not 16 (A11)."""
    charon.peer_answers = True
    await adapter.load_connection(CONNECTION)
    await adapter.initiate(TUNNEL)
    (sa,) = (await adapter.snapshot()).sas
    (child,) = sa.children
    assert (sa.state, child.state) == (IkeState.ESTABLISHED, ChildState.INSTALLED)
    assert (child.if_id_in, child.if_id_out, child.spi_in, child.spi_out) == (22, 22, 0xC0DE0001, 0xC0DE0002)
    assert sa.suite == "AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384"
    assert child.suite == "AES_GCM_16-256/ESN"
    assert child.forwards


async def test_two_sas_of_one_connection_are_both_seen(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """During make-before-break a connection has two; neither hides the other (A16)."""
    charon.peer_answers = True
    await adapter.load_connection(CONNECTION)
    await adapter.initiate(TUNNEL)
    await adapter.initiate(TUNNEL)
    assert [CONNECTION.name] * 2 == [sa.connection for sa in (await adapter.snapshot()).sas]


async def test_events_name_the_connection(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """Up and down of a tunnel wake the loop with its name; events that nobody asked for do not."""
    charon.peer_answers = True
    await adapter.load_connection(CONNECTION)
    events: asyncio.Queue[CharonEvent] = asyncio.Queue()
    listening = asyncio.create_task(adapter.events(events.put_nowait))
    try:
        async with asyncio.timeout(5):
            assert CharonEvent("connected") == await events.get()
            await adapter.initiate(TUNNEL)
            await adapter.terminate(charon.sas[0].unique_id, force=False)
            kinds = [await events.get() for _ in range(4)]
        expected = ["ike-updown", "child-updown", "ike-updown", "child-updown"]
        assert [CharonEvent(kind, CONNECTION.name) for kind in expected] == kinds
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


async def test_an_older_charon_without_an_event_is_still_listened_to(tmp_path: Path) -> None:
    """ike-update came with 5.9.2; the others are registered all the same (A18)."""
    async with FakeCharon(tmp_path / "old.vici", version="5.9.1", known_events=EVENTS - {"ike-update"}) as charon:
        adapter = CharonAdapter(charon.path)
        events: asyncio.Queue[CharonEvent] = asyncio.Queue()
        listening = asyncio.create_task(adapter.events(events.put_nowait))
        async with asyncio.timeout(5):
            assert CharonEvent("connected") == await events.get()
            charon.emit("child-rekey", {CONNECTION.name: {"uniqueid": "1"}})
            assert CharonEvent("child-rekey", CONNECTION.name) == await events.get()
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await adapter.close()


async def test_garbage_among_events_reconnects(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """The stream is given up and begun anew with a new snapshot."""
    events: asyncio.Queue[CharonEvent] = asyncio.Queue()
    listening = asyncio.create_task(adapter.events(events.put_nowait))
    try:
        async with asyncio.timeout(5):
            assert CharonEvent("connected") == await events.get()
            for client in charon._clients:
                client.send(b"\x63 no VICI")
            assert CharonEvent("disconnected") == await events.get()
            assert CharonEvent("connected") == await events.get()
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


async def test_a_socket_that_may_not_be_used_is_said(
    adapter: CharonAdapter, charon: FakeCharon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another exit code than "charon is down", and another thing to do. (root is refused by no mode.)"""

    async def refuse(_path: str) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(asyncio, "open_unix_connection", refuse)
    with pytest.raises(NotPermittedError) as caught:
        await adapter.snapshot()
    assert str(charon.path) == caught.value.where
    assert caught.value.hint


async def test_a_socket_without_a_listener_is_refused(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """The file outlives a killed charon."""
    await charon.stop()
    with pytest.raises(CharonUnreachableError, match="refused"):
        await adapter.snapshot()


@pytest.mark.charon
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can run")
async def test_a_stopped_charon_is_silent_beyond_the_deadline(tmp_path: Path) -> None:
    """SIGSTOP: the socket accepts and nobody reads."""
    async with RealCharon(tmp_path) as charon:
        adapter = CharonAdapter(charon.path, deadline=0.5)
        await adapter.snapshot()
        charon.pause()
        for _ in range(2):
            with pytest.raises(CharonUnreachableError, match="within"):
                await adapter.snapshot()
        await adapter.close()


async def test_the_fake_shows_its_world(adapter: CharonAdapter, charon: FakeCharon) -> None:
    """A test that fails says what was there."""
    charon.peer_answers = True
    await adapter.load_authority("ikeorch-ca", US.ca)
    await adapter.load_key(US.key)
    await adapter.load_connection(CONNECTION)
    await adapter.initiate(TUNNEL)

    async def shown() -> bool:
        return "INSTALLED" in charon.render()

    await eventually(shown)
    name = CONNECTION.name
    assert charon.render().splitlines() == [
        "authority ikeorch-ca",
        f"connection {name}",
        f"ike_sa {name} ESTABLISHED [{name} INSTALLED if_id 22]",
        f"key {US.key_id}",
    ]
