"""What FRR and iproute2 print about routes, read as values."""

from __future__ import annotations

import pytest

from lab.scenarios.fabric import FibHop, FibRoute, LeafPath, read_fib_route, read_link_bandwidth, read_paths


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("LB:65010:100000000 (800.000 Mbps)", 1e8),
        ("LB:65010:1 (8 bps)", 1.0),
        ("LB:65010:0 (0 bps)", 0.0),
        ("LB:65010:4294967040 (34.000 Gbps)", 4294967040.0),
        ("RT:65010:7 LB:23456:125 (1.000 Kbps) SoO:1:2", 125.0),
        ("RT:65010:7", None),
        ("", None),
    ],
)
def test_link_bandwidth_is_read_from_frrs_text(text: str, rate: float | None) -> None:
    """The whole number after the AS, in bytes/s; FRR's own rounding into bit/s in brackets is passed over."""
    assert read_link_bandwidth(text) == rate


def test_paths_are_read_with_their_flags() -> None:
    """FRR leaves out what does not hold: only true flags are in its JSON."""
    common = {"valid": True, "peer": {"peerId": "10.0.0.1"}}
    table = {
        "prefix": "10.2.0.0/16",
        "paths": [
            common | {"multipath": True, "nexthops": [{"ip": "10.0.0.2"}]},
            common
            | {
                "bestpath": {"overall": True},
                "stale": True,
                "multipath": True,
                "nexthops": [{"ip": "fd00::1"}, {"ip": "fe80::1"}],
                "extendedCommunity": {"string": "LB:65010:125 (1.000 Kbps)"},
            },
        ],
    }
    assert read_paths(table) == (
        LeafPath(
            peer="10.0.0.1",
            next_hops=("10.0.0.2",),
            best=False,
            multipath=True,
            valid=True,
            stale=False,
            communities="",
            link_bandwidth=None,
        ),
        LeafPath(
            peer="10.0.0.1",
            next_hops=("fd00::1", "fe80::1"),
            best=True,
            multipath=True,
            valid=True,
            stale=True,
            communities="LB:65010:125 (1.000 Kbps)",
            link_bandwidth=125.0,
        ),
    )
    assert read_paths({}) == ()


def test_kernel_routes_are_read_with_one_next_hop_several_and_none() -> None:
    """A single next hop stands in the route itself, several in a list with weights; a black hole has none."""
    one = {"dst": "10.2.0.0/16", "gateway": "10.0.0.1", "dev": "eth1", "protocol": "bgp", "metric": 20, "flags": []}
    several = {
        "dst": "10.2.0.0/16",
        "nhid": 19,
        "protocol": "bgp",
        "metric": 20,
        "nexthops": [
            {"gateway": "10.0.0.1", "dev": "eth1", "weight": 75, "flags": []},
            {"gateway": "10.0.0.2", "dev": "eth1", "weight": 25, "flags": []},
        ],
    }
    hop = FibHop(gateway="10.0.0.1", interface="eth1", weight=1)
    assert read_fib_route(one) == FibRoute(protocol="bgp", metric=20, hops=(hop,))
    assert [(hop.gateway, hop.weight) for hop in read_fib_route(several).hops] == [("10.0.0.1", 75), ("10.0.0.2", 25)]
    bare = {"type": "blackhole", "dst": "10.2.0.0/16", "flags": []}
    assert read_fib_route(bare) == FibRoute(protocol="boot", metric=0, hops=())
