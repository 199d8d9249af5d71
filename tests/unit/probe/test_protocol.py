"""What ikeorchd and the prober say to one another, on a real socket and as lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.adapters.probe.client import ProbeClient
from ikeorch.adapters.probe.protocol import (
    ProtocolError,
    decode_states,
    decode_targets,
    encode_states,
    encode_targets,
)
from ikeorch.adapters.probe.server import ProbeServer
from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.adapters.probe.stamp import Sender
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.units import Seconds

TUNNEL = TunnelId("gw-a", 0)
TARGET = ProbeTarget(
    interface="lo",
    local=ip_address("127.0.0.1"),
    remote=ip_address("127.0.0.1"),
    us=Sender("gw-a", 0),
    peer=Sender("gw-a", 0),
)
STATE = ProbeState(
    verdict=Verdict.UP,
    sent=10,
    received=9,
    rtt=Seconds(0.01),
    mispaired="gw-b/1",
    reflector_silent=True,
    calls_itself="gw-x",
)


def test_what_is_said_is_understood() -> None:
    """There and back."""
    full = replace(TARGET, known=frozenset({"gw-b", "gw-c"}), also="gw-x", spare=True, proven=True, mtu=1400)
    told = decode_targets(encode_targets({TUNNEL: full}))
    assert told == {TUNNEL: full}
    assert [asdict(target) for target in told.values()] == [asdict(full)]
    assert decode_states(encode_states({TUNNEL: STATE}, whole=True)) == ({TUNNEL: STATE}, True)
    assert decode_states(encode_states({}, whole=False)) == ({}, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_rubbish_is_refused(line: bytes) -> None:
    """With one kind of error."""
    for decode in (decode_targets, decode_states):
        with pytest.raises(ProtocolError):
            decode(line)


@given(st.sampled_from(["tunnel", "interface", "local", "remote", "us", "peer", "known", "also"]), JSON)
def test_a_wrong_value_is_refused_or_harmless(key: str, value: object) -> None:
    """Nothing but a proper target comes out."""
    message = json.loads(encode_targets({TUNNEL: TARGET}))
    message["targets"][0][key] = value
    try:
        decoded = decode_targets(json.dumps(message).encode())
    except ProtocolError:
        return
    for tunnel, target in decoded.items():
        assert encode_targets({tunnel: target})


def test_another_version_is_named() -> None:
    """After half an upgrade."""
    line = encode_targets({}).replace(b'"format_version":1', b'"format_version":2')
    with pytest.raises(ProtocolError, match="different versions"):
        decode_targets(line)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="port 862 and SO_BINDTODEVICE need root")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Path]:
    """A running prober."""
    path = tmp_path / "probe.sock"
    task = asyncio.create_task(ProbeServer(path).run())
    await until(path.exists)
    yield path
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def ended(task: asyncio.Task[None]) -> None:
    """End a task of ours."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(true: object, within: float = 10.0) -> None:
    """Wait for a condition."""
    assert callable(true)
    for _ in range(int(within * 100)):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become true")


@needs_root
async def test_targets_go_there_and_verdicts_come_back(server: Path) -> None:
    """And a client that comes later is told at once, without the tunnels being probed anew."""
    first, news = ProbeClient(server), asyncio.Event()
    task = asyncio.create_task(first.run(news.set))
    first.set_targets({TUNNEL: TARGET})
    await until(lambda: TUNNEL in first.states() and first.states()[TUNNEL].verdict is Verdict.UP)
    assert news.is_set()
    assert first.problem == ""
    sent = first.states()[TUNNEL].sent
    await ended(task)
    second = ProbeClient(server)
    task = asyncio.create_task(second.run(lambda: None))
    await until(lambda: TUNNEL in second.states())
    assert second.states()[TUNNEL].verdict is Verdict.UP
    assert second.states()[TUNNEL].sent >= sent
    await ended(task)


@needs_root
async def test_a_client_that_talks_rubbish_is_dropped_and_changes_nothing(server: Path) -> None:
    """The tunnels are probed as before."""
    client = ProbeClient(server)
    task = asyncio.create_task(client.run(lambda: None))
    client.set_targets({TUNNEL: TARGET})
    await until(lambda: TUNNEL in client.states())
    await ended(task)
    for rubbish in (b"\n", b"{}\n", b'{"format_version":1,"targets":3}\n', b"\xff" * 100_000 + b"\n", b"x" * 5_000_000):
        reader, writer = await asyncio.open_unix_connection(server, limit=2**24)
        writer.write(rubbish)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(10):
                while await reader.readline():
                    pass
        writer.close()
    task = asyncio.create_task(client.run(lambda: None))
    await until(lambda: not client.problem and TUNNEL in client.states())
    await ended(task)


async def test_without_a_prober_nothing_is_known(tmp_path: Path) -> None:
    """The reason is said; and a prober that talks rubbish is none."""
    path = tmp_path / "probe.sock"
    client = ProbeClient(path)
    task = asyncio.create_task(client.run(lambda: None))
    await until(lambda: "No such file" in client.problem)

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"rubbish\n")
        writer.close()

    async with await asyncio.start_unix_server(talk, path):
        await until(lambda: "these are no states" in client.problem)
    assert client.states() == {}
    await ended(task)
