"""Look at a site's fabric: FRR on the leafs, its BGP table, and the kernel's routes beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.node import Node
from lab.runner import Lab

_LINK_BANDWIDTH = re.compile(r"\bLB:(?P<asn>\d+):(?P<rate>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPath:
    """One path of a prefix in a leaf's BGP table.

    Attributes:
        peer: The neighbour that it was learned from; "(unspec)" for the leaf's own.
        next_hops: Its next hops; for IPv6 a link-local one may stand beside the global one.
        best: Whether it is the best path.
        multipath: Whether traffic is spread over it and the best path.
        valid: Whether its next hop can be reached.
        stale: Whether its session is gone and graceful restart alone keeps it.
        communities: Its extended communities as FRR prints them, such as "LB:65010:100000000 (800.000 Mbps)".
        link_bandwidth: Bytes/s of its link bandwidth, whole as FRR prints it; None without one.
    """

    peer: str
    next_hops: tuple[str, ...]
    best: bool
    multipath: bool
    valid: bool
    stale: bool
    communities: str
    link_bandwidth: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FibHop:
    """One next hop of a kernel's route."""

    gateway: str | None
    interface: str
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FibRoute:
    """A kernel's route.

    Attributes:
        protocol: Who made it: "bgp" for FRR's bgpd, "boot" for the topology.
        metric: Its metric; IPv4 has none for 0.
        hops: Its next hops with their weights.
    """

    protocol: str
    metric: int
    hops: tuple[FibHop, ...]


def start_fabric(lab: Lab) -> None:
    """Start FRR on every leaf of a topology, until it answers.

    One after the other: bgpd looks for zebra again only after 10 s when it finds none.
    """
    for spec in lab.topology.nodes:
        for daemon in spec.daemons if spec.role == "router" else ():
            lab.node(spec.name).start_daemon(daemon)


def vtysh(node: Node, *commands: str) -> str:
    """Run commands in a node's vtysh, one after the other.

    Args:
        node: Where FRR runs.
        commands: Such as "show bgp summary", or "configure terminal" and what follows it.

    Returns:
        What they print.

    Raises:
        CommandFailedError: A command is unknown, or no daemon of FRR answers.
    """
    arguments = [part for command in commands for part in ("-c", command)]
    return node.run(["vtysh", *arguments]).stdout


def vtysh_json(node: Node, command: str) -> Any:  # noqa: ANN401 - whatever the command prints
    """Run one command that ends in "json" in a node's vtysh, and read what it prints; see vtysh."""
    return json.loads(vtysh(node, command))


def leaf_route(node: Node, prefix: str) -> tuple[LeafPath, ...]:
    """Return all paths of a prefix in a leaf's BGP table, none when it does not know the prefix.

    Args:
        node: The leaf.
        prefix: Such as "10.2.0.0/16"; another length does not match.

    Returns:
        The paths, in FRR's order.
    """
    table = vtysh_json(node, f"show bgp {_family(prefix)} unicast {prefix} json")
    return read_paths(table) if table.get("prefix") == prefix else ()


def read_paths(table: Any) -> tuple[LeafPath, ...]:  # noqa: ANN401 - FRR's JSON
    """Read the paths out of what "show bgp … PREFIX json" prints."""
    return tuple(
        LeafPath(
            peer=path["peer"]["peerId"],
            next_hops=tuple(hop["ip"] for hop in path.get("nexthops", ())),
            best=bool(path.get("bestpath", {}).get("overall")),
            multipath=bool(path.get("multipath")),
            valid=bool(path.get("valid")),
            stale=bool(path.get("stale")),
            communities=path.get("extendedCommunity", {}).get("string", ""),
            link_bandwidth=read_link_bandwidth(path.get("extendedCommunity", {}).get("string", "")),
        )
        for path in table.get("paths", ())
    )


def read_link_bandwidth(communities: str) -> float | None:
    """Read the link bandwidth out of FRR's text of the extended communities.

    Args:
        communities: Such as "RT:1:2 LB:65010:100000000 (800.000 Mbps)".

    Returns:
        Bytes/s: the number after the AS, which FRR rounds to a whole one. None where there is none.
    """
    found = _LINK_BANDWIDTH.search(communities)
    return float(found["rate"]) if found else None


def neighbor(node: Node, address: str) -> Any:  # noqa: ANN401 - FRR's JSON
    """What "show bgp neighbors ADDRESS json" says of a neighbour."""
    return vtysh_json(node, f"show bgp neighbors {address} json")[address]


def session_state(node: Node, address: str) -> str:
    """The state of a leaf's session to a neighbour, such as "Established"."""
    return str(neighbor(node, address)["bgpState"])


def updates_received(node: Node, address: str) -> int:
    """Count the UPDATE messages of a neighbour, End-of-RIB and withdrawals among them, over all its sessions."""
    return int(neighbor(node, address)["messageStats"]["updatesRecv"])


def told_bandwidths(node: Node, prefixes: Sequence[str]) -> list[float | None]:
    """The link bandwidth in bytes/s that a leaf's best path to each prefix carries, None without a path or without one.

    One vtysh answers for all: it takes a third of a second where the guest is busy.
    """
    text = vtysh(node, *(f"show bgp {_family(prefix)} unicast {prefix} json" for prefix in prefixes))
    decoder = json.JSONDecoder()
    found: list[float | None] = []
    for prefix in prefixes:
        table, end = decoder.raw_decode(text := text.lstrip())
        text = text[end:]
        paths = read_paths(table) if table.get("prefix") == prefix else ()
        found.append(next((path.link_bandwidth for path in paths if path.best), None))
    return found


def fib_route(node: Node, prefix: str) -> FibRoute | None:
    """Return the route that a node's kernel prefers for exactly this prefix, None without one."""
    option = "-6" if ":" in prefix else "-4"
    routes = [read_fib_route(entry) for entry in node.json(["ip", "-j", option, "route", "show", "exact", prefix])]
    return min(routes, key=lambda route: route.metric, default=None)


def read_fib_route(entry: Any) -> FibRoute:  # noqa: ANN401 - ip's JSON
    """Read one route out of what ``ip -j route`` prints."""
    hops: Sequence[Any] = entry.get("nexthops") or ([entry] if "dev" in entry else [])
    return FibRoute(
        protocol=entry.get("protocol", "boot"),
        metric=entry.get("metric", 0),
        hops=tuple(
            FibHop(gateway=hop.get("gateway"), interface=hop["dev"], weight=hop.get("weight", 1)) for hop in hops
        ),
    )


def _family(prefix: str) -> str:
    return "ipv6" if ":" in prefix else "ipv4"
