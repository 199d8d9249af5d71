"""Configurations at random, for laws: every field of the schema that says what a gateway does, all of them valid."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ikeorch.config.build import build_spec
from ikeorch.config.check import find_conflicts
from ikeorch.config.schema import File
from ikeorch.core.spec import GatewaySpec

Tree = dict[str, Any]
UPLINKS = {"isp1": 1, "isp2": 2, "isp3": 3}
PEERS = {"gw-b": ("dc-b", 1), "gw-c": ("dc-b", 2), "gw-d": ("dc-d", 3), "aaa": ("dc-e", 4)}
"""By name: the site, and a number for its addresses. The last is lower than our own name, so it initiates."""
SUITES = ["default", "aes128gcm16-prfsha256-ecp256", "chacha20poly1305-prfsha512-curve25519"]
PREFIXES = {
    "dc-b": ["10.2.0.0/16", "10.3.0.0/17", "10.3.128.0/17", "fd00:b::/48"],
    "dc-d": ["10.4.0.0/15", "fd00:d::/48"],
    "dc-e": ["10.6.0.0/16"],
}
RATES = ["1G", "10G", "40G", "100G", "2.5G"]


def some(values: list[Any], *, at_least: int = 0) -> st.SearchStrategy[list[Any]]:
    """Some of these, in any order, each at most once."""
    return st.lists(st.sampled_from(values), unique=True, min_size=at_least, max_size=len(values))


@st.composite
def uplinks(draw: st.DrawFn) -> list[Tree]:
    """One to three uplinks, with IPv4, IPv6 or both."""
    found = []
    for name in draw(some(list(UPLINKS), at_least=1)):
        number = UPLINKS[name]
        v4 = [f"192.0.{number}.{host}/24" for host in draw(some([1, 2, 3]))]
        v6 = [f"2001:db8:{number}::{host}/64" for host in draw(some([1, 2], at_least=0 if v4 else 1))]
        gateways = [draw(st.sampled_from([f"192.0.{number}.254", f"192.0.{number}.253"]))] if v4 else []
        gateways += [draw(st.sampled_from([f"2001:db8:{number}::fe", "fe80::1"]))] if v6 else []
        found.append(
            {
                "name": name,
                "interface": f"eth{number}" if draw(st.booleans()) else draw(st.sampled_from(["eth4", "eth5.7"])),
                "addresses": v4 + v6,
                "gateway": gateways,
                "capacity": draw(st.sampled_from(RATES)),
            }
        )
    return found


@st.composite
def peers(draw: st.DrawFn, name: str) -> Tree:
    """One peer with its bundle."""
    site, number = PEERS[name]
    theirs = [
        {
            "name": uplink,
            "addresses": [f"198.51.{number}.{10 * at + host}" for host in draw(some([1, 2], at_least=1))]
            + [f"2001:db8:{number:x}0{at}::1"],
        }
        for uplink, at in UPLINKS.items()
    ]
    inner = [draw(st.sampled_from([f"10.255.{number}.0/28", f"10.254.{number}.0/27"])), f"fd00:{number}::/123"]
    prefixes = draw(some(PREFIXES[site]))
    if not any(":" in prefix for prefix in prefixes) and draw(st.booleans()):
        inner.pop()
    count = draw(st.integers(0, 5))
    tunnels: Tree = {
        "count": count,
        "mtu": draw(st.sampled_from(["auto", 1280, 1400])),
        "capacity": draw(st.sampled_from(RATES)),
        "suite": draw(st.sampled_from(["default", "one", "two"])),
        "rekey_time": draw(st.sampled_from(["10m", "4h", "90s"])),
        "dpd_delay": draw(st.sampled_from(["0s", "30s", "2m"])),
        "replay_window": draw(st.sampled_from([64, 1024, 4096])),
        "mobike": draw(st.booleans()),
    }
    if draw(st.booleans()) and draw(st.booleans()):
        tunnels["identities"] = [{"local": f"us{i}.{name}", "remote": f"them{i}@{name}"} for i in range(count)]
    peer: Tree = {
        "name": name,
        "site": site,
        "identity": draw(st.sampled_from([f"{name}.example", f"{name}.dc.example"])),
        "asn": draw(st.sampled_from([65020, 4200000001])),
        "uplinks": draw(st.permutations(theirs)),
        "inner": inner,
        "initiate": draw(st.sampled_from(["auto", "auto", "us", "peer"])),
        "prefixes": prefixes,
        "tunnels": tunnels,
    }
    if draw(st.booleans()):
        peer["accept"] = draw(some([*PREFIXES[site], "172.16.0.0/12"]))
    return peer


@st.composite
def fabrics(draw: st.DrawFn) -> Tree:
    """The leafs, or none."""
    leafs = draw(some(["10.0.0.254", "10.0.0.253", "fd00:a:ffff::fe"]))
    fabric: Tree = {
        "neighbors": [
            {"address": leaf, "asn": draw(st.sampled_from([65001, 65002])), "transitive": draw(st.booleans())}
            for leaf in leafs
        ],
        "gateways_in_site": draw(st.sampled_from([1, 2])),
        "bandwidth_scale": draw(st.sampled_from(["1/64", "1/128"])),
    }
    if draw(st.booleans()):
        fabric["when_unreachable"] = draw(st.sampled_from(["keep", "withdraw"]))
    return fabric


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A whole file as plain values."""
    return {
        "schema_version": 1,
        "gateway": {
            "name": "gw-a",
            "site": "dc-a",
            "identity": draw(st.sampled_from(["gw-a.dc.example", "gw-a.example"])),
            "asn": draw(st.sampled_from([65010, 4200000010])),
            "router_id": draw(st.sampled_from(["10.0.255.1", "10.0.255.7"])),
            "uplinks": draw(uplinks()),
            "prefixes": draw(some(["10.0.0.0/17", "10.1.0.0/16", "fd00:a::/48"])),
            "credentials": {"certificate": "/c.pem", "key": "/k.pem", "ca": "/ca.pem"},
        },
        "suites": {"one": SUITES[1], "two": SUITES[2]},
        "peers": [draw(peers(name)) for name in draw(some(list(PEERS)))],
        "fabric": draw(fabrics()),
    }


def build(tree: Tree) -> GatewaySpec | None:
    """What the tree means; None where its parts do not fit together."""
    spec = build_spec(File.model_validate(tree))
    return None if next(find_conflicts(spec), None) else spec


def configurations() -> st.SearchStrategy[GatewaySpec]:
    """Valid configurations."""
    return trees().map(build).filter(lambda spec: spec is not None).map(_known)


def _known(spec: GatewaySpec | None) -> GatewaySpec:
    assert spec is not None
    return spec
