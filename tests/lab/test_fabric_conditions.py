"""What an operator reads when the fabric does not work: each cause by its own words, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.node import Node
from lab.runner import TWO_DC, Lab
from lab.scenarios.fabric import vtysh
from lab.scenarios.faults import conditions
from lab.scenarios.sites import ikeorch, issue_certificates, start_daemons, status
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

LEAF = "10.0.0.254"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two sites with daemons and sessions; no tunnel is needed."""
    with Lab.start(TWO_DC) as running:
        issue_certificates(running)
        start_daemons(running)
        wait_until(lambda: conditions(running.node("gw-a")) == {}, "the sessions are up", 40)
        yield running


def down(node: Node, words: str) -> bool:
    """Whether the session with the leaf is down for a reason that holds these words."""
    found = [
        condition
        for condition in status(node)["conditions"]
        if condition["code"] == "fabric-session-down" and condition["subject"] == LEAF
    ]
    return bool(found) and words in found[0]["message"] and "fabric.neighbors" in found[0]["hint"]


def test_a_leaf_that_refuses_the_session_is_named(lab: Lab) -> None:
    """Shut down there by its operator: the NOTIFICATION's words, and what to compare."""
    a, leaf = lab.node("gw-a"), lab.node("leaf-a")
    vtysh(leaf, "configure terminal", "router bgp 65001", "neighbor 10.0.0.1 shutdown")
    try:
        wait_until(lambda: down(a, "NOTIFICATION 6/2 (administrative shutdown)"), "the refusal is shown", 20)
        shown = ikeorch(a, "bgp", "status", check=False)
        assert shown.returncode == 3
        assert "NOTIFICATION 6/2" in shown.stdout
    finally:
        vtysh(leaf, "configure terminal", "router bgp 65001", "no neighbor 10.0.0.1 shutdown")
    wait_until(lambda: conditions(a) == {}, "the session is back", 70)


def test_a_wrong_as_number_is_named(lab: Lab) -> None:
    """Ours says 65009, the leaf is 65001: both stand in the message."""
    a = lab.node("gw-a")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    right = file.read_text()
    try:
        file.write_text(right.replace(f"{{address: {LEAF}, asn: 65001}}", f"{{address: {LEAF}, asn: 65009}}"))
        a.kill("ikeorchd", 1)
        wait_until(lambda: down(a, "AS65009") and down(a, "2/2"), "the wrong AS is shown", 30)
    finally:
        file.write_text(right)
        a.kill("ikeorchd", 1)
    wait_until(lambda: conditions(a) == {}, "the session is back", 70)


def test_a_leaf_without_bgp_is_named(lab: Lab) -> None:
    """FRR does not run there."""
    a, leaf = lab.node("gw-a"), lab.node("leaf-a")
    leaf.stop_daemon("bgpd")
    try:
        wait_until(lambda: down(a, "AS65001"), "the missing session is shown", 20)
    finally:
        leaf.start_daemon("bgpd")
    wait_until(lambda: conditions(a) == {}, "the session is back", 70)


def test_a_missing_exabgp_is_named(lab: Lab) -> None:
    """How to start it; and that what was told stays told."""
    a = lab.node("gw-a")
    a.stop_daemon("exabgp")
    try:
        wait_until(lambda: "exabgp-unreachable" in conditions(a), "the missing ExaBGP is shown", 20)
        condition = conditions(a)["exabgp-unreachable"]
        assert condition["message"].startswith("ExaBGP's process is not connected")
        assert "systemctl restart ikeorch-exabgp" in condition["hint"]
        assert ikeorch(a, "bgp", "status", check=False).returncode == 3
    finally:
        a.start_daemon("exabgp")
    wait_until(lambda: conditions(a) == {}, "the sessions are back", 40)
