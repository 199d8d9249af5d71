"""A gateway gets another name, under traffic, and the operators of its two ends do their part in either order.

The name hangs in everything: connections, SAs, interface aliases, probes. The peer is recognised by its identity, so
its numbers, interfaces and routes stay, and only its IKE_SAs are replaced, make before break.
"""

from __future__ import annotations

import time

import pytest

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.faults import conditions, kill_part, updates
from lab.scenarios.observe import children, groups, xfrm_interfaces
from lab.scenarios.sites import BACKWARD, FORWARD, GATEWAYS, ikeorch, status, wait_carrying
from lab.scenarios.traffic import streams
from lab.waiting import wait_until
from tests.lab.test_change import edit, spis

pytestmark = [pytest.mark.lab, pytest.mark.timeout(280)]


NEW_AT_B = {f"ikeorch.gw-a2.{index}" for index in range(4)}


def devices(node: Node) -> dict[int, str]:
    """The XFRM interfaces by index: one that was made anew has another index."""
    return {entry["ifindex"]: entry["ifname"] for entry in node.json(["ip", "-j", "link", "show", "type", "xfrm"])}


def rename(node: Node, old: str, new: str) -> None:
    """The operator writes a gateway's new name into the file of either end, and applies it."""
    edit(node, f"name: {old}", f"name: {new}")
    ikeorch(node, "apply", "--timeout", "40s")


@pytest.mark.parametrize(("first", "old", "new"), [("gw-a", "gw-b", "gw-b2"), ("gw-b", "gw-b2", "gw-b3")])
def test_a_gateway_is_renamed_under_traffic(sites: Lab, first: str, old: str, new: str) -> None:
    """0 of 40,000 packets lost; interfaces and groups are the same, the leafs hear nothing; every IKE_SA is renamed."""
    a, b = (sites.node(name) for name in GATEWAYS)
    before = {tunnel.rpartition(".")[2]: found for tunnel, found in spis(a).items()}
    kept = [(devices(node), groups(node)) for node in (a, b)]
    heard = updates(sites)
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=20000) as started:
        time.sleep(1)
        rename(sites.node(first), old, new)
        wait_until(lambda: "peer-name-differs" in conditions(a), "A says that the names differ", 10)
        assert {tunnel["state"] for tunnel in status(a)["tunnels"]} == {"carrying"}
        kill_part(a, "ikeorchd")
        kill_part(a, "prober")
        rename(sites.node(GATEWAYS[1 - GATEWAYS.index(first)]), old, new)
        wait_until(lambda: _renamed(a, new, before), "every IKE_SA has the new name", 40, interval=0.2)
        wait_until(lambda: conditions(a) == conditions(b) == {}, "nothing is wrong", 20)
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(20000, 0)] * 2
    wait_carrying(sites)
    assert kept == [(devices(node), groups(node)) for node in (a, b)]
    assert sorted(xfrm_interfaces(a)) == [f"{new}/{index}" for index in range(4)]
    assert sorted(xfrm_interfaces(b)) == [f"gw-a/{index}" for index in range(4)]
    assert len(children(b)) == 4
    assert updates(sites) == heard
    assert all("nothing to change" in ikeorch(node, "plan").stdout for node in (a, b))


def test_the_end_that_initiates_is_renamed_under_traffic(sites: Lab) -> None:
    """B's connections get another name beside its live SAs, which stay as they are until A establishes them anew."""
    a, b = (sites.node(name) for name in GATEWAYS)
    before = [{child.spi_in for child in children(node)} for node in (a, b)]
    kept = [(devices(node), groups(node)) for node in (a, b)]
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=16000) as started:
        time.sleep(1)
        rename(b, "gw-a", "gw-a2")
        wait_until(lambda: "peer-name-differs" in conditions(b), "B says that the names differ", 10)
        kill_part(b, "ikeorchd")
        rename(a, "gw-a", "gw-a2")
        wait_until(lambda: conditions(a) == conditions(b) == {}, "nothing is wrong", 20)
        assert [{child.spi_in for child in children(node)} for node in (a, b)] == before
        edit(a, "capacity: 50G", "capacity: 50G, rekey_time: 3h")
        ikeorch(a, "apply")
        wait_until(lambda: {child.tunnel for child in children(b)} == NEW_AT_B, "B's SAs have the new name", 30)
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(16000, 0)] * 2
    wait_carrying(sites)
    assert kept == [(devices(node), groups(node)) for node in (a, b)]
    assert sorted(xfrm_interfaces(b)) == [f"gw-a2/{index}" for index in range(4)]
    assert all("nothing to change" in ikeorch(node, "plan").stdout for node in (a, b))


def _renamed(node: Node, name: str, before: dict[str, set[str]]) -> bool:
    """Whether each tunnel has one CHILD_SA, of the new name and with other SPIs than before."""
    found = spis(node)
    wanted = {f"ikeorch.{name}.{index}" for index in before}
    return found.keys() == wanted and all(
        len(now) == 1 and now.isdisjoint(before[tunnel.rpartition(".")[2]]) for tunnel, now in found.items()
    )
