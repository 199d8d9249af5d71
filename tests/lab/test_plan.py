"""Plans of running gateways: made by the daemon, and without it from what was saved, on a machine that has none."""

from __future__ import annotations

import json

import pytest

from lab.runner import Lab
from lab.scenarios.sites import ikeorch
from tests.lab.test_change import edit

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

CHANGES = {
    "settled": ("count: 4", "count: 4"),
    "tunnels": ("count: 4", "count: 5"),
    "weights": ("capacity: 50G", "capacity: 40G"),
    "rekey time": ("capacity: 50G", "capacity: 50G, rekey_time: 3h"),
    "inner": ("inner: [10.255.1.0/27", "inner: [10.255.9.0/27"),
    "device": ("interface: eth2", "interface: lo"),
    "leaf": ("gateways_in_site: 1", "gateways_in_site: 2"),
}


def test_the_plan_is_the_same_without_the_daemon(sites: Lab) -> None:
    """Each change word for word with its commands; also from the world of before, with the changed file beside it."""
    a, elsewhere = sites.node("gw-a"), sites.node("host-a1")
    saved, config = elsewhere.path("/tmp/saved.json"), elsewhere.path("/tmp/config.yaml")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before = file.read_text()
    options = ("--explain", "--detailed-exitcode", "--output", "json")
    for what, (old, new) in CHANGES.items():
        edit(a, old, new)
        online = ikeorch(a, "plan", *options, "--save-snapshot", "/tmp/saved.json", check=False)
        assert online.returncode == (0 if what == "settled" else 2), online.stderr
        saved.write_bytes(a.path("/tmp/saved.json").read_bytes())
        assert b"PRIVATE" not in saved.read_bytes()
        offline = ikeorch(elsewhere, "plan", *options, "--offline", "/tmp/saved.json", check=False)
        assert (what, offline.returncode, offline.stdout) == (what, online.returncode, online.stdout)
        config.write_text(file.read_text())
        named = ikeorch(
            elsewhere, "plan", *options, "--offline", "/tmp/saved.json", "--config", "/tmp/config.yaml", check=False
        )
        plan, other = json.loads(online.stdout), json.loads(named.stdout)
        assert (what, other["actions"], other["later"]) == (what, plan["actions"], plan["later"])
        assert all(action["commands"] for action in plan["actions"])
        file.write_text(before)
    assert "nothing to change" in ikeorch(a, "plan").stdout
