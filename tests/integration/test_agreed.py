"""The suites in use outlive a tunnel and a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ikeorch.core.ids import TunnelId
from ikeorch.store.agreed import AgreedSuites
from ikeorch.store.database import Store
from tests.integration.test_history import ask, change
from tests.integration.world import World, up

OLD = b"aes256gcm16-prfsha384-ecp384"
NEW = b"aes128gcm16-prfsha256-ecp256"


def proposals(world: World) -> list[Any]:
    """What charon takes for IKE, of each connection."""
    return [connection["proposals"] for connection in world.charon.connections.values()]


async def test_the_old_suite_is_taken_though_its_tunnel_and_the_daemon_are_gone(world: World, tmp_path: Path) -> None:
    """The plan shows the connection's change; a successor of the daemon reads what was in use from the database."""
    change(world, "    tunnels: {count: 4", "    initiate: peer\n    tunnels: {count: 4")
    await ask(world, "POST", "/v1/apply", {})
    await up(world)
    assert proposals(world) == [[OLD]] * 4
    change(world, "schema_version: 1", f"schema_version: 1\nsuites: {{default: {NEW.decode()}}}")
    await ask(world, "POST", "/v1/apply", {})
    world.charon.sas.clear()
    await world.passes(2)
    assert proposals(world) == [[NEW, OLD]] * 4
    result = await world.passes()
    assert [condition.code.value for condition in result.conditions if condition.subject == "gw-b"] == ["suite-pending"]
    spec = world.reconciler.spec
    with_store = Store.open(tmp_path / "state" / "ikeorch.db")
    successor = AgreedSuites(with_store)
    assert {str(suite).encode() for suite in successor.observe(spec, None).values()} == {OLD}
    with_store.close()


def test_rubbish_in_the_database_is_forgotten(tmp_path: Path) -> None:
    """What an other version wrote there stops nobody."""
    store = Store.open(tmp_path / "x.db")
    insert = "INSERT INTO agreed_suite VALUES (?, ?)"
    for name, suite in (("gw-b/0", OLD.decode()), ("gw-b/1", "rot13"), ("no tunnel", OLD.decode())):
        store.write((insert, (name, suite)))
    assert list(AgreedSuites(store).now) == [TunnelId("gw-b", 0)]
    store.close()
