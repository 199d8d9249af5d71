"""The prober over a real socket: on the loopback device a probe meets its own reflector."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from ikeorch.adapters.probe.prober import Prober
from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.adapters.probe.stamp import PORT, Probe, Sender, encode_probe
from ikeorch.core.full_size import FullSize
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.units import Seconds

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="port 862, raw sockets and SO_BINDTODEVICE need root")

TUNNEL = TunnelId("gw-a", 0)
LOOP = ProbeTarget(
    interface="lo",
    local=ip_address("127.0.0.1"),
    remote=ip_address("127.0.0.1"),
    us=Sender("gw-a", 0),
    peer=Sender("gw-a", 0),
)
LOOP6 = replace(LOOP, local=ip_address("::1"), remote=ip_address("::1"))


@pytest.fixture
async def prober() -> AsyncIterator[tuple[Prober, list[TunnelId]]]:
    """A running prober and what it reported."""
    changed: list[TunnelId] = []
    running = Prober(changed.append, interval=Seconds(0.02))
    yield running, changed
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


@pytest.mark.parametrize("target", [LOOP, LOOP6], ids=["IPv4", "IPv6"])
async def test_an_answer_with_the_right_name_proves_the_tunnel(
    prober: tuple[Prober, list[TunnelId]], target: ProbeTarget
) -> None:
    """Sent, reflected and matched; the verdict is reported once, the RTT is that of a loopback."""
    running, changed = prober
    running.set_targets({TUNNEL: target})
    await rounds(running, 10)
    state = running.states()[TUNNEL]
    assert state.verdict is Verdict.UP
    assert state.received >= 8
    assert state.rtt is not None
    assert 0 <= state.rtt < 0.1
    assert len(changed) <= 2  # unknown, up


async def test_a_probe_of_another_tunnel_is_reported_and_not_answered(prober: tuple[Prober, list[TunnelId]]) -> None:
    """The reflector expects gw-b/3; what arrives says gw-a/0: the SAs are crossed (D1)."""
    running, changed = prober
    running.set_targets({TUNNEL: replace(LOOP, peer=Sender("gw-b", 3))})
    await rounds(running, 5)
    state = running.states()[TUNNEL]
    assert (state.verdict, state.received, state.mispaired) == (Verdict.DOWN, 0, "gw-a/0")
    assert TUNNEL in changed


@pytest.mark.parametrize("target", [LOOP, LOOP6], ids=["IPv4", "IPv6"])
async def test_a_peer_whose_prober_is_gone_is_up_by_echoes(
    prober: tuple[Prober, list[TunnelId]], target: ProbeTarget
) -> None:
    """Its kernel answers: no failover, and it is said who is silent."""
    running, _ = prober
    running.set_targets({TUNNEL: target})
    await rounds(running, 10)
    session = running._sessions[TUNNEL]
    session._reflect = lambda: None  # type: ignore[method-assign]
    assert session._reflector is not None
    asyncio.get_running_loop().add_reader(session._reflector.fileno(), session._reflect)
    for _ in range(300):
        await asyncio.sleep(0.01)
        if running.states()[TUNNEL].reflector_silent:
            break
    state = running.states()[TUNNEL]
    assert (state.verdict, state.reflector_silent) == (Verdict.UP, True)


async def test_a_missing_interface_is_silence(prober: tuple[Prober, list[TunnelId]]) -> None:
    """Nothing is raised and nothing is proved; the target may come later."""
    running, _ = prober
    running.set_targets({TUNNEL: replace(LOOP, interface="nothing0")})
    await rounds(running, 3)
    assert running.states()[TUNNEL].received == 0
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    assert running.states()[TUNNEL].received >= 3


async def test_changing_targets_leaks_no_socket(prober: tuple[Prober, list[TunnelId]]) -> None:
    """A hundred changes leave two sockets a tunnel open, and one more while there is doubt."""
    running, _ = prober
    before = descriptors()
    for number in range(100):
        local = ip_address(f"127.0.0.{1 + number % 7}")
        first, second = TUNNEL, TunnelId("gw-a", 1)
        running.set_targets({first: replace(LOOP, local=local), second: replace(LOOP, local=local, remote=local)})
        await asyncio.sleep(0.003)
    await asyncio.sleep(0.1)
    gc.disable()  # a leaked socket must not be saved by chance
    try:
        assert descriptors() - before <= 6
    finally:
        gc.enable()


async def test_a_proven_peer_may_call_itself_something_else(prober: tuple[Prober, list[TunnelId]]) -> None:
    """It stays up, and the name is told until the two ends agree; the session goes on."""
    running, changed = prober
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    sent, told = running.states()[TUNNEL].sent, len(changed)
    running.set_targets({TUNNEL: replace(LOOP, us=Sender("gw-x", 0), known=frozenset({"gw-b"}))})
    await rounds(running, 5)
    state = running.states()[TUNNEL]
    assert (state.verdict, state.calls_itself, state.mispaired) == (Verdict.UP, "gw-x", "")
    assert state.sent > sent
    assert len(changed) == told + 1
    running.set_targets({TUNNEL: replace(LOOP, us=Sender("gw-x", 0), peer=Sender("gw-x", 0))})
    await rounds(running, 5)
    state = running.states()[TUNNEL]
    assert (state.verdict, state.calls_itself) == (Verdict.UP, "")


async def test_a_name_that_was_heard_before_proves_a_new_tunnel(prober: tuple[Prober, list[TunnelId]]) -> None:
    """As after a reboot in the middle of a rename; no other unknown name does."""
    running, _ = prober
    strange = replace(LOOP, us=Sender("gw-x", 0), also="gw-y")
    running.set_targets({TUNNEL: strange})
    await rounds(running, 4)
    assert (running.states()[TUNNEL].verdict, running.states()[TUNNEL].mispaired) == (Verdict.DOWN, "gw-x/0")
    running.set_targets({})
    running.set_targets({TUNNEL: replace(strange, also="gw-x")})
    await rounds(running, 4)
    assert (running.states()[TUNNEL].verdict, running.states()[TUNNEL].calls_itself) == (Verdict.UP, "gw-x")


@pytest.mark.parametrize("sender", [Sender("gw-b", 0), Sender("gw-x", 1), Sender("Gw x", 0)])
async def test_a_name_that_is_another_ones_is_no_rename(prober: tuple[Prober, list[TunnelId]], sender: Sender) -> None:
    """Another peer's, another index, or no name at all: the SAs are crossed, however proven the tunnel was."""
    running, _ = prober
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    running.set_targets({TUNNEL: replace(LOOP, us=sender, known=frozenset({"gw-b"}))})
    await rounds(running, 3)
    state = running.states()[TUNNEL]
    assert (state.verdict, state.mispaired) == (Verdict.DOWN, f"{sender.gateway}/{sender.index}")


async def test_a_session_goes_on_under_another_tunnels_name(prober: tuple[Prober, list[TunnelId]]) -> None:
    """What was proven stays proven, and changes are reported with the new name."""
    running, changed = prober
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    sent = running.states()[TUNNEL].sent
    other = TunnelId("gw-x", 0)
    running.set_targets({other: LOOP, TUNNEL: replace(LOOP6, interface="nothing0")})
    states = running.states()
    assert (states[other].verdict, states[TUNNEL].verdict) == (Verdict.UP, Verdict.UNKNOWN)
    assert states[other].sent >= sent
    changed.clear()
    running.set_targets({other: replace(LOOP, us=Sender("gw-b", 0), known=frozenset({"gw-b"}))})
    for _ in range(100):
        await asyncio.sleep(0.01)
        if running.states()[other].verdict is Verdict.DOWN:
            break
    assert set(changed) == {other}


@pytest.mark.parametrize("hops", [64, 254])
async def test_a_packet_that_was_forwarded_is_no_probe(prober: tuple[Prober, list[TunnelId]], hops: int) -> None:
    """A host of the peer's site cannot make a tunnel look crossed: only the gateway's own packets arrive with 255."""
    running, _ = prober
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as host:
        host.connect(("127.0.0.1", PORT))
        packet = encode_probe(Probe(sequence=1, timestamp=0, sender=Sender("evil", 9)))
        host.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)
        for _ in range(10):
            host.send(packet)
        await rounds(running, 5)
        assert running.states()[TUNNEL].verdict is Verdict.UP
        host.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 255)
        host.send(packet)
        await rounds(running, 1)
        assert running.states()[TUNNEL].mispaired in {"evil/9", ""}
        assert running.states()[TUNNEL].verdict in {Verdict.DOWN, Verdict.RECOVERING}


async def test_the_wish_to_be_spared_reaches_the_other_end_and_ends(prober: tuple[Prober, list[TunnelId]]) -> None:
    """It rides in the probes of a session that goes on undisturbed, and holds for a moment after the last one."""
    running, _ = prober
    running.set_targets({TUNNEL: LOOP})
    await rounds(running, 5)
    sent = running.states()[TUNNEL].sent
    running.set_targets({TUNNEL: replace(LOOP, spare=True)})
    await rounds(running, 3)
    assert running.states()[TUNNEL].spare
    assert running.states()[TUNNEL].sent > sent
    running.set_targets({TUNNEL: LOOP})
    for _ in range(200):
        await asyncio.sleep(0.01)
        if not running.states()[TUNNEL].spare:
            break
    assert not running.states()[TUNNEL].spare
    assert running.states()[TUNNEL].verdict is Verdict.UP


@pytest.mark.parametrize("target", [LOOP, LOOP6], ids=["IPv4", "IPv6"])
async def test_packets_of_the_mtus_size_are_tried_too(
    prober: tuple[Prober, list[TunnelId]], target: ProbeTarget
) -> None:
    """One answer says that they fit; another size is another question."""
    running, changed = prober

    async def judged(mtu: int) -> bool | None:
        running.set_targets({TUNNEL: replace(target, mtu=mtu)})
        for _ in range(300):
            await asyncio.sleep(0.01)
            state = running.states()[TUNNEL]
            if state.mtu == mtu and state.fits is not None:
                break
        return running.states()[TUNNEL].fits

    assert await judged(1400) is True
    assert await judged(9000) is True
    assert TUNNEL in changed


async def test_a_size_that_never_arrives_does_not_fit(prober: tuple[Prober, list[TunnelId]]) -> None:
    """Small ones are answered meanwhile: the verdict stays."""
    running, _ = prober
    running.set_targets({TUNNEL: replace(LOOP, mtu=1400)})
    await rounds(running, 3)
    full = running._sessions[TUNNEL]._full_size
    assert full is not None
    full._read = lambda: None  # type: ignore[method-assign]
    full.close()
    full._check = FullSize(1400, time.monotonic())
    for _ in range(400):
        await asyncio.sleep(0.01)
        if running.states()[TUNNEL].fits is not None:
            break
    state = running.states()[TUNNEL]
    assert (state.verdict, state.fits) == (Verdict.UP, False)
