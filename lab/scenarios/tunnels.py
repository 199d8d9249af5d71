"""Packets sent into one tunnel: out of which does each come?"""

from __future__ import annotations

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.observe import counters, xfrm_interfaces

TABLE = "lab_arrivals"
SIZE = 777
"""Bytes of ICMP payload that nothing else in the lab sends."""


def send_into_each_tunnel(lab: Lab, *, count: int = 5) -> dict[str, dict[str, int]]:
    """Ping from A into each tunnel, and count on B by which tunnel the requests come out.

    Returns:
        For each tunnel index of A: how many requests came out of each tunnel index of B.
    """
    a, b = lab.node("gw-a"), lab.node("gw-b")
    there = {tunnel.partition("/")[2]: interface for tunnel, interface in xfrm_interfaces(a).items()}
    here = {tunnel.partition("/")[2]: interface for tunnel, interface in xfrm_interfaces(b).items()}
    arrivals = {}
    for index, interface in sorted(there.items()):
        _count_arrivals(b, [entry.name for entry in here.values()])
        try:
            target = here[index].inner
            a.run(
                [
                    "ping",
                    "-q",
                    "-c",
                    str(count),
                    "-i",
                    "0.05",
                    "-W",
                    "2",
                    "-s",
                    str(SIZE),
                    "-I",
                    interface.name,
                    target,
                ],
                check=False,
                timeout=20,
            )
            counted = counters(b, TABLE)
        finally:
            b.run(["nft", "delete", "table", "inet", TABLE])
        arrivals[index] = {other: counted[entry.name] for other, entry in sorted(here.items())}
    return arrivals


def _count_arrivals(node: Node, interfaces: list[str]) -> None:
    counters = [f"counter {name} {{ }}" for name in interfaces]
    length = SIZE + 28
    rules = [f'iifname "{name}" icmp type echo-request ip length {length} counter name {name}' for name in interfaces]
    head = (f"table inet {TABLE} {{", *counters, "chain input {", "type filter hook input priority -10;")
    node.run(["nft", "-f", "-"], input="\n".join((*head, *rules, "}", "}")))
