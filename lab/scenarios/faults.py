"""Kill parts of a gateway and darken providers, and look at what hosts and leafs notice of it."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.fabric import told_bandwidths, updates_received
from lab.scenarios.flow_choice import Flow, check_flows, choose_flows
from lab.scenarios.observe import xfrm_interfaces
from lab.scenarios.sites import FORWARD, REMOTE_PREFIXES, status
from lab.scenarios.traffic import streams
from lab.waiting import wait_until

CAPACITY = 4 * 50e9 / 8 / 8
"""Bytes/s on the wire of four tunnels of 50 Gbit/s at a scale of 1/8."""
LEAF_NEIGHBORS = {"leaf-a": ("10.0.0.1", "fd00:a:ffff::1"), "leaf-b": ("10.0.16.1", "fd00:b:ffff::1")}
HOST_A = "10.1.1.10"
RATE = 1000
"""Packets a second of one flow, so that a lost packet is a millisecond."""


def float32(value: float) -> float:
    """As the community carries it."""
    return float(struct.unpack("!f", struct.pack("!f", value))[0])


def bandwidths(lab: Lab) -> list[float | None]:
    """What each leaf is told of each remote prefix, in bytes/s."""
    return [told for leaf, prefixes in REMOTE_PREFIXES.items() for told in told_bandwidths(lab.node(leaf), prefixes)]


def wait_told(lab: Lab, value: float, timeout: float) -> None:
    """Wait until both leafs are told a bandwidth for all prefixes."""
    wanted = float32(value)
    wait_until(lambda: bandwidths(lab) == [wanted] * 4, f"the leafs hear {wanted:.0f} bytes/s", timeout, interval=0.05)


def updates(lab: Lab) -> list[int]:
    """UPDATE messages that each leaf has got in each session."""
    return [
        updates_received(lab.node(leaf), address) for leaf, addresses in LEAF_NEIGHBORS.items() for address in addresses
    ]


def weights(node: Node) -> dict[str, int]:
    """Each tunnel's weight as status tells it."""
    return {tunnel["tunnel"]: tunnel["weight"] for tunnel in status(node)["tunnels"]}


def conditions(node: Node) -> dict[str, Any]:
    """Conditions by code."""
    return {condition["code"]: condition for condition in status(node)["conditions"]}


@dataclass(frozen=True, slots=True)
class Pair:
    """What became of a flow over isp1 and one over isp2, as their receivers counted."""

    isp1: Any
    isp2: Any


@contextlib.contextmanager
def two_flows(lab: Lab, seconds: float) -> Iterator[Callable[[], Pair]]:
    """A stream over isp1 and one over isp2, from A to B; the body's argument waits for their ends.

    Each is chosen by what the gateway's kernel says of its way (``ip route get``), asked again while it runs.
    """
    gateway = lab.node("gw-a")
    found = xfrm_interfaces(gateway)
    flows = choose_flows(gateway, [found["gw-b/0"].name, found["gw-b/1"].name], FORWARD, source=HOST_A)
    with contextlib.ExitStack() as stack:
        first, second = (_start(lab, stack, flow, int(seconds * RATE)) for flow in flows)
        check_flows(gateway, flows, FORWARD, source=HOST_A)
        yield lambda: Pair(first.result(), second.result())


def _start(lab: Lab, stack: contextlib.ExitStack, flow: Flow, count: int) -> Any:  # noqa: ANN401 - a Stream
    (started,) = stack.enter_context(
        streams(lab, (FORWARD,), rate=RATE, count=count, flows=1, source_port=flow.source_port, port=flow.port)
    )
    return started


def kill_part(node: Node, part: str, timeout: float = 20.0) -> str:
    """Kill -9 of a daemon, or of ExaBGP's shim; returns when another one runs.

    Returns:
        The command, as a person would have typed it.
    """
    if part == "shim":
        killed = _shim_pids(node)
        assert killed, "no shim runs"
        command = ["kill", "-9", *(str(pid) for pid in sorted(killed))]
        node.run(command)
        wait_until(lambda: _shim_pids(node) and not killed & _shim_pids(node), "another shim runs", timeout)
        return " ".join(command)
    pid = node.kill(part)
    wait_until(lambda: node.daemons[part].pid not in {None, pid}, f"{part} runs again", timeout)
    node.wait_ready(part, timeout)
    return f"kill -9 {pid}"


def _shim_pids(node: Node) -> set[int]:
    """The shim's two processes."""
    found = node.run(["pgrep", "-f", "bgp/shim.py"], check=False).stdout
    return {int(line) for line in found.split()}
