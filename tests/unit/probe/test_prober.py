"""The prober over a real socket: on the loopback device a probe meets its own reflector."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from ikeorch.adapters.probe.prober import Prober, ProbeTarget
from ikeorch.adapters.probe.stamp import Sender
from ikeorch.core.ids import TunnelId
from ikeorch.core.units import Seconds

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="port 862 and SO_BINDTODEVICE need root")

TUNNEL = TunnelId("gw-a", 0)
LOOP = ProbeTarget(
    interface="lo",
    local=ip_address("127.0.0.1"),
    remote=ip_address("127.0.0.1"),
    us=Sender("gw-a", 0),
    peer=Sender("gw-a", 0),
)


@pytest.fixture
async def prober() -> AsyncIterator[tuple[Prober, list[TunnelId]]]:
    """A running prober and what it reported."""
    changed: list[TunnelId] = []
    running = Prober(changed.append, interval=Seconds(0.02))
    task = asyncio.create_task(running.run())
    yield running, changed
    task.cancel()
    running.close()


async def rounds(prober: Prober, count: int) -> None:
    """Wait until so many more probes were sent."""
    goal = prober.states()[TUNNEL].sent + count
    for _ in range(500):
        if prober.states()[TUNNEL].sent >= goal:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the prober does not send")


def descriptors() -> int:
    """How many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_an_answer_with_the_right_name_proves_the_tunnel(prober: tuple[Prober, list[TunnelId]]) -> None:
    """Sent, reflected and matched; the first answer is reported once, the RTT is that of a loopback."""
    running, changed = prober
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 10)
    state = running.states()[TUNNEL]
    assert state.received >= 8
    assert state.rtt is not None
    assert 0 <= state.rtt < 0.1
    assert changed == [TUNNEL]


async def test_a_probe_of_another_tunnel_is_reported_and_not_answered(prober: tuple[Prober, list[TunnelId]]) -> None:
    """The reflector expects gw-b/3; what arrives says gw-a/0: the SAs are crossed (D1)."""
    running, changed = prober
    running.set_targets({TUNNEL: replace(LOOP, peer=Sender("gw-b", 3))})
    await rounds(running, 5)
    state = running.states()[TUNNEL]
    assert (state.received, state.mispaired) == (0, "gw-a/0")
    assert changed == [TUNNEL]


async def test_a_missing_interface_is_silence(prober: tuple[Prober, list[TunnelId]]) -> None:
    """Nothing is raised and nothing is proved; the target may come later."""
    running, _ = prober
    running.set_targets({TUNNEL: replace(LOOP, interface="nothing0")})
    await asyncio.sleep(0.1)
    assert running.states()[TUNNEL].received == 0
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    assert running.states()[TUNNEL].received >= 3


async def test_changing_targets_leaks_no_socket(prober: tuple[Prober, list[TunnelId]]) -> None:
    """A hundred changes, many of them while a round sleeps between two tunnels, leave two sockets a tunnel open."""
    running, _ = prober
    second = replace(LOOP, local=ip_address("::1"), remote=ip_address("::1"))
    before = descriptors()
    for number in range(100):
        us = Sender("gw-a", number % 7)
        running.set_targets({TUNNEL: replace(LOOP, us=us), TunnelId("gw-a", 1): replace(second, us=us)})
        await asyncio.sleep(0.003)
    await asyncio.sleep(0.1)
    gc.disable()  # a leaked socket must not be saved by chance
    try:
        assert descriptors() - before <= 4
    finally:
        gc.enable()
