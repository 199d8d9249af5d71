"""Real answers of every operation against the description, in a gateway that carries and in one that does not."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import Any

import jsonschema
import pytest

from ikeorch.core.ids import TunnelId
from ikeorch.core.refusal import Cause, Refusal
from ikeorch.daemon import request
from ikeorch.daemon.description import api_description
from tests.integration.described import conforms, unix_session
from tests.integration.world import World, up

PEER = """\
name: gw-c
site: dc-c
identity: gw-c.dc.example
asn: 65030
uplinks: [{name: isp1, addresses: [203.0.114.1]}]
inner: [10.255.3.0/27]
prefixes: [10.3.0.0/16]
tunnels: {count: 1}
"""


async def ask(world: World, method: str, target: str, schema: str, body: Any = None, *, status: int = 200) -> Any:
    """One request over the socket, whose answer must be as described."""

    def send() -> Any:
        with unix_session(world.config.parent / "api.sock") as session:
            answer = session.request(method, f"http://localhost{target}", json=body, timeout=20)
        assert answer.headers["Content-Type"].startswith("application/json")
        assert answer.status_code == status, answer.text
        conforms(answer.json(), schema)
        return answer.json()

    return await asyncio.to_thread(send)


async def test_a_gateway_that_carries_is_as_described(world: World) -> None:
    """Every view."""
    await up(world)
    status = await ask(world, "GET", "/v1/status", "Status")
    assert status["tunnels"][0]["child"]["spi_in"] == "c0de0001"
    assert status["fabric"]["neighbors"][0]["routes"]
    await ask(world, "GET", "/v1/tunnels/gw-b/0", "TunnelAnswer")
    await ask(world, "GET", "/v1/peers/gw-b", "PeerAnswer")
    await ask(world, "GET", "/v1/plan", "Plan")
    await ask(world, "GET", "/v1/config", "Configuration")
    await ask(world, "GET", "/v1/history", "History")
    await ask(world, "GET", "/v1/history/1", "RevisionFiles")
    description = await ask(world, "GET", "/v1/openapi.json", "Description")
    assert description == api_description()


async def test_a_gateway_in_trouble_is_as_described(world: World) -> None:
    """No charon, a session down, refusals: the conditions, chains and a plan that could not see all."""
    await world.passes(2)
    world.reconciler.refused(Refusal(cause=Cause.BY_PEER, tunnel=TunnelId("gw-b", 0), notify="NO_PROPOSAL_CHOSEN"))
    world.reconciler.refused(Refusal(cause=Cause.NOT_CONFIGURED, remote=ip_address("10.9.9.9")))
    world.fabric.down = {"10.0.0.254": "hold timer expired"}
    await world.charon.stop()
    await world.passes()
    status = await ask(world, "GET", "/v1/status", "Status")
    codes = {condition["code"] for condition in status["conditions"]}
    assert {"charon-unreachable", "refused-by-peer", "refused-unknown", "fabric-session-down"} <= codes
    shown = await ask(world, "GET", "/v1/tunnels/gw-b/0", "TunnelAnswer")
    assert [reason["about"] for reason in shown["why"]["because"]][:1] == ["tunnel gw-b/0"]
    planned = await ask(world, "GET", "/v1/plan", "Plan")
    assert planned["unseen"][0]["code"] == "charon-unreachable"


async def test_changes_are_as_described(world: World) -> None:
    """Edits, apply, confirm, rollback and reload."""
    await world.passes(2)
    edited = await ask(world, "PUT", "/v1/peers/gw-b/tunnels", "Edited", {"count": 3})
    assert edited["tunnels"] == ["gw-b/0", "gw-b/1", "gw-b/2"]
    await ask(world, "POST", "/v1/peers", "Edited", {"block": PEER})
    refused = await ask(world, "DELETE", "/v1/peers/gw-c", "Error", status=409)
    assert refused["error"]["code"] == "risk-not-accepted"
    await ask(world, "DELETE", "/v1/peers/gw-c", "Edited", {"accept_risks": ["withdraw-last-path"]})
    world.config.write_text(world.config.read_text().replace("capacity: 50G", "capacity: 40G"))
    text = world.config.read_text()
    world.config.write_text(text.replace("count: 3", "count: 1"))
    risky = await ask(world, "GET", "/v1/plan", "Plan")
    assert [each["risk"] for each in risky["risks"]] == ["most-tunnels"]
    world.config.write_text(text)
    planned = await ask(world, "GET", "/v1/plan", "Plan")
    assert planned["in_force"] is False
    body = {"config": planned["config_digest"], "actions": planned["actions_digest"], "confirm_within": 60}
    applied = await ask(world, "POST", "/v1/apply", "Applied", body)
    assert applied["confirm_within"] > 0
    await ask(world, "GET", "/v1/history", "History")
    await ask(world, "POST", "/v1/confirm", "InForce")
    await ask(world, "POST", "/v1/rollback", "InForce", {"revision": 1})
    await ask(world, "POST", "/v1/reload", "Changed")


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("GET", "/v1/nothing", None, 404),
        ("PATCH", "/v1/status", None, 405),
        ("GET", "/v1/status?wait=soon", None, 400),
        ("GET", "/v1/tunnels/gw-b/77", None, 404),
        ("GET", "/v1/peers/nobody", None, 404),
        ("PUT", "/v1/peers/gw-b/tunnels", {"count": 200}, 409),
        ("POST", "/v1/apply", [], 400),
        ("POST", "/v1/peers", {"block": "x" * 2**21}, 413),
        ("POST", "/v1/confirm", None, 409),
        ("POST", "/v1/rollback", {"revision": 99}, 404),
        ("DELETE", "/v1/peers/nobody", None, 404),
        ("GET", "/v1/plan?explian=yes", None, 400),
        ("POST", "/v1/apply", {"confirm-within": 60}, 400),
        ("POST", "/v1/rollback", {"revision": "1"}, 400),
    ],
)
async def test_refusals_are_as_described(world: World, method: str, target: str, body: object, status: int) -> None:
    """One form for all, with an exit code."""
    await world.passes()
    await ask(world, method, target, "Error", body, status=status)


async def test_roles_are_as_described(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user gets 403 exactly where the description says `operate`, before anything else is looked at."""
    await world.passes()
    before = world.config.read_bytes()
    monkeypatch.setattr(request, "user_id", lambda _: 65534)
    for path, item in api_description()["paths"].items():
        target = path.replace("{peer}", "gw-b").replace("{index}", "0").replace("{revision}", "1")
        for method, operation in item.items():
            if operation["x-role"] == "operate":
                await ask(world, method.upper(), target, "Error", {}, status=403)
            else:
                answer = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
                await ask(world, method.upper(), target, answer.rpartition("/")[2])
    assert world.config.read_bytes() == before


def test_an_undescribed_field_is_found() -> None:
    """The control: what is not described is no part of an answer."""
    with pytest.raises(jsonschema.ValidationError):
        conforms({"format_version": 1, "revision": 1, "surprise": 1}, "InForce")
