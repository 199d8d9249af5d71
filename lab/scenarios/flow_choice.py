"""Choose UDP flows by the tunnel that the gateway's kernel will send them into."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.control import LabError
from lab.node import Node
from lab.scenarios.sites import Direction

FIRST_SOURCE_PORT = 20000
FIRST_PORT = 5010
CANDIDATES = 256
"""Source ports that are asked for, for each flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One UDP flow from host to host.

    Attributes:
        interface: the tunnel's interface on the sending side's gateway.
        source_port: of the sender.
        port: of the receiver.
    """

    interface: str
    source_port: int
    port: int


def render_queries(flows: Sequence[tuple[int, int]], *, source: str, target: str, lan: str) -> str:
    """What ``ip -json -batch`` is asked for these pairs of source port and port, of packets that come from `lan`."""
    return "".join(
        f"route get {target} from {source} iif {lan} ipproto udp sport {source_port} dport {port}\n"
        for source_port, port in flows
    )


def read_interfaces(text: str) -> list[str]:
    """The interfaces by which the asked packets leave: ip prints one list of JSON a question, "" for no interface."""
    answers: list[Any] = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [str(answer[0].get("dev", "")) for answer in answers]


def pick(port: int, interface: str, candidates: Sequence[tuple[int, str]]) -> Flow:
    """The first candidate that leaves by an interface.

    Args:
        port: the receiver's.
        interface: the wanted one.
        candidates: source port and interface.

    Raises:
        LabError: none does.
    """
    for source_port, leaves in candidates:
        if leaves == interface:
            return Flow(interface=interface, source_port=source_port, port=port)
    raise LabError(f"none of {len(candidates)} flows to port {port} leaves by {interface}: does its group have it?")


def leaving_by(
    gateway: Node, flows: Sequence[tuple[int, int]], way: Direction, *, source: str, lan: str = "eth3"
) -> list[str]:
    """By which interfaces a gateway sends these pairs of source port and port."""
    questions = render_queries(flows, source=source, target=way.address, lan=lan)
    answer = gateway.run(["ip", "-json", "-batch", "-"], input=questions, timeout=30)
    return read_interfaces(answer.stdout)


def choose_flows(gateway: Node, interfaces: Sequence[str], way: Direction, *, source: str) -> tuple[Flow, ...]:
    """One flow for each of these interfaces, each with a source port and a port of its own.

    Args:
        gateway: of the sending side.
        interfaces: the tunnels' interfaces there.
        way: from where to where.
        source: the sending host's address.

    Raises:
        LabError: an interface is never chosen.
    """
    chosen = []
    for number, interface in enumerate(interfaces):
        port = FIRST_PORT + number
        source_ports = range(FIRST_SOURCE_PORT + number * CANDIDATES, FIRST_SOURCE_PORT + (number + 1) * CANDIDATES)
        leaves = leaving_by(gateway, [(source_port, port) for source_port in source_ports], way, source=source)
        chosen.append(pick(port, interface, list(zip(source_ports, leaves, strict=True))))
    return tuple(chosen)


def check_flows(gateway: Node, flows: Sequence[Flow], way: Direction, *, source: str) -> None:
    """Make sure that chosen flows still run over their tunnels.

    Raises:
        LabError: one has moved.
    """
    now = leaving_by(gateway, [(flow.source_port, flow.port) for flow in flows], way, source=source)
    if now != [flow.interface for flow in flows]:
        raise LabError(f"flows moved before anything was lost: {[flow.interface for flow in flows]} -> {now}")
