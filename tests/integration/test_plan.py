"""`ikeorch plan` with and without the daemon: one look at the world gives one plan."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ikeorch.cli.main import run
from ikeorch.daemon.explain_kernel import SAVED
from tests.fakes.fake_kernel import FakeKernel
from tests.integration.world import AnySetting, World, up


async def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    capsys.readouterr()
    code = await asyncio.to_thread(run, [str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def socket(tmp_path: Path) -> tuple[str | Path, ...]:
    """How the daemon is named."""
    return ("--socket", tmp_path / "api.sock")


CHANGES = {
    "nothing": ("", ""),
    "more tunnels": ("count: 4", "count: 6"),
    "fewer tunnels": ("count: 4", "count: 1"),
    "another suite": ("capacity: 50G", "capacity: 40G, suite: other"),
    "another device": ("interface: eth2", "interface: eth3"),
    "no peer": ("peers:", "peers: []\nsuites: {}\nold:"),
    "a leaf less": ('{address: 10.0.0.254, asn: 65001}, {address: "fd', '{address: "fd'),
}


def edited(text: str, what: str) -> str:
    """The file after a change of the operator's."""
    old, new = CHANGES[what]
    if what == "no peer":
        return text[: text.index("peers:")] + "peers: []\n" + text[text.index("fabric:") :]
    assert old in text
    more = "suites: {other: aes128gcm16-prfsha256-ecp256}\n" if what == "another suite" else ""
    return text.replace(old, new, 1) + more


class DeviceSettings(AnySetting):
    """Settings of an XFRM interface are there only while the interface is."""

    def __init__(self, kernel: FakeKernel) -> None:
        super().__init__()
        self._kernel = kernel

    def __contains__(self, name: object) -> bool:
        device = str(name).removeprefix("net.ipv4.conf.").removesuffix(".rp_filter")
        return not device.startswith("ikx") or ("interface", device) in self._kernel.objects


@pytest.mark.parametrize(("what", "output"), [(what, output) for what in CHANGES for output in ("json", "table")])
async def test_the_saved_world_gives_the_plan_that_the_daemon_gave(
    world: World, socket: tuple[str], capsys: pytest.CaptureFixture[str], *, what: str, output: str
) -> None:
    """Word for word, exit code too; and so does another file with the world of before."""
    tmp_path = world.config.parent
    world.kernel.settings = DeviceSettings(world.kernel)
    await up(world)
    world.kernel.devices["eth3"] = world.kernel.devices["eth2"]
    settled, changed = tmp_path / "settled.json", tmp_path / "changed.json"
    await command(capsys, "plan", *socket, "--save-snapshot", settled)
    world.config.write_text(edited(world.config.read_text(), what))
    options = ("--explain", "--detailed-exitcode", "--output", output)
    online = await command(capsys, "plan", *socket, *options, "--save-snapshot", changed)
    assert online[0] == (0 if what == "nothing" else 2)
    assert online == await command(capsys, "plan", "--offline", changed, *options)
    assert online == await command(capsys, "plan", "--offline", settled, "--config", world.config, *options)
    if output == "json":
        assert json.loads(online[1])["in_force"] == (what == "nothing")


async def test_what_could_not_be_seen_stays_unseen(
    world: World, tmp_path: Path, socket: tuple[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """charon does not answer: offline exits 5 as well, and removes nothing that it could not see."""
    await up(world)
    await world.charon.stop()
    saved = tmp_path / "blind.json"
    online = await command(capsys, "plan", *socket, "--save-snapshot", saved)
    assert online[0] == 5
    assert online == await command(capsys, "plan", "--offline", saved)
    assert "-----BEGIN PRIVATE" not in saved.read_text()


async def test_every_action_stands_for_lines(
    world: World, socket: tuple[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In JSON as a list, as text below the action; without --explain there are none."""
    plain = json.loads((await command(capsys, "plan", *socket, "--output", "json"))[1])
    view = json.loads((await command(capsys, "plan", *socket, "--output", "json", "--explain"))[1])
    assert all(action["commands"] for action in view["actions"])
    assert plain == {**view, "actions": [_without(action) for action in view["actions"]]}
    text = (await command(capsys, "plan", *socket, "--explain"))[1].splitlines()
    at = text.index("+ IKE_SA of gw-b/0  (no IKE_SA; in place)")
    assert text[at + 1].startswith("      swanctl --initiate --ike ikeorch.gw-b.0 --child ikeorch.gw-b.0 --timeout -1")
    assert "later: BGP + 10.2.0.0/16 200G, + fd00:b::/48 200G, once packets have proved gw-b/0, gw-b/1" in text[-1]
    flat = (await command(capsys, "plan", *socket, "--explain", "--output", "plain"))[1].splitlines()
    assert f"\t{SAVED}" in flat
    assert "BEGIN" not in "\n".join(flat)


def _without(action: Any) -> Any:
    return {key: value for key, value in action.items() if key != "commands"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--offline", "x", "--out", "y"], "--offline goes with neither --out nor --save-snapshot"),
        (["--offline", "x", "--save-snapshot", "y"], "--offline goes with neither --out nor --save-snapshot"),
        (["--config", "x"], "--config goes with --offline only"),
        (["--offline", "/nowhere/x"], "/nowhere/x: cannot be read: No such file or directory"),
    ],
)
async def test_options_that_do_not_fit_together_exit_64(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """And say which."""
    code, out, err = await command(capsys, "plan", *arguments)
    assert (code, out) == (64, "")
    assert said in err


async def test_a_snapshot_that_cannot_be_written_is_said(
    world: World, tmp_path: Path, socket: tuple[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is lost but the file."""
    await world.passes()
    code, _, err = await command(capsys, "plan", *socket, "--save-snapshot", tmp_path / "none" / "x")
    assert code == 64
    assert "cannot be written: No such file or directory" in err
