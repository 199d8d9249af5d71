"""A change that costs something is refused, whole, until the operator accepts it by name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ikeorch.cli.client import RefusedError
from ikeorch.cli.main import run
from ikeorch.daemon.api import Api
from ikeorch.daemon.history import DAEMON
from tests.integration.test_history import ask, change, proven, tunnels
from tests.integration.world import World, up

LAST_PATH = {"accept_risks": ["withdraw-last-path"]}


async def refused(world: World, method: str, target: str, body: dict[str, Any] | None, flag: str) -> str:
    """A request that must be refused with this flag, and change nothing."""
    before, spec = world.config.read_bytes(), world.reconciler.spec
    revisions = world.history.revisions()
    with pytest.raises(RefusedError) as caught:
        await ask(world, method, target, body)
    assert caught.value.exit_code == 1
    assert f"nothing was changed; if that is meant, add {flag}" in str(caught.value)
    assert (world.config.read_bytes(), world.reconciler.spec) == (before, spec)
    assert world.history.revisions() == revisions
    return str(caught.value)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("DELETE", "/v1/peers/gw-b", None),
        ("DELETE", "/v1/peers/gw-b", {"accept_risks": ["most-tunnels"]}),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 0}),
    ],
)
async def test_the_last_path_is_not_taken_away_unasked(
    world: World, method: str, target: str, body: dict[str, Any] | None
) -> None:
    """The prefix, the peer and the flag are named; with the flag it is done."""
    await up(world)
    text = await refused(world, method, target, body, "--accept-risk=withdraw-last-path")
    assert "10.2.0.0/16 (peer gw-b) has no tunnel afterwards" in text
    answer = await ask(world, method, target, (body or {}) | LAST_PATH)
    assert answer["changed"] is True
    assert world.reconciler.spec.peer("gw-b") is None or tunnels(world) == 0


async def test_apply_reload_and_a_saved_plan_need_the_flag(world: World) -> None:
    """Also one that must be confirmed; a plan shows it before with its flag."""
    await up(world)
    change(world, "count: 4", "count: 1")
    view = await ask(world, "GET", "/v1/plan")
    assert view["risks"] == [
        {
            "symbol": "!",
            "risk": "most-tunnels",
            "subject": "gw-b",
            "message": "3 of 4 tunnels to gw-b go at once",
            "flag": "--accept-risk=most-tunnels",
        }
    ]
    plan = {"config": view["config_digest"], "actions": view["actions_digest"]}
    for target, body in (
        ("/v1/apply", {}),
        ("/v1/apply", plan),
        ("/v1/apply", {"confirm_within": 60}),
        ("/v1/reload", {}),
        ("/v1/apply", LAST_PATH),
    ):
        await refused(world, "POST", target, body, "--accept-risk=most-tunnels")
    await ask(world, "POST", "/v1/apply", plan | {"accept_risks": ["most-tunnels"]})
    assert tunnels(world) == 1


async def test_a_rollback_needs_the_flag_but_not_from_what_waits(world: World) -> None:
    """What waits for its confirmation goes back by itself, so an operator in need is not asked either."""
    await up(world)
    change(world, "count: 4", "count: 1")
    accept = {"accept_risks": ["most-tunnels"]}
    await ask(world, "POST", "/v1/apply", accept)
    proven(world)
    change(world, "count: 1", "count: 4")
    await ask(world, "POST", "/v1/apply", {"confirm_within": 60})
    assert (await ask(world, "POST", "/v1/rollback", {}))["revision"] == 2
    assert tunnels(world) == 1
    await ask(world, "POST", "/v1/rollback", {"revision": 1})
    await refused(world, "POST", "/v1/rollback", {"revision": 2}, "--accept-risk=most-tunnels")
    await ask(world, "POST", "/v1/rollback", {"revision": 2} | accept)
    assert tunnels(world) == 1


async def test_a_signal_asks_nobody(world: World) -> None:
    """SIGHUP has no operator who could accept anything; it does what the file says."""
    await up(world)
    change(world, "count: 4", "count: 1")
    await Api(world.reconciler, world.history._config, world.history).reload("SIGHUP", uid=DAEMON)
    assert tunnels(world) == 1


async def test_commands_carry_the_flag(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan's line begins with !, the refusal exits 1, the flag is taken more than once, others are usage errors."""
    await up(world)
    change(world, "count: 4", "count: 1")
    socket = str(tmp_path / "api.sock")

    async def command(*arguments: str) -> tuple[int, str]:
        code = await asyncio.to_thread(run, [*arguments, "--socket", socket])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    code, text = await command("plan")
    assert code == 0
    assert any(line.startswith("! ") and "needs --accept-risk=most-tunnels" in line for line in text.splitlines())
    code, text = await command("apply", "--no-wait")
    assert (code, "add --accept-risk=most-tunnels" in text) == (1, True)
    flags = ("--accept-risk=outage", "--accept-risk=most-tunnels")
    assert (await command("apply", "--no-wait", *flags))[0] == 0
    assert (await command("apply", "--accept-risk=all"))[0] == 64
    code, text = await command("tunnel", "remove", "gw-b", "--all")
    assert (code, "--accept-risk=withdraw-last-path" in text) == (1, True)
    assert (await command("tunnel", "remove", "gw-b", "--all", "--accept-risk=withdraw-last-path"))[0] == 0
    code, text = await command("rollback", "1", "--output", "json", "--accept-risk=outage")
    assert (code, json.loads(text[text.index("{") :])["revision"]) == (0, 1)
    code, text = await command("peer", "remove", "gw-b")
    assert (code, "--accept-risk=withdraw-last-path" in text) == (1, True)
    assert (await command("peer", "remove", "gw-b", "--accept-risk=withdraw-last-path"))[0] == 0
