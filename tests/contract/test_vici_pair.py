"""Two real charons between two namespaces of the lab kernel: what an established tunnel looks like to the adapter."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ikeorch.adapters.vici.adapter import CharonAdapter, CharonEvent
from ikeorch.core.charon_state import ChildState, Connection, IkeSa, IkeState
from ikeorch.core.ids import TunnelId
from tests.contract.credentials import connection, identities
from tests.contract.netns import fresh_namespace, has_xfrm, ip, run, standing_in
from tests.contract.polling import eventually
from tests.contract.real_charon import RealCharon, why_not

pytestmark = [pytest.mark.lab, pytest.mark.charon]

COUNT = 4
ADDRESSES = ("192.0.2.1", "192.0.2.2")


@dataclass
class End:
    """One gateway."""

    charon: RealCharon
    adapter: CharonAdapter
    namespace: int
    connections: tuple[Connection, ...]

    async def load(self, *, credentials: int) -> None:
        """Load everything that it needs to authenticate."""
        ours = identities()[credentials]
        await self.adapter.load_authority("ikeorch-ca-test", ours.ca)
        await self.adapter.load_key(ours.key)
        for entry in self.connections:
            await self.adapter.load_connection(entry)

    async def established(self) -> tuple[IkeSa, ...]:
        """Its SAs, once each tunnel has one with an installed child; before that nothing."""
        sas = (await self.adapter.snapshot()).sas
        ready = {sa.connection for sa in sas if any(child.forwards for child in sa.children)}
        return sas if len(ready) == len(self.connections) else ()


@pytest.fixture
async def ends(tmp_path: Path) -> AsyncIterator[tuple[End, End]]:
    """Two gateways with all connections loaded; all tunnels share one address pair."""
    if reason := why_not():
        pytest.skip(reason)
    if not has_xfrm():
        pytest.skip("no XFRM interfaces here, or not root; `ikeorch lab run -- pytest -m lab` has them")
    async with contextlib.AsyncExitStack() as stack:
        built: list[End] = []
        credentials = identities()
        for index, (name, peer) in enumerate([("gw-a", "gw-b"), ("gw-b", "gw-a")]):
            stack.enter_context(fresh_namespace())
            namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            stack.callback(os.close, namespace)
            enter = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{namespace}")
            charon = await stack.enter_async_context(RealCharon(tmp_path / name, enter=enter))
            adapter = CharonAdapter(charon.path)
            stack.push_async_callback(adapter.close)
            connections = tuple(
                connection(
                    TunnelId(peer, number),
                    credentials[index],
                    credentials[1 - index],
                    addresses=(ADDRESSES[index], ADDRESSES[1 - index]),
                    if_id=16 * (index + 1) + number,
                )
                for number in range(COUNT)
            )
            built.append(End(charon, adapter, namespace, connections))
        first, second = built
        with standing_in(first.namespace):
            other = f"/proc/{os.getpid()}/fd/{second.namespace}"
            ip("link", "add", "up0", "type", "veth", "peer", "name", "up0", "netns", other)
        for end, address in zip(built, ADDRESSES, strict=True):
            with standing_in(end.namespace):
                ip("address", "add", f"{address}/24", "dev", "up0")
                ip("link", "set", "up0", "up")
        await first.load(credentials=0)
        await second.load(credentials=1)
        yield first, second


async def up(ends: tuple[End, End]) -> tuple[tuple[IkeSa, ...], tuple[IkeSa, ...]]:
    """Bring all tunnels up at once; what both ends see."""
    first, second = ends
    await asyncio.gather(*(first.adapter.initiate(entry.tunnel) for entry in first.connections))
    return await eventually(first.established), await eventually(second.established)


async def test_four_tunnels_on_one_address_pair_land_where_they_belong(ends: tuple[End, End]) -> None:
    """One IKE_SA and one CHILD_SA each, with the if_ids of its own connection on both ends (D1, A03)."""
    for end, sas in zip(ends, await up(ends), strict=True):
        wanted = {entry.name: entry.if_id for entry in end.connections}
        assert len(sas) == COUNT
        assert wanted == {sa.connection: sa.children[0].if_id_in for sa in sas}
        assert wanted == {sa.connection: sa.children[0].if_id_out for sa in sas}


async def test_an_established_tunnel_is_read_whole(ends: tuple[End, End]) -> None:
    """States, ends, identities, suites, and SPIs that are each other's."""
    ours, theirs = await up(ends)
    by_index = {TunnelId.from_connection(sa.connection): sa for sa in theirs}
    for sa in ours:
        tunnel = TunnelId.from_connection(sa.connection)
        assert tunnel is not None
        other = by_index[TunnelId("gw-a", tunnel.index)]
        assert (sa.state, sa.initiator, other.initiator) == (IkeState.ESTABLISHED, True, False)
        assert (str(sa.local_address), str(sa.remote_address)) == ADDRESSES
        assert (sa.local_id, sa.remote_id) == (other.remote_id, other.local_id)
        assert f"t{tunnel.index}.gw-a.example" == sa.local_id
        assert sa.suite == "AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384"
        (child,), (mirrored,) = sa.children, other.children
        assert (ChildState.INSTALLED, sa.connection) == (child.state, child.name)
        assert (child.spi_in, child.spi_out) == (mirrored.spi_out, mirrored.spi_in)
        assert child.spi_in
        assert child.suite == "AES_GCM_16-256/ESN"


async def test_the_kernel_holds_what_charon_says(ends: tuple[End, End]) -> None:
    """ip(8) finds each SPI with its if_id, window and extended sequence numbers."""
    ours, _ = await up(ends)
    with standing_in(ends[0].namespace):
        states = run("ip", "-d", "xfrm", "state").split("src ")
    for sa in ours:
        for spi in (sa.children[0].spi_in, sa.children[0].spi_out):
            (state,) = [text for text in states if f"spi {spi:#010x}" in text]
            assert f"if_id {sa.children[0].if_id_in:#x}" in state
            assert "esn" in state
    incoming = [text for text in states if text.startswith(ADDRESSES[1])]
    assert len(incoming) == COUNT
    assert all("replay_window 1024" in text for text in incoming)


async def test_no_cookie_and_no_retransmission_was_needed(ends: tuple[End, End]) -> None:
    """With the configuration that we ship, four at once from one address are nothing special (A24)."""
    await up(ends)
    for end in ends:
        log = end.charon.log.read_text(encoding="utf-8")
        assert "ESTABLISHED" in log.upper()
        assert "COOKIE" not in log
        assert "retransmit" not in log


async def test_events_tell_up_and_down(ends: tuple[End, End]) -> None:
    """Each tunnel's events carry its connection's name, on the end that did nothing too."""
    events: asyncio.Queue[CharonEvent] = asyncio.Queue()
    listening = asyncio.create_task(ends[1].adapter.events(events.put_nowait))
    try:
        async with asyncio.timeout(20):
            assert CharonEvent("connected") == await events.get()
            ours, _ = await up(ends)
            await ends[0].adapter.terminate(ours[0].unique_id, force=False)
            wanted = {CharonEvent(kind, entry.name) for entry in ends[1].connections for kind in UPDOWN}
            seen: list[CharonEvent] = []
            index = TunnelId.from_connection(ours[0].connection)
            assert index is not None
            lost = CharonEvent("ike-updown", TunnelId("gw-a", index.index).connection)
            while not (wanted <= set(seen) and seen.count(lost) == 2):
                seen.append(await events.get())
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening


UPDOWN = ("ike-updown", "child-updown")


async def test_terminate_ends_one_tunnel_on_both_ends(ends: tuple[End, End]) -> None:
    """And no other (A19)."""
    ours, _ = await up(ends)
    await ends[0].adapter.terminate(ours[0].unique_id, force=False)

    async def one_less() -> bool:
        counts = [len((await end.adapter.snapshot()).sas) for end in ends]
        return counts == [COUNT - 1, COUNT - 1]

    await eventually(one_less)


async def test_a_second_initiate_makes_a_second_ike_sa(ends: tuple[End, End]) -> None:
    """The ground of make-before-break: the new one lives beside the old one until that is ended by id (D1)."""
    ours, _ = await up(ends)
    old = next(sa for sa in ours if sa.connection == ends[0].connections[0].name)
    await ends[0].adapter.initiate(ends[0].connections[0].tunnel)

    async def both() -> list[IkeSa]:
        sas = [sa for sa in (await ends[0].adapter.snapshot()).sas if sa.connection == old.connection]
        ready = [sa for sa in sas if any(child.forwards for child in sa.children)]
        return ready if len(ready) == 2 else []

    new = next(sa for sa in await eventually(both) if sa.unique_id != old.unique_id)
    await ends[0].adapter.terminate(old.unique_id, force=False)

    async def only_new() -> bool:
        sas = [sa for sa in (await ends[0].adapter.snapshot()).sas if sa.connection == old.connection]
        return [new.unique_id] == [sa.unique_id for sa in sas]

    await eventually(only_new)
