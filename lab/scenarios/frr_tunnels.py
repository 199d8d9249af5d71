"""FRR instead of ikeorch over the same tunnels: a session of BGP with BFD in each, and the kernel's multipath.

It is what a network operator would build; charon's SAs and ikeorch's interfaces stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.daemons import FRR_FILE
from lab.node import Node
from lab.runner import Lab
from lab.scenarios.fabric import fib_route, vtysh_json
from lab.scenarios.observe import xfrm_interfaces
from lab.waiting import wait_until

BFD_PORTS = "{ 3784, 3785 }"
"""RFC 5881, section 4: control and echo packets."""
MULTIPLIER = 3
OURS = "73"
"""Protocol number of everything that ikeorch owns in the kernel."""
SETTLED = 60
"""Seconds for all sessions; they take three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A gateway as a BGP speaker.

    Attributes:
        asn: its AS.
        router_id: its router id.
        prefix: what it announces.
    """

    asn: int
    router_id: str
    prefix: str


SPEAKERS: Mapping[str, Speaker] = {
    "gw-a": Speaker(asn=65010, router_id="10.0.255.1", prefix="10.1.0.0/16"),
    "gw-b": Speaker(asn=65020, router_id="10.0.255.2", prefix="10.2.0.0/16"),
}
PEER = {"gw-a": "gw-b", "gw-b": "gw-a"}


def render_frr(speaker: Speaker, peer: Speaker, neighbors: Sequence[str], interval: int) -> str:
    """A gateway's frr.conf.

    Args:
        speaker: the gateway.
        peer: the other one.
        neighbors: its inner addresses, one a tunnel.
        interval: milliseconds between two BFD packets, each way.
    """
    lines = [
        "frr defaults traditional",
        "log stdout informational",
        f"router bgp {speaker.asn}",
        f" bgp router-id {speaker.router_id}",
        " no bgp ebgp-requires-policy",
        " bgp bestpath as-path multipath-relax",
    ]
    for address in neighbors:
        lines += [
            f" neighbor {address} remote-as {peer.asn}",
            f" neighbor {address} timers connect 1",
            f" neighbor {address} bfd {MULTIPLIER} {interval} {interval}",
        ]
    lines += [
        " address-family ipv4 unicast",
        f"  network {speaker.prefix}",
        f"  maximum-paths {len(neighbors)}",
        " exit-address-family",
        "exit",
    ]
    return "\n".join(lines) + "\n"


def neighbors_of(lab: Lab, name: str) -> tuple[str, ...]:
    """The peer's inner IPv4 addresses, by tunnel."""
    tunnels = xfrm_interfaces(lab.node(PEER[name]))
    return tuple(interface.inner for _, interface in sorted(tunnels.items()))


def replace_ikeorch(lab: Lab, interval: int) -> None:
    """Stop ikeorchd and the prober on both gateways, take their routes away and have FRR make its own."""
    for name in SPEAKERS:
        node = lab.node(name)
        for daemon in ("ikeorchd", "prober"):
            node.stop_daemon(daemon)
        remove_routes(node, SPEAKERS[PEER[name]].prefix)
        node.run(["nft", "insert", "rule", "inet", "ikeorch", "from_tunnel", "udp", "dport", BFD_PORTS, "accept"])
        _configure(lab, name, interval)
        for daemon in ("zebra", "bfdd", "bgpd"):
            node.start_daemon(daemon, ready=30)
    wait_settled(lab, interval)


def remove_routes(node: Node, prefix: str) -> None:
    """Take ikeorch's routes of a prefix away, the floor too: zebra prefers a kernel's route to one of BGP."""
    for route in node.json(["ip", "-j", "route", "show", prefix, "protocol", OURS]):
        node.run(["ip", "route", "del", prefix, "metric", str(route["metric"]), "protocol", OURS])


def set_interval(lab: Lab, interval: int) -> None:
    """Run both gateways' sessions at another interval: both daemons anew, a running session keeps its first timers."""
    for name in SPEAKERS:
        for daemon in ("bgpd", "bfdd"):
            lab.node(name).stop_daemon(daemon)
    for name in SPEAKERS:
        _configure(lab, name, interval)
        for daemon in ("bfdd", "bgpd"):
            lab.node(name).start_daemon(daemon, ready=30)
    wait_settled(lab, interval)


def _configure(lab: Lab, name: str, interval: int) -> None:
    speaker, peer = SPEAKERS[name], SPEAKERS[PEER[name]]
    lab.node(name).path(FRR_FILE).write_text(render_frr(speaker, peer, neighbors_of(lab, name), interval))


def wait_settled(lab: Lab, interval: int) -> None:
    """Wait until every session is up at this interval and the routes of both gateways have all tunnels."""
    wait_until(
        lambda: all(_settled(lab.node(name), SPEAKERS[PEER[name]].prefix, interval) for name in SPEAKERS),
        f"BGP and BFD at {interval} ms over all tunnels",
        SETTLED,
        interval=0.1,
    )


def _settled(node: Node, prefix: str, interval: int) -> bool:
    peers = vtysh_json(node, "show bfd peers json")
    intervals = ("transmit-interval", "receive-interval", "remote-transmit-interval", "remote-receive-interval")
    if any(peer["status"] != "up" or {peer.get(name) for name in intervals} != {interval} for peer in peers):
        return False
    route = fib_route(node, prefix)
    tunnels = len(xfrm_interfaces(node))
    return len(peers) == tunnels and route is not None and route.protocol == "bgp" and len(route.hops) == tunnels
