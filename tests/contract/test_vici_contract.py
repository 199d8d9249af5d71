"""One suite for the adapter over VICI, run against FakeCharon and against the real charon."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ikeorch.adapters.vici.adapter import CharonAdapter, CharonEvent
from ikeorch.adapters.vici.wire import Outgoing
from ikeorch.core.charon_state import IkeState
from ikeorch.core.ids import TunnelId
from ikeorch.core.secret import Secret
from ikeorch.errors import CharonRefusedError, CharonUnreachableError
from tests.contract.credentials import connection, identities
from tests.contract.polling import eventually
from tests.contract.real_charon import RealCharon, why_not
from tests.fakes.fake_charon import FakeCharon, FakeIkeSa

TUNNEL = TunnelId("gw-b", 0)
US, PEER = identities()
CONNECTION = connection(TUNNEL, US, PEER)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.charon)])
async def charon(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FakeCharon | RealCharon]:
    """A charon that has just started and whose peer is silent."""
    if request.param == "real" and (reason := why_not()):
        pytest.skip(reason)
    world = FakeCharon(tmp_path / "charon.vici") if request.param == "fake" else RealCharon(tmp_path)
    async with world as running:
        yield running


@pytest.fixture
async def adapter(charon: FakeCharon | RealCharon) -> AsyncIterator[CharonAdapter]:
    adapter = CharonAdapter(charon.path, deadline=5)
    yield adapter
    await adapter.close()


async def load_all(adapter: CharonAdapter) -> None:
    await adapter.snapshot()
    await adapter.load_authority("ikeorch-ca-test", US.ca)
    await adapter.load_key(US.key)
    await adapter.load_connection(CONNECTION)


async def test_a_fresh_charon_holds_nothing(adapter: CharonAdapter) -> None:
    """The first snapshot is empty and says which charon it is."""
    state = await adapter.snapshot()
    assert state.version
    assert state.started
    assert (frozenset(), {}, frozenset(), frozenset(), ()) == (
        state.connections,
        state.loaded,
        state.authorities,
        state.keys,
        state.sas,
    )


async def test_what_is_loaded_is_seen(adapter: CharonAdapter) -> None:
    """Every key of our load-conn is taken, and the key's id is the one that the core computes."""
    await load_all(adapter)
    state = await adapter.snapshot()
    assert {CONNECTION.name: CONNECTION} == state.loaded
    assert {CONNECTION.name} == state.connections
    assert {"ikeorch-ca-test"} == state.authorities
    assert {US.key_id} == state.keys


async def test_loading_twice_changes_nothing(adapter: CharonAdapter) -> None:
    """Everything may be loaded again."""
    await load_all(adapter)
    first = await adapter.snapshot()
    await load_all(adapter)
    assert first == await adapter.snapshot()


async def test_mobike_is_an_option_that_charon_takes(adapter: CharonAdapter) -> None:
    """The one option that varies in kind is accepted both ways (D12)."""
    changed = replace(CONNECTION, mobike=True)
    await adapter.snapshot()
    await adapter.load_connection(changed)
    assert {CONNECTION.name: changed} == (await adapter.snapshot()).loaded


async def test_unloading_forgets(adapter: CharonAdapter) -> None:
    """An unloaded connection is gone, and unloading it again is no error."""
    await load_all(adapter)
    await adapter.unload_connection(CONNECTION.name)
    await adapter.unload_connection(CONNECTION.name)
    state = await adapter.snapshot()
    assert frozenset() == state.connections
    assert state.loaded == {}


async def test_a_bad_proposal_is_refused_with_charons_reason(adapter: CharonAdapter) -> None:
    """A connection that charon discards is not counted as loaded, and the conversation goes on."""
    with pytest.raises(CharonRefusedError, match="proposals"):
        await adapter.load_connection(replace(CONNECTION, esp_proposals=("rot13",)))
    assert frozenset() == (await adapter.snapshot()).connections
    await adapter.load_connection(CONNECTION)


@pytest.mark.parametrize("if_id", [0, -1, 2**32 - 2, 2**32])
async def test_an_if_id_that_charon_would_misread_never_reaches_it(adapter: CharonAdapter, if_id: int) -> None:
    """charon takes any number and truncates it (A12)."""
    with pytest.raises(CharonRefusedError, match="if_id"):
        await adapter.load_connection(replace(CONNECTION, if_id=if_id))
    assert frozenset() == (await adapter.snapshot()).connections


async def test_what_is_no_ca_is_refused(adapter: CharonAdapter) -> None:
    """A leaf certificate becomes no trust anchor."""
    with pytest.raises(CharonRefusedError):
        await adapter.load_authority("ikeorch-ca-test", "no certificate")
    assert frozenset() == (await adapter.snapshot()).authorities


async def test_what_is_no_key_is_refused_without_showing_it(adapter: CharonAdapter) -> None:
    """A secret stands in no message."""
    for secret in (b"hunter2", b"hunter2" * 20_000):
        with pytest.raises(CharonRefusedError) as caught:
            await adapter.load_key(Secret(secret))
        assert "hunter2" not in str(caught.value)


async def test_initiate_returns_at_once_and_shows_as_connecting(adapter: CharonAdapter) -> None:
    """The peer is silent; nothing waits for it (A01)."""
    await load_all(adapter)
    async with asyncio.timeout(2):
        await adapter.initiate(TUNNEL)

    async def connecting() -> bool:
        return any(sa.state is IkeState.CONNECTING for sa in (await adapter.snapshot()).sas)

    await eventually(connecting)
    (sa,) = (await adapter.snapshot()).sas
    assert (CONNECTION.name, True, ()) == (sa.connection, sa.initiator, sa.children)
    assert CONNECTION.local_address == sa.local_address
    assert CONNECTION.remote_address == sa.remote_address
    assert sa.unique_id > 0


async def test_twelve_initiates_do_not_freeze_charon(adapter: CharonAdapter) -> None:
    """As many as once froze 5.9.8 for good, all at once."""
    await load_all(adapter)
    async with asyncio.timeout(5):
        await asyncio.gather(*(adapter.initiate(TUNNEL) for _ in range(12)))
        await adapter.snapshot()


async def test_initiating_an_unknown_connection_is_refused(adapter: CharonAdapter) -> None:
    """The reason is charon's."""
    with pytest.raises(CharonRefusedError, match="not found"):
        await adapter.initiate(TUNNEL)


async def test_terminate_ends_exactly_the_named_sa(adapter: CharonAdapter) -> None:
    """The id names it; one that is gone already is no error."""
    await load_all(adapter)
    await adapter.initiate(TUNNEL)
    await adapter.initiate(TUNNEL)

    async def both() -> bool:
        return len((await adapter.snapshot()).sas) == 2

    await eventually(both)
    first, second = sorted(sa.unique_id for sa in (await adapter.snapshot()).sas)
    await adapter.terminate(first, force=True)

    async def one() -> bool:
        return [second] == [sa.unique_id for sa in (await adapter.snapshot()).sas]

    await eventually(one)
    await adapter.terminate(first, force=True)


async def test_unloading_a_connection_leaves_its_sa(adapter: CharonAdapter) -> None:
    """Only `terminate` ends an SA (A20)."""
    await load_all(adapter)
    await adapter.initiate(TUNNEL)

    async def there() -> bool:
        return bool((await adapter.snapshot()).sas)

    await eventually(there)
    await adapter.unload_connection(CONNECTION.name)
    assert await there()


async def test_another_process_has_nothing_loaded(adapter: CharonAdapter, charon: FakeCharon | RealCharon) -> None:
    """After a restart of charon the adapter connects anew and knows that all must be loaded again."""
    await load_all(adapter)
    before = await adapter.snapshot()
    await charon.restart()

    async def answers() -> bool:
        try:
            await adapter.snapshot()
        except CharonUnreachableError:
            return False
        return True

    await eventually(answers)
    await adapter.load_key(US.key)  # at once, though this connection ended with the old process
    after = await adapter.snapshot()
    assert before.started != after.started
    assert after.loaded == {}
    assert frozenset() == after.connections


async def test_the_same_process_keeps_its_name(adapter: CharonAdapter) -> None:
    """Two snapshots of one process say so, also when charon's own clock wavers by a second."""
    first = (await adapter.snapshot()).started
    for _ in range(20):
        assert first == (await adapter.snapshot()).started


async def test_no_charon_is_said_with_what_to_do(adapter: CharonAdapter, charon: FakeCharon | RealCharon) -> None:
    """The message names the socket and the next step."""
    await charon.stop()
    for _ in range(2):
        with pytest.raises(CharonUnreachableError) as caught:
            await adapter.snapshot()
    assert str(charon.path) == caught.value.where
    assert "systemctl start strongswan" in caught.value.hint
    charon.path.unlink(missing_ok=True)
    with pytest.raises(CharonUnreachableError, match="No such file"):
        await adapter.snapshot()


async def test_foreign_connections_are_seen_by_name_only(
    adapter: CharonAdapter, charon: FakeCharon | RealCharon
) -> None:
    """Somebody else's connection is listed, and its SAs are none of ours."""
    foreign: Outgoing = {
        "local": {"auth": "pubkey"},
        "remote": {"auth": "pubkey"},
        "remote_addrs": ["127.0.0.3"],
        "local_addrs": ["127.0.0.1"],
        "children": {"net": {"local_ts": ["10.0.0.0/8"]}},
    }
    await adapter._commands.request("load-conn", {"office": foreign})
    if isinstance(charon, RealCharon):
        await adapter._commands.request("initiate", {"ike": "office", "child": "net", "timeout": "-1"})
    else:
        charon.sas.append(FakeIkeSa("office", 7, "127.0.0.1", "127.0.0.3", "", ""))
    state = await adapter.snapshot()
    assert {"office"} == state.connections
    assert (state.sas, state.loaded) == ((), {})


async def test_events_begin_with_connected_and_survive_a_restart(
    adapter: CharonAdapter, charon: FakeCharon | RealCharon
) -> None:
    """Each registration is told, so that the loop takes a snapshot; the loss is told once."""
    events: asyncio.Queue[CharonEvent] = asyncio.Queue()
    listening = asyncio.create_task(adapter.events(events.put_nowait))
    try:
        async with asyncio.timeout(30):
            assert CharonEvent("connected") == await events.get()
            await charon.restart()
            assert CharonEvent("disconnected") == await events.get()
            assert CharonEvent("connected") == await events.get()
        assert events.empty()
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


async def test_a_cancelled_call_does_not_poison_the_next(adapter: CharonAdapter) -> None:
    """There are no request ids, so the connection is given up with the call."""
    await load_all(adapter)
    for turns in range(12):
        call = asyncio.create_task(adapter.snapshot())
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        assert {CONNECTION.name} == (await adapter.snapshot()).connections


async def test_concurrent_calls_each_get_their_own_answer(adapter: CharonAdapter) -> None:
    """Snapshots and commands may overlap in any way."""
    await load_all(adapter)
    states = await asyncio.gather(
        *(adapter.snapshot() for _ in range(10)), *(adapter.load_key(US.key) for _ in range(5))
    )
    assert all(state is None or {CONNECTION.name} == state.connections for state in states)
