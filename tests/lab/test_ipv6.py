"""IPv6 alone outside and inside, and several addresses of both families: all that works over IPv4 works."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from ikeorch.core.mtu import inner_mtu
from lab.runner import TWO_DC, Lab
from lab.scenarios.fabric import fib_route, told_bandwidths
from lab.scenarios.families import BACKWARD_6, LINK_LOCAL, both_families, ipv6_alone
from lab.scenarios.faults import CAPACITY, conditions, float32, weights
from lab.scenarios.observe import group_of, guard_drops, xfrm_interfaces
from lab.scenarios.outage import OF_PROVIDER, outage
from lab.scenarios.sites import (
    FORWARD_6,
    GATEWAYS,
    TUNNELS,
    add_tunnels,
    ikeorch,
    issue_certificates,
    start_daemons,
    status,
    wait_carrying,
)
from lab.scenarios.traffic import captures, finish, spread_flows, streams
from lab.scenarios.tunnels import send_into_each_tunnel
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

REMOTE = {"leaf-a": "fd00:b::/48", "leaf-b": "fd00:a::/48"}
PAIRS = 10
"""Address pairs of both uplinks: four of IPv4 and one of IPv6 each."""


@pytest.fixture(scope="module")
def alone() -> Iterator[tuple[Lab, str]]:
    """Two sites that know no IPv4, with four tunnels that carry; the block by which they came."""
    with Lab.start(TWO_DC) as lab:
        ipv6_alone(lab)
        issue_certificates(lab)
        start_daemons(lab)
        block = add_tunnels(lab)
        for leaf, prefix in REMOTE.items():
            node = lab.node(leaf)
            wait_until(lambda: fib_route(node, prefix) is not None, f"{leaf} has {prefix}", 30)  # noqa: B023
        yield lab, block


def test_four_tunnels_over_ipv6_alone(alone: tuple[Lab, str]) -> None:
    """Block, path, SAs, interfaces, MTU, group, guard, fabric: no IPv4 address anywhere, and nothing is wrong."""
    lab, block = alone
    assert "fd00:1::/123" in block
    assert "." not in block.replace("gw-a.dc.example", "")
    for name in GATEWAYS:
        node = lab.node(name)
        view = status(node)
        assert [each["state"] for each in view["tunnels"]] == ["carrying"] * TUNNELS
        wait_until(lambda: conditions(node) == {}, f"nothing is wrong on {name}", 20)  # noqa: B023
        assert all(
            ip_address(each["path"][end]).version == 6 for each in view["tunnels"] for end in ("local", "remote")
        )
        assert {each["mtu"] for each in view["tunnels"]} == {inner_mtu(1500, ipv6_underlay=True)}
        links = node.json(["ip", "-j", "-d", "address", "show", "type", "xfrm"])
        assert {address["family"] for link in links for address in link["addr_info"]} == {"inet6"}
        assert {link["mtu"] for link in links} == {inner_mtu(1500, ipv6_underlay=True)}
        states = node.run(["ip", "xfrm", "state"]).stdout
        assert states.count("src 2001:db8:") == 2 * TUNNELS
        guard = node.run(["nft", "list", "table", "inet", "ikeorch"]).stdout
        assert "10." not in guard
        assert "nothing to change" in ikeorch(node, "plan").stdout
    group = group_of(lab.node("gw-a"), "fd00:b::/48")
    assert [member.get("weight", 1) for member in group["group"]] == [1] * TUNNELS
    ways = {"2001:db8:a1::1": "eth1", "2001:db8:a2::1": "eth2"}
    for source, uplink in ways.items():
        (way,) = lab.node("gw-a").json(["ip", "-j", "route", "get", "2001:db8:b1::1", "from", source])
        assert way["dev"] == uplink
    assert way["gateway"] == LINK_LOCAL
    for leaf, prefix in REMOTE.items():
        assert told_bandwidths(lab.node(leaf), [prefix]) == [float32(CAPACITY)]


def test_flows_spread_and_nothing_is_clear_or_fragmented(alone: tuple[Lab, str]) -> None:
    """256 flows over four tunnels; the largest packet passes whole; the provider sees ESP, IKE and ND alone."""
    lab, _ = alone
    node = lab.node("gw-a")
    before = guard_drops(node)
    with captures(lab, ("isp1:eth1",)) as running:
        shares = spread_flows(lab, FORWARD_6, node, 256)
        size = inner_mtu(1500, ipv6_underlay=True) - 48
        ping = ["ping", "-q", "-c", "3", "-i", "0.1", "-W", "2", "-M", "do", FORWARD_6.address]
        lab.node("host-a1").run([*ping, "-s", str(size)])
        too_large = lab.node("host-a1").run([*ping, "-s", str(size + 8)], check=False)
        seen = finish(running["isp1:eth1"])
    assert shares.answered == 256
    for counts in (shares.forward, shares.backward):
        assert all(0.15 * 256 <= count <= 0.35 * 256 for count in counts.values()), counts
    assert too_large.returncode != 0
    assert set(seen["kinds"]) <= {"esp", "ike", "nd-mld"}
    assert seen["kinds"]["esp"] > 256
    assert guard_drops(node) == before


def test_a_dark_provider_is_noticed_and_comes_back(alone: tuple[Lab, str]) -> None:
    """Probes and echoes over IPv6 take its tunnels out and in; the rest carries on, and most of a stream arrives."""
    lab, _ = alone
    a = lab.node("gw-a")
    with streams(lab, (FORWARD_6, BACKWARD_6), rate=200, count=2400) as started:
        with outage((lab.node("isp1"),), OF_PROVIDER):
            wait_until(lambda: list(weights(a).values()) == [0, 1, 0, 1], "isp1's tunnels are out", 10)
            assert "tunnel-down" in conditions(a)
        results = [stream.result() for stream in started]
    assert all(result["lost"] < 400 for result in results), results
    wait_until(lambda: list(weights(a).values()) == [1] * TUNNELS, "all are back", 30)
    wait_until(lambda: conditions(a) == {}, "nothing is wrong", 10)


def test_an_interface_that_went_down_by_hand_comes_back(alone: tuple[Lab, str]) -> None:
    """The kernel takes its IPv6 addresses and next hops away with it, which it does not do with IPv4's."""
    lab, _ = alone
    a = lab.node("gw-a")
    link = xfrm_interfaces(a)["gw-b/1"].name
    before = a.run(["ip", "-o", "-6", "address", "show", "dev", link, "scope", "global"]).stdout
    assert before
    a.run(["ip", "link", "set", link, "down"])
    wait_until(
        lambda: a.run(["ip", "-o", "-6", "address", "show", "dev", link, "scope", "global"]).stdout == before,
        "the addresses are back",
        20,
    )
    wait_until(lambda: len(group_of(a, "fd00:b::/48")["group"]) == TUNNELS, "the group has all four again", 30)
    wait_until(lambda: list(weights(a).values()) == [1] * TUNNELS and conditions(a) == {}, "all carry", 30)


def test_tunnels_take_every_address_pair_of_both_families() -> None:
    """Ten tunnels over two uplinks with four IPv4 pairs and one IPv6 pair each: ten outer tuples, and no warning.

    Both ends agree on every tunnel's pair: what goes into one comes out of the same. An eleventh must share a pair,
    and the warning names which.
    """
    with Lab.start(TWO_DC) as lab:
        both_families(lab)
        issue_certificates(lab)
        start_daemons(lab)
        add_tunnels(lab, PAIRS)
        wait_carrying(lab, PAIRS)
        paths = [each["path"] for each in status(lab.node("gw-a"))["tunnels"]]
        pairs = [(path["local"], path["remote"]) for path in paths]
        assert len(set(pairs)) == PAIRS
        assert [path["uplink"] for path in paths] == ["isp1", "isp2"] * (PAIRS // 2)
        assert [ip_address(local).version for local, _ in pairs] == [4] * 8 + [6] * 2
        states = lab.node("gw-a").run(["ip", "-o", "xfrm", "state"]).stdout
        assert all(f"src {local} dst {remote}" in states for local, remote in pairs)
        arrivals = send_into_each_tunnel(lab, count=2)
        assert {index: [other for other, count in found.items() if count] for index, found in arrivals.items()} == {
            str(index): [str(index)] for index in range(PAIRS)
        }
        mtus = {
            entry["ifalias"]: entry["mtu"]
            for entry in lab.node("gw-a").json(["ip", "-j", "-d", "link"])
            if "ifalias" in entry
        }
        assert mtus["ikeorch:gw-b/7"] == inner_mtu(1500, ipv6_underlay=False)
        assert mtus["ikeorch:gw-b/8"] == inner_mtu(1500, ipv6_underlay=True)
        assert len(xfrm_interfaces(lab.node("gw-b"))) == PAIRS
        assert "warning" not in ikeorch(lab.node("gw-a"), "config", "check").stderr
        more = ikeorch(lab.node("gw-a"), "tunnel", "add", "gw-b", "--count", "11", "--no-wait")
        assert "11 tunnels share 10 address pairs (0 and 10 on isp1 192.0.2.1 > 198.51.100.1)" in more.stderr
