"""FRR on the leafs, against a plain ExaBGP with static routes: the lab's side of BGP, without ikeorch."""

from __future__ import annotations

import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.daemons import DaemonSpec
from lab.node import CommandFailedError, Node
from lab.runner import TWO_DC, Lab
from lab.scenarios.fabric import (
    FibHop,
    fib_route,
    leaf_route,
    neighbor,
    session_state,
    start_fabric,
    updates_received,
    vtysh,
    vtysh_json,
)
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

GATEWAY, GATEWAY_6 = "10.0.0.1", "fd00:a:ffff::1"
SECOND = "10.0.0.2"
SPEAKER_FILE = "/etc/exabgp-static.conf"
SPEAKER = DaemonSpec(
    name="exabgp-static",
    argv=(str(Path(sys.executable).parent / "exabgp"), "server", SPEAKER_FILE),
    socket="",
    env={"exabgp_daemon_user": "root", "exabgp_api_cli": "false", "exabgp_log_destination": "stdout"},
)
SESSION = 30
"""Seconds for a session; it takes two and a half."""


def bandwidth(rate: float) -> str:
    """A link bandwidth in bytes/s as ExaBGP's raw extended community, of gateway A's AS."""
    return f"0x4004{65010:04x}{struct.pack('>f', rate).hex()}"


def speaker(rate: float) -> str:
    """ExaBGP's configuration: the other site in both families, and a prefix over two next hops as 3 to 1."""
    return f"""
neighbor 10.0.0.254 {{
    router-id 10.0.255.1; local-address {GATEWAY}; local-as 65010; peer-as 65001; hold-time 9;
    family {{ ipv4 unicast; }}
    capability {{ graceful-restart 20; add-path send; }}
    static {{
        route 10.2.0.0/16 next-hop {GATEWAY} path-information 0.0.0.1 extended-community [ {bandwidth(rate)} ];
        route 10.9.0.0/16 next-hop {GATEWAY} path-information 0.0.0.1 extended-community [ {bandwidth(3e8)} ];
        route 10.9.0.0/16 next-hop {SECOND} path-information 0.0.0.2 extended-community [ {bandwidth(1e8)} ];
    }}
}}
neighbor fd00:a:ffff::fe {{
    router-id 10.0.255.1; local-address {GATEWAY_6}; local-as 65010; peer-as 65001; hold-time 9;
    family {{ ipv6 unicast; }}
    static {{ route fd00:b::/48 next-hop {GATEWAY_6} extended-community [ {bandwidth(rate)} ]; }}
}}
"""


def start_speaker(gateway: Node) -> None:
    """ExaBGP in the node; it stays dead when it is killed."""
    gateway.start_daemon(SPEAKER, restart=False, ready=None)


def await_rate(leaf: Node, rate: float) -> None:
    """Wait until the leaf has the routes of both families from a living session, with this link bandwidth."""

    def arrived() -> bool:
        paths = leaf_route(leaf, "10.2.0.0/16") + leaf_route(leaf, "fd00:b::/48")
        return len(paths) == 2 and all(path.link_bandwidth == rate and not path.stale for path in paths)

    wait_until(arrived, f"{leaf.name} has both prefixes with {rate:g} byte/s", SESSION, interval=0.1)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.start(TWO_DC) as running:
        start_fabric(running)
        yield running


@pytest.fixture
def leaf(lab: Lab) -> Node:
    """Leaf A with both sessions up and 100 MB/s on the other site's prefixes."""
    gateway, leaf = lab.node("gw-a"), lab.node("leaf-a")
    if SPEAKER.name not in gateway.daemons:
        gateway.run(["ip", "address", "add", f"{SECOND}/24", "dev", "eth3"])
    gateway.path(SPEAKER_FILE).write_text(speaker(1e8))
    state = gateway.daemons.get(SPEAKER.name)
    if state is None or state.pid is None:
        start_speaker(gateway)
    else:
        gateway.kill(SPEAKER.name, signal.SIGUSR1)
    try:
        await_rate(leaf, 1e8)
    except Exception as error:
        pytest.fail(f"{error}\n{gateway.log_tail(SPEAKER.name)}\n{leaf.log_tail('bgpd')}")
    return leaf


def test_no_route_comes_from_nowhere(lab: Lab) -> None:
    """Before anybody speaks BGP a leaf has no route to the other site but the topology's default."""
    leaf = lab.node("leaf-b")
    assert session_state(leaf, "10.0.16.1") != "Established"
    for prefix in ("10.1.0.0/16", "fd00:a::/48"):
        assert leaf_route(leaf, prefix) == ()
        assert fib_route(leaf, prefix) is None


@pytest.mark.parametrize(
    ("prefix", "gateway"), [("10.2.0.0/16", GATEWAY), ("fd00:b::/48", GATEWAY_6)], ids=["IPv4", "IPv6"]
)
def test_leaf_learns_the_other_site_with_its_link_bandwidth(leaf: Node, prefix: str, gateway: str) -> None:
    """The session of each family is up; the route is in the BGP table with its community, and in the kernel."""
    assert session_state(leaf, gateway) == "Established"
    (path,) = leaf_route(leaf, prefix)
    assert (path.peer, path.next_hops, path.valid, path.best, path.stale) == (gateway, (gateway,), True, True, False)
    assert path.communities == "LB:65010:100000000 (800.000 Mbps)"
    assert path.link_bandwidth == 1e8
    wait_until(lambda: fib_route(leaf, prefix), "the kernel has the route")
    route = fib_route(leaf, prefix)
    assert route is not None
    assert route.protocol == "bgp"
    assert route.hops == (FibHop(gateway=gateway, interface="eth1", weight=1),)


def test_two_next_hops_are_weighed_by_their_link_bandwidth(leaf: Node) -> None:
    """Paths of 300 and 100 MB/s stand in the kernel as 75 to 25."""
    paths = {path.next_hops: path for path in leaf_route(leaf, "10.9.0.0/16")}
    assert {hops: (path.link_bandwidth, path.multipath) for hops, path in paths.items()} == {
        (GATEWAY,): (3e8, True),
        (SECOND,): (1e8, True),
    }

    def weights() -> dict[str | None, int]:
        route = fib_route(leaf, "10.9.0.0/16")
        return {hop.gateway: hop.weight for hop in route.hops} if route else {}

    wait_until(lambda: weights() == {GATEWAY: 75, SECOND: 25}, "the kernel's weights are 75 to 25")


def test_a_changed_link_bandwidth_arrives_and_is_counted(lab: Lab, leaf: Node) -> None:
    """A new announcement replaces the old one, and the counter of UPDATE messages moves with it, and only then."""
    before = updates_received(leaf, GATEWAY)
    gateway = lab.node("gw-a")
    gateway.path(SPEAKER_FILE).write_text(speaker(5e7))
    assert updates_received(leaf, GATEWAY) == before
    gateway.kill(SPEAKER.name, signal.SIGUSR1)
    await_rate(leaf, 5e7)
    assert updates_received(leaf, GATEWAY) > before
    assert neighbor(leaf, GATEWAY)["connectionsDropped"] == 0


def test_graceful_restart_keeps_the_route_of_a_dead_speaker(lab: Lab, leaf: Node) -> None:
    """SIGKILL: with the capability (IPv4) the path is stale and the kernel keeps it, without (IPv6) it goes at once."""
    gateway = lab.node("gw-a")
    gateway.kill(SPEAKER.name)
    wait_until(lambda: [path.stale for path in leaf_route(leaf, "10.2.0.0/16")] == [True], "the path is stale")
    wait_until(lambda: leaf_route(leaf, "fd00:b::/48") == (), "the path without graceful restart is gone")
    route = fib_route(leaf, "10.2.0.0/16")
    assert route is not None
    assert route.protocol == "bgp"
    wait_until(lambda: fib_route(leaf, "fd00:b::/48") is None, "the kernel has lost it too")
    start_speaker(gateway)
    await_rate(leaf, 1e8)


def test_killed_bgpd_comes_back_with_its_configuration(leaf: Node) -> None:
    """Its supervisor starts it again; it reads its file itself and the routes return."""
    first = leaf.kill("bgpd")
    wait_until(lambda: leaf.daemons["bgpd"].pid not in {None, first}, "bgpd runs again")
    leaf.wait_ready("bgpd")
    assert leaf.daemons["bgpd"].last_exit == -signal.SIGKILL
    await_rate(leaf, 1e8)
    wait_until(lambda: fib_route(leaf, "10.2.0.0/16"), "the kernel has the route")


def test_vtysh_says_what_is_wrong(lab: Lab) -> None:
    """An unknown command raises with FRR's own words."""
    with pytest.raises(CommandFailedError, match="Unknown command: show nonsense"):
        vtysh(lab.node("leaf-a"), "show nonsense")


def test_nodes_see_nothing_of_the_hosts_frr(lab: Lab) -> None:
    """A node's /etc/frr holds what its topology binds there, and on a gateway nothing."""
    assert lab.node("leaf-a").run(["ls", "/etc/frr"]).stdout.split() == ["frr.conf", "vtysh.conf"]
    assert lab.node("gw-a").run(["ls", "/etc/frr"]).stdout == ""


GATEWAY_B = """
router bgp 65020
 bgp router-id 10.0.255.2
 no bgp ebgp-requires-policy
 neighbor 10.0.16.254 remote-as 65002
 neighbor 10.0.16.254 bfd 3 300 300
 address-family ipv4 unicast
  network 10.1.0.0/16
 exit-address-family
exit
"""


def test_a_gateway_runs_frr_with_bfd_as_well(lab: Lab) -> None:
    """For comparisons: zebra, bgpd and bfdd from one file; BFD sees a link that drops all within 3 x 300 ms or so."""
    gateway, leaf = lab.node("gw-b"), lab.node("leaf-b")
    gateway.path("/etc/frr/frr.conf").write_text(GATEWAY_B)
    vtysh(leaf, "configure terminal", "router bgp 65002", "neighbor 10.0.16.1 bfd 3 300 300")
    gateway.run(["ip", "route", "replace", "10.1.0.0/16", "dev", "lo"])
    leaf.start_daemon("bfdd")
    for daemon in ("zebra", "bfdd", "bgpd"):
        gateway.start_daemon(daemon)

    def bfd_is_up() -> bool:
        peers = vtysh_json(leaf, "show bfd peers json")
        return [peer["status"] for peer in peers] == ["up"]

    wait_until(bfd_is_up, "BFD is up", SESSION, interval=0.1)
    wait_until(lambda: fib_route(leaf, "10.1.0.0/16"), "the leaf has the gateway's route", SESSION)
    node, interface = lab.link("gw-b:eth3")
    node.run(["tc", "qdisc", "add", "dev", interface, "root", "netem", "loss", "100%"])
    # the session's own hold time is 9 s: only BFD is that fast
    wait_until(lambda: fib_route(leaf, "10.1.0.0/16") is None, "BFD took the route away", 3)
