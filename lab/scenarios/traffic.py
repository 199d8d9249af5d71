"""Loads between hosts, and what became of them."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.node import Node, NodeProcess
from lab.runner import Lab
from lab.scenarios.observe import count_flows, counted_flows, stop_counting, xfrm_interfaces
from lab.scenarios.sites import Direction
from lab.tools.stream import MAGIC

SILENCE = 60
"""Seconds that a stream may be interrupted before its receiver gives up."""
REPO = str(Path(__file__).resolve().parent.parent.parent)


def start_tool(node: Node, module: str, *arguments: str) -> NodeProcess:
    """Start one of lab.tools in a node and wait until it says that it is ready."""
    process = node.popen([sys.executable, "-m", f"lab.tools.{module}", *arguments], cwd=REPO)
    assert process.stdout is not None
    line = process.stdout.readline()
    if line.strip() != "ready":
        process.close()
        raise AssertionError(f"{module} in {node.name} did not start: {line!r}")
    return process


def result_of(process: NodeProcess, timeout: float = 60.0) -> Any:  # noqa: ANN401 - the tool's JSON
    """The line of JSON that a tool prints at its end."""
    assert process.stdout is not None
    code = process.wait(timeout)
    text = process.stdout.read()
    if code != 0:
        raise AssertionError(f"a tool exited with {code}: {text}")
    return json.loads(text.splitlines()[-1])


@dataclass(frozen=True, slots=True)
class Stream:
    """A running stream in one direction."""

    direction: Direction
    receiver: NodeProcess
    sender: NodeProcess

    def stop(self) -> None:
        """Send no more; what was sent until now counts."""
        self.sender.send_signal(15)

    def result(self, timeout: float = 180.0) -> Any:  # noqa: ANN401 - the receiver's JSON
        """Wait for the end; the receiver's counts."""
        self.sender.wait(timeout)
        return result_of(self.receiver, timeout)


@contextlib.contextmanager
def streams(
    lab: Lab,
    directions: tuple[Direction, ...],
    *,
    rate: float,
    count: int,
    flows: int = 64,
    port: int = 5002,
    source_port: int = 0,
) -> Iterator[tuple[Stream, ...]]:
    """UDP streams with sequence numbers in several directions at once.

    Args:
        lab: the running lab.
        directions: from where to where.
        rate: packets a second in each direction.
        count: packets in each direction.
        flows: source ports, so that all tunnels are used.
        port: the receivers'.
        source_port: the first flow's, any when 0.
    """
    with contextlib.ExitStack() as stack:
        ends = ["--port", str(port)]
        receivers = [
            stack.enter_context(
                start_tool(lab.node(way.target), "stream", "receive", way.address, "--silence", str(SILENCE), *ends)
            )
            for way in directions
        ]
        started = []
        for way, receiver in zip(directions, receivers, strict=True):
            arguments = [sys.executable, "-m", "lab.tools.stream", "send", way.address]
            arguments += ["--rate", str(rate), "--count", str(count), "--flows", str(flows), *ends]
            arguments += ["--source-port", str(source_port)]
            sender = stack.enter_context(lab.node(way.source).popen(arguments, cwd=REPO))
            started.append(Stream(way, receiver, sender))
        yield tuple(started)


@dataclass(frozen=True, slots=True)
class FlowShares:
    """How flows spread over the tunnels of a bundle.

    Attributes:
        answered: flows whose exchange succeeded.
        forward: flows by tunnel of the opening gateway, on the way there.
        backward: the same flows by tunnel, on the way back, as they came in.
    """

    answered: int
    forward: dict[str, int]
    backward: dict[str, int]


def spread_flows(lab: Lab, direction: Direction, gateway: Node, count: int = 256) -> FlowShares:
    """Open TCP flows and count on the opening side's gateway by which tunnel each leaves and comes back."""
    interfaces = {interface.name: tunnel for tunnel, interface in xfrm_interfaces(gateway).items()}
    count_flows(gateway, list(interfaces))
    try:
        with start_tool(lab.node(direction.target), "flows", "serve", direction.address):
            tool = lab.node(direction.source).python(
                "lab.tools.flows", "open", direction.address, "--count", str(count), timeout=60
            )
        counted = counted_flows(gateway)
    finally:
        stop_counting(gateway)
    return FlowShares(
        answered=json.loads(tool.stdout)["answered"],
        forward={tunnel: counted[f"out_{name}"] for name, tunnel in sorted(interfaces.items())},
        backward={tunnel: counted[f"in_{name}"] for name, tunnel in sorted(interfaces.items())},
    )


@contextlib.contextmanager
def captures(lab: Lab, ends: tuple[str, ...]) -> Iterator[dict[str, NodeProcess]]:
    """Capture at several link ends, such as ``isp1:eth1``; `finish` ends one and gives its counts."""
    with contextlib.ExitStack() as stack:
        started = {}
        for end in ends:
            node, interface = lab.link(end)
            started[end] = stack.enter_context(start_tool(node, "capture", interface, "--magic", MAGIC.decode()))
        yield started


def finish(capture: NodeProcess) -> Any:  # noqa: ANN401 - the tool's JSON
    """End a capture and read its counts."""
    capture.send_signal(15)
    return result_of(capture, 20)
