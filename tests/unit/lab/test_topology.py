"""Topology files: what the published ones say, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from lab.runner import ONE_PAIR, THREE_DC, TWO_DC, node_sysctls
from lab.topology import TopologyError, load_topology, parse_topology

SMALL = """
name: small
topology:
  defaults: {kind: linux, image: any}
  nodes:
    a: {labels: {ikeorch.role: gateway}, exec: ["ip address add 10.0.0.1/24 dev eth1"]}
    b: {labels: {ikeorch.role: host}, sysctls: {net.ipv4.ip_forward: 1}}
  links:
    - endpoints: ["a:eth1", "b:eth1"]
"""


def test_two_sites_have_the_nodes_of_the_reference_scenario() -> None:
    """Two gateways with three links each, a leaf and two hosts a site, two providers."""
    topology = load_topology(TWO_DC)
    roles = {node.name: node.role for node in topology.nodes}
    assert {k: v for k, v in roles.items() if v == "gateway"} == {"gw-a": "gateway", "gw-b": "gateway"}
    assert {"leaf-a", "leaf-b", "isp1", "isp2"} == {k for k, v in roles.items() if v == "router"}
    assert {"host-a1", "host-a2", "host-b1", "host-b2"} == {k for k, v in roles.items() if v == "host"}
    assert tuple(sorted(topology.interfaces("gw-a"))) == ("eth1", "eth2", "eth3")


def test_the_third_site_joins_the_same_two() -> None:
    """Every node of the two sites is in both files, the providers apart, whose links and routes are more."""
    two, three = load_topology(TWO_DC), load_topology(THREE_DC)
    for node in two.nodes:
        other = three.node(node.name)
        more = node.name.startswith("isp")
        assert dataclasses.replace(other, exec=()) == dataclasses.replace(node, exec=())
        assert set(other.exec) > set(node.exec) if more else other.exec == node.exec
    assert {node.name for node in three.nodes} - {node.name for node in two.nodes} == {
        "gw-c",
        "leaf-c",
        "host-c1",
        "host-c2",
    }
    assert set(two.links) < set(three.links)


@pytest.mark.parametrize("path", [TWO_DC, THREE_DC, ONE_PAIR], ids=lambda path: path.name)
def test_published_topology_addresses_every_interface_in_both_families(path: Path) -> None:
    """Each end of each link has an IPv4 and an IPv6 address, and no exec names an interface that is not there."""
    topology = load_topology(path)
    for node in topology.nodes:
        given = [command[3:6:2] for command in node.exec if command[:3] == ("ip", "address", "add")]
        interfaces = set(topology.interfaces(node.name))
        assert interfaces == {interface for address, interface in given if ":" not in address}
        assert interfaces == {interface for address, interface in given if ":" in address}


@pytest.mark.parametrize("path", [TWO_DC, THREE_DC, ONE_PAIR], ids=lambda path: path.name)
def test_providers_delay_every_packet_and_do_not_know_the_sites(path: Path) -> None:
    """5 ms at each egress of a provider, and no route of theirs leads into a site."""
    topology = load_topology(path)
    for node in (node for node in topology.nodes if node.name.startswith("isp")):
        delayed = {command[4] for command in node.exec if command[0] == "tc" and "5ms" in command}
        assert set(topology.interfaces(node.name)) == delayed
        text = " ".join(" ".join(command) for command in node.exec)
        assert not any(site in text for site in ("10.1.", "10.2.", "10.3.", "fd00:", "default"))


def test_nodes_of_one_lab_hash_differently() -> None:
    """Each node has its own multipath seed, which is never 0 (0 means the kernel's shared one)."""
    seeds = [dict(node_sysctls(node))["net.ipv4.fib_multipath_hash_seed"] for node in load_topology(THREE_DC).nodes]
    assert len(seeds) == len(set(seeds))
    assert "0" not in seeds


def test_topology_is_read(tmp_path: Path) -> None:
    """Names, roles, commands, settings and links arrive as values."""
    topology = parse_topology(SMALL, tmp_path / "small.clab.yml")
    assert [node.name for node in topology.nodes] == ["a", "b"]
    assert topology.node("a").exec == (("ip", "address", "add", "10.0.0.1/24", "dev", "eth1"),)
    assert topology.node("b").sysctls == (("net.ipv4.ip_forward", "1"),)
    assert [str(end) for end in topology.links[0]] == ["a:eth1", "b:eth1"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("kind: linux", "kind: srl", "kind must be linux"),
        ("ikeorch.role: host", "ikeorch.role: boss", "must be one of gateway, router, host"),
        ("ip address", "reboot now", "commands of ip and tc only"),
        ('"b:eth1"]', '"c:eth1"]', "no node 'c'"),
        ('"b:eth1"]', '"b:lan0"]', "eth1 to eth99"),
        ('"b:eth1"]', '"a:eth1"]', "an end of 2 links"),
        ('["a:eth1", "b:eth1"]', '["a:eth1"]', "two endpoints, not 1"),
        ("sysctls:", "entrypoint:", "does not know entrypoint"),
        ("sysctls: {net.ipv4.ip_forward: 1}", "cmd: charon reboot", "no such daemon: reboot"),
        ("sysctls: {net.ipv4.ip_forward: 1}", "binds: [missing:/etc/x]", "there is no"),
        ("sysctls: {net.ipv4.ip_forward: 1}", "binds: [relative]", "not source:/absolute/target"),
        ("    a:", "    A:", "lower-case"),
        ("name: small", "name: [", "small.clab.yml"),
        ("topology:", "topologie:", "does not know topologie"),
    ],
)
def test_wrong_topology_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    """Every mistake is named, with the file."""
    assert old in SMALL
    with pytest.raises(TopologyError, match=r"small\.clab\.yml") as caught:
        parse_topology(SMALL.replace(old, new, 1), tmp_path / "small.clab.yml")
    assert complaint in str(caught.value)
