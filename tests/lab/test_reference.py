"""Four tunnels between two sites, looked at from outside the daemon."""

from __future__ import annotations

import signal

import pytest

from lab.runner import Lab
from lab.scenarios.observe import children, group_of, list_sas, xfrm_interfaces
from lab.scenarios.sites import (
    BACKWARD,
    FORWARD,
    FORWARD_6,
    GATEWAYS,
    Direction,
    ikeorch,
    status,
    wait_carrying,
)
from lab.scenarios.traffic import spread_flows, streams
from lab.scenarios.tunnels import send_into_each_tunnel
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_there_are_four_ike_sas_and_four_child_sas(sites: Lab, gateway: str) -> None:
    """Each connection once, each child once, none twice; raw VICI says so."""
    peer = "gw-b" if gateway == "gw-a" else "gw-a"
    expected = [f"ikeorch.{peer}.{index}" for index in range(4)]
    node = sites.node(gateway)
    assert sorted(name for name, _ in list_sas(node)) == expected
    found = children(node)
    assert [child.tunnel for child in found] == expected
    assert {child.state for child in found} == {"INSTALLED"}


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_each_tunnel_has_its_own_interface_and_if_id(sites: Lab, gateway: str) -> None:
    """Four XFRM interfaces with distinct if_ids, marked as ours; each CHILD_SA is in the one of its tunnel."""
    node = sites.node(gateway)
    interfaces = xfrm_interfaces(node)
    assert len(interfaces) == 4
    assert len({interface.if_id for interface in interfaces.values()}) == 4
    for child in children(node):
        peer, _, index = child.tunnel.removeprefix("ikeorch.").rpartition(".")
        assert interfaces[f"{peer}/{index}"].if_id == child.if_id


def test_a_packet_sent_into_a_tunnel_comes_out_of_the_same_tunnel(sites: Lab) -> None:
    """Five into tunnel i of A: five out of tunnel i of B, none out of another."""
    assert send_into_each_tunnel(sites, count=5) == {
        str(index): {str(other): 5 if other == index else 0 for other in range(4)} for index in range(4)
    }


@pytest.mark.parametrize("prefix", ["10.2.0.0/16", "fd00:b::/48"])
def test_the_prefix_has_one_weighted_group_over_an_unreachable_route(sites: Lab, prefix: str) -> None:
    """All four tunnels with equal weights, and the floor under them at a higher metric (D11)."""
    node = sites.node("gw-a")
    group = group_of(node, prefix)
    assert [member.get("weight", 1) for member in group["group"]] == [1, 1, 1, 1]
    family = "-6" if ":" in prefix else "-4"
    routes = node.json(["ip", "-j", "-d", family, "route", "show", prefix])
    floor = [route for route in routes if route.get("type") == "unreachable"]
    assert len(routes) == 2
    assert len(floor) == 1
    assert floor[0]["metric"] > min(route["metric"] for route in routes)


@pytest.mark.parametrize("direction", [FORWARD, BACKWARD, FORWARD_6], ids=lambda way: str(way.name))
def test_flows_spread_over_all_tunnels_in_both_directions(sites: Lab, direction: Direction) -> None:
    """256 TCP flows: each tunnel carries between 15 % and 35 % of them, there and back."""
    gateway = sites.node("gw-a" if direction.source == "host-a1" else "gw-b")
    shares = spread_flows(sites, direction, gateway, 256)
    assert shares.answered == 256
    for counts in (shares.forward, shares.backward):
        assert sum(counts.values()) == 256
        assert all(0.15 * 256 <= count <= 0.35 * 256 for count in counts.values()), counts


def test_status_tells_what_was_measured(sites: Lab) -> None:
    """State, path, suite, weight, and an RTT in which netem's 10 ms are seen."""
    tunnels = status(sites.node("gw-a"))["tunnels"]
    assert [each["path"]["uplink"] for each in tunnels] == ["isp1", "isp2", "isp1", "isp2"]
    assert {each["state"] for each in tunnels} == {"carrying"}
    assert {each["weight"] for each in tunnels} == {1}
    assert all(each["child"]["suite"] == "AES_GCM_16-256/ESN" for each in tunnels)
    assert all(each["ike"]["suite"] == "AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384" for each in tunnels)
    assert all(5 < each["rtt_ms"] < 100 for each in tunnels), [each["rtt_ms"] for each in tunnels]


def test_a_second_add_changes_nothing(sites: Lab) -> None:
    """It says "unchanged", the file is the same to the byte, and the plan is empty."""
    node = sites.node("gw-a")
    file = node.path("/etc/ikeorch/ikeorch.yaml")
    before = file.read_bytes()
    result = ikeorch(node, "tunnel", "add", "gw-b", "--count", "4")
    assert result.stderr.splitlines()[0] == "unchanged"
    assert "name: gw-a" in result.stdout
    assert file.read_bytes() == before
    assert "nothing to change" in ikeorch(node, "plan").stdout
    assert ikeorch(node, "plan", "--detailed-exitcode").returncode == 0


@pytest.mark.parametrize("gateway", GATEWAYS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_daemon_that_ends_loses_nothing(sites: Lab, gateway: str, number: signal.Signals) -> None:
    """The end of ikeorchd, killed or asked, and its restart under traffic both ways: 0 lost, the same SPIs."""
    node = sites.node(gateway)
    before = children(node)
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=3200) as started:
        wait_until(lambda: any(_bytes(child) for child in status(node)["tunnels"]), "traffic runs", 10)
        pid = node.kill("ikeorchd", number)
        wait_until(lambda: node.daemons["ikeorchd"].pid not in {None, pid}, "it is restarted", 20)
        node.wait_ready("ikeorchd", 20)
        results = [stream.result() for stream in started]
    assert [(result["total"], result["received"], result["lost"]) for result in results] == [(3200, 3200, 0)] * 2
    wait_carrying(sites)
    assert children(node) == before


def _bytes(tunnel: dict[str, int]) -> int:
    return tunnel["bytes_out"]


def test_removed_tunnels_go_and_come_back(sites: Lab) -> None:
    """Two tunnels fewer on both ends, then the old number again: the world follows, with the same if_ids."""
    a, b = (sites.node(name) for name in GATEWAYS)
    before = xfrm_interfaces(a)
    ikeorch(a, "tunnel", "remove", "gw-b", "--count", "2")
    ikeorch(b, "tunnel", "remove", "gw-a", "--count", "2")
    for node in (a, b):
        wait_until(lambda node=node: len(xfrm_interfaces(node)) == 2, "two interfaces are left", 20)  # type: ignore[misc]
        wait_until(lambda node=node: len(list_sas(node)) == 2, "two IKE_SAs are left", 20)  # type: ignore[misc]
    assert len(group_of(a, "10.2.0.0/16")["group"]) == 2
    ikeorch(b, "tunnel", "add", "gw-a", "--count", "4", "--no-wait")
    ikeorch(a, "tunnel", "add", "gw-b", "--count", "4")
    wait_carrying(sites)
    assert xfrm_interfaces(a) == before
