"""``tunnel show`` and ``peer show`` end with the reasons, as text and as JSON; nothing that is asked breaks them."""

from __future__ import annotations

import asyncio
import json
from ipaddress import ip_address

import pytest

from ikeorch.cli.main import run
from ikeorch.core.ids import TunnelId
from ikeorch.core.refusal import Cause, Refusal
from tests.integration.world import World, up

OFFER = Refusal(
    cause=Cause.PROPOSAL,
    remote=ip_address("198.51.100.1"),
    local=ip_address("192.0.2.1"),
    offered="IKE:AES_GCM_16_128",
    configured="IKE:AES_GCM_16_256",
)


async def cli(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command; its exit code and what it wrote."""
    socket = ["--socket", str(world.config.parent / "api.sock")]
    capsys.readouterr()
    code = await asyncio.to_thread(run, [*arguments, *socket])
    written = capsys.readouterr()
    return code, written.out + written.err


async def test_a_refused_tunnel_says_why(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The peer's offer and ours, the remedy, in table and JSON; another tunnel's chain lacks its own conditions."""
    await world.passes(2)
    world.reconciler.refused(OFFER)
    world.reconciler.refused(Refusal(cause=Cause.BY_PEER, tunnel=TunnelId("gw-b", 0), notify="TS_UNACCEPTABLE"))
    await world.passes()
    code, text = await cli(world, capsys, "tunnel", "show", "gw-b/0")
    assert code == 0
    assert "why: gw-b/0 is connecting: negotiating with 198.51.100.1" in text
    assert "error: tunnel gw-b/0: refused-by-peer: 198.51.100.1 answered TS_UNACCEPTABLE" in text
    assert "error: peer gw-b: refused-proposal: 198.51.100.1 offers IKE:AES_GCM_16_128; configured here is" in text
    assert "next: give both ends a suite in common" in text
    code, text = await cli(world, capsys, "tunnel", "show", "gw-b/2", "--output", "json")
    because = json.loads(text)["why"]["because"]
    assert {reason["code"] for reason in because} == {"tunnel-pending", "refused-proposal"}
    assert {reason["class"] for reason in because} == {"peer"}
    code, text = await cli(world, capsys, "peer", "show", "gw-b")
    assert code == 0
    assert "why: 0 of 4 tunnels to gw-b carry packets" in text
    assert text.count("tunnel-pending") == 4


async def test_a_tunnel_that_carries_has_nothing_to_explain(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and an empty chain."""
    await up(world)
    _, text = await cli(world, capsys, "tunnel", "show", "gw-b/0")
    assert text.splitlines()[-1] == "why: gw-b/0 is carrying: probes come back through it"
    _, text = await cli(world, capsys, "peer", "show", "gw-b", "--output", "json")
    assert json.loads(text)["why"] == {"summary": "4 of 4 tunnels to gw-b carry packets", "because": []}


async def test_a_configuration_says_why_it_is_not_the_file(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The document alone on stdout, so that it can be written to a file; the reasons on stderr."""
    await up(world)
    socket = str(world.config.parent / "api.sock")
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["config", "show", "--socket", socket]) == 0
    quiet = capsys.readouterr()
    assert quiet.out == world.config.read_text()
    assert "why" not in quiet.err
    world.reconciler.refuse_config("ikeorch.yaml:3: no")
    await world.passes()
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["config", "show", "--socket", socket]) == 0
    written = capsys.readouterr()
    assert written.out.endswith(quiet.out)
    assert "error: configuration: config-invalid: ikeorch.yaml:3: no" in written.err
    _, text = await cli(world, capsys, "config", "show", "--output", "json")
    assert [reason["code"] for reason in json.loads(text)["why"]["because"]] == ["config-invalid"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("tunnel", "show", "gw-b/9"),
        ("tunnel", "show", "gw-b"),
        ("tunnel", "show", "gw-b/"),
        ("tunnel", "show", "/0"),
        ("tunnel", "show", "gw-b/0/0"),
        ("tunnel", "show", "../../etc/0"),
        ("tunnel", "show", "gw b\n/%00"),
        ("peer", "show", "gw-x"),
        ("peer", "show", "../status"),
        ("peer", "show", "ü?#"),
    ],
)
async def test_what_is_not_there_is_named(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Exit 64 with what there is, or how a name looks."""
    await world.passes()
    code, text = await cli(world, capsys, *arguments)
    assert code == 64
    assert "there is no " in text
    assert "gw-b" in text or "ikeorch tunnel list" in text


async def test_the_log_says_each_change_once(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """However many packets and passes; with class and remedy."""
    await world.passes(2)
    capsys.readouterr()
    for number in range(50):
        world.reconciler.refused(Refusal(cause=Cause.NOT_CONFIGURED, remote=ip_address(0x0A000000 + number)))
        if number % 10 == 0:
            await world.passes()
    written = capsys.readouterr()
    lines = [line for line in (written.out + written.err).splitlines() if "refused-unknown" in line]
    assert len(lines) == 1
    assert "class=peer" in lines[0]
    assert "ikeorch peer add" in lines[0]
