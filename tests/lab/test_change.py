"""Changes by an operator on a real data plane: plan, apply, confirm, and the way back without anybody's help."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.faults import conditions
from lab.scenarios.observe import children
from lab.scenarios.sites import BACKWARD, FORWARD, GATEWAYS, ikeorch, status, wait_carrying
from lab.scenarios.traffic import streams
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def edit(node: Node, old: str, new: str) -> Path:
    """The operator edits the file."""
    file = node.path("/etc/ikeorch/ikeorch.yaml")
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    return file


def tunnels(node: Node) -> int:
    """How many tunnels the gateway has."""
    return len(status(node)["tunnels"])


def test_a_plan_is_looked_at_and_applied_without_loss(sites: Lab) -> None:
    """A weight's worth of capacity changes in place: nothing lost, the same SPIs, the history says who did it."""
    a = sites.node("gw-a")
    before = children(a)
    edit(a, "capacity: 50G", "capacity: 40G")
    shown = ikeorch(a, "plan", "--out", "/tmp/plan.json", "--detailed-exitcode", check=False)
    assert shown.returncode == 2
    assert "160G" in shown.stdout
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=3200) as started:
        time.sleep(1)
        applied = ikeorch(a, "apply", "/tmp/plan.json")
        assert "done after" in applied.stderr
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(3200, 0)] * 2
    assert children(a) == before
    assert ikeorch(a, "plan", "--detailed-exitcode").returncode == 0
    assert "in force" in ikeorch(a, "history").stdout
    assert ikeorch(a, "apply", "/tmp/plan.json", check=False).returncode == 1
    ikeorch(a, "rollback")
    wait_carrying(sites)
    assert "capacity: 50G" in a.path("/etc/ikeorch/ikeorch.yaml").read_text()


def test_a_change_that_nobody_confirms_goes_again_though_the_daemon_is_killed(sites: Lab) -> None:
    """kill -9 in the waiting time: its successor goes back when the time is over; both ends are as before."""
    a = sites.node("gw-a")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before = file.read_bytes()
    edit(a, "count: 4", "count: 3")
    ikeorch(a, "apply", "--confirm-within", "12s")
    assert tunnels(a) == 3
    assert "awaiting-confirmation" in conditions(a)
    a.kill("ikeorchd")
    wait_until(lambda: file.read_bytes() == before, "the file is as before", 30, interval=0.2)
    wait_carrying(sites)
    assert tunnels(a) == 4
    wait_until(lambda: conditions(a).keys() == {"change-undone"}, "only that is told", 10)
    assert "nobody confirmed it in time" in ikeorch(a, "history").stdout


def test_a_confirmed_change_stays(sites: Lab) -> None:
    """And the operator goes back by hand."""
    a = sites.node("gw-a")
    edit(a, "count: 4", "count: 3")
    ikeorch(a, "apply", "--confirm-within", "30s")
    assert "stays" in ikeorch(a, "confirm").stdout
    assert tunnels(a) == 3
    ikeorch(a, "rollback")
    wait_carrying(sites)


def test_a_change_that_cuts_tunnels_goes_by_itself(sites: Lab) -> None:
    """Inner addresses that the peer does not have: half of the tunnels are tried, without traffic; all come back."""
    a = sites.node("gw-a")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before = file.read_bytes()
    edit(a, "inner: [10.255.1.0/27", "inner: [10.255.9.0/27")
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=12000) as started:
        applied = ikeorch(a, "apply", "--confirm-within", "10m", check=False)
        assert applied.returncode == 1
        assert "undone: gw-b/0, gw-b/1: no probe of" in applied.stderr
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(12000, 0)] * 2
    assert file.read_bytes() == before
    wait_carrying(sites)
    assert "no probe of" in ikeorch(a, "history").stdout
    assert "10.255.9.0/27" in ikeorch(a, "history", undone_revision(a)).stdout
    assert conditions(a).keys() == {"change-undone"}
    assert conditions(sites.node("gw-b")) == {}


def undone_revision(node: Node) -> str:
    """Number of the last revision that was undone."""
    revisions = json.loads(ikeorch(node, "history", "--output", "json").stdout)["revisions"]
    return str(next(each["revision"] for each in revisions if each["outcome"] == "rolled back"))


def spis(node: Node) -> dict[str, set[str]]:
    """Every tunnel's inbound SPIs."""
    found: dict[str, set[str]] = {}
    for child in children(node):
        found.setdefault(child.tunnel, set()).add(child.spi_in)
    return found


def suites(node: Node) -> set[str]:
    """The ESP suites in use, as status tells them."""
    return {tunnel["child"]["suite"] for tunnel in status(node)["tunnels"] if tunnel["child"]}


def set_suite(node: Node, suite: str) -> None:
    """The operator writes another suite into the file."""
    file = node.path("/etc/ikeorch/ikeorch.yaml")
    lines = [line for line in file.read_text().splitlines() if not line.startswith("suites:")]
    file.write_text("\n".join([*lines, f"suites: {{default: {suite}}}"]) + "\n")


def renewed(lab: Lab, before: dict[str, set[str]]) -> bool:
    """Whether each tunnel of both gateways has exactly one CHILD_SA, and A's are all others than before."""
    a, b = (spis(lab.node(name)) for name in GATEWAYS)
    single = all(len(entry) == 1 for entry in (*a.values(), *b.values()))
    return len(a) == len(b) == 4 and single and all(a[tunnel].isdisjoint(old) for tunnel, old in before.items())


def test_a_rekey_time_is_changed_under_traffic(sites: Lab) -> None:
    """The end that initiates replaces each IKE_SA, old ones last; 0 lost, one CHILD_SA a tunnel on both ends."""
    a = sites.node("gw-a")
    before = spis(a)
    edit(a, "capacity: 50G", "capacity: 50G, rekey_time: 3h")
    shown = ikeorch(a, "plan").stdout
    assert "re-establishes one tunnel at a time" in shown
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=12000) as started:
        time.sleep(1)
        ikeorch(a, "apply")
        wait_until(lambda: renewed(sites, before), "every IKE_SA is another one", 25, interval=0.2)
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(12000, 0)] * 2
    wait_carrying(sites)
    assert "nothing to change" in ikeorch(a, "plan").stdout
    assert conditions(a) == {}


@pytest.mark.parametrize("first", GATEWAYS)
def test_a_suite_is_changed_on_both_ends_in_either_order(sites: Lab, first: str) -> None:
    """The end that is first waits for the other one, and its tunnels carry on meanwhile: 0 lost."""
    second = GATEWAYS[1 - GATEWAYS.index(first)]
    suite = {"gw-a": "aes128gcm16-prfsha256-ecp256", "gw-b": "aes256gcm16-prfsha384-ecp384"}[first]
    before = spis(sites.node("gw-a"))
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=24000) as started:
        for name in (first, second):
            node = sites.node(name)
            set_suite(node, suite)
            applied = ikeorch(node, "apply", "--timeout", "6s", check=False)
            if name == "gw-a" == first:
                assert applied.returncode == 75
                assert "renewal-pending" in conditions(node)
                assert spis(node) == before
        wait_until(lambda: renewed(sites, before), "every IKE_SA is another one", 60, interval=0.2)
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(24000, 0)] * 2
    wait_carrying(sites)
    for name in GATEWAYS:
        assert all(suite.split("-")[0].removeprefix("aes")[:3] in shown for shown in suites(sites.node(name)))
        assert conditions(sites.node(name)) == {}
