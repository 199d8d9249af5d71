"""Builds a topology on the current kernel: one set of namespaces a node, veth pairs between them.

Needs a kernel and rights that allow this; `ikeorch lab run` gives them to any command. The order is that of a real
gateway's boot: settings, then the guard, then links, then addresses, then (when the caller says so) daemons.
"""

from __future__ import annotations

import json
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from lab.control import LabError
from lab.daemons import GUARD_FILE, LOAD_GUARD
from lab.namespaces import die_with_parent
from lab.node import Node
from lab.setup_plan import NodeSetup, to_json
from lab.state import claim_folder
from lab.sysctls import own_sysctls
from lab.topology import Endpoint, NodeSpec, Topology, load_topology

REPO = Path(__file__).resolve().parent.parent
START_SECONDS = 60.0

TWO_DC = REPO / "lab" / "two-dc.clab.yml"
THREE_DC = REPO / "lab" / "three-dc.clab.yml"
ONE_PAIR = REPO / "lab" / "one-pair.clab.yml"


def node_sysctls(spec: NodeSpec) -> tuple[tuple[str, str], ...]:
    """Return a node's kernel settings: the lab's own, then the topology's."""
    return (*own_sysctls(spec.name), *spec.sysctls)


class Lab:
    """A running topology. A context manager; nothing remains of it at its end, or when its process is killed."""

    def __init__(self, topology: Topology) -> None:
        """Build it.

        Args:
            topology: What to build.

        Raises:
            LabError: Something cannot be built.
        """
        self.topology = topology
        self.folder, self._lock = claim_folder("lab")
        self.nodes: dict[str, Node] = {}
        self._starter: subprocess.Popen[str] | None = None
        try:
            self._start_nodes()
            self._make_links()
            for node in self._gateways():
                if node.path(GUARD_FILE).is_file():
                    node.run(LOAD_GUARD)
            for spec in topology.nodes:
                self._configure(spec)
        except BaseException:
            self.stop()
            raise

    @classmethod
    def start(cls, path: Path) -> Self:
        """Build the topology of a file; see the constructor."""
        return cls(load_topology(path))

    def _gateways(self) -> Iterable[Node]:
        return (self.nodes[spec.name] for spec in self.topology.nodes if spec.role == "gateway")

    def _start_nodes(self) -> None:
        setups = []
        for spec in self.topology.nodes:
            logs = self.folder / spec.name / "log"
            logs.mkdir(parents=True)
            setups.append(
                NodeSetup(
                    name=spec.name,
                    socket=str(self.folder / f"{spec.name}.sock"),
                    logs=str(logs),
                    copies=tuple((str(bind.source), bind.target) for bind in spec.binds),
                    sysctls=node_sysctls(spec),
                )
            )
        self._starter = subprocess.Popen(
            [sys.executable, "-m", "lab.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPO,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - the lab is started before any thread
        )
        pids = self._exchange(self._starter, to_json(tuple(setups)))
        for setup in setups:
            self.nodes[setup.name] = Node(setup.name, pids[setup.name], Path(setup.socket), Path(setup.logs))

    @staticmethod
    def _exchange(starter: subprocess.Popen[str], line: str) -> dict[str, int]:
        assert starter.stdin is not None
        assert starter.stdout is not None
        starter.stdin.write(f"{line}\n")
        starter.stdin.flush()
        if not select.select([starter.stdout], [], [], START_SECONDS)[0]:
            raise LabError(f"the lab's nodes did not start within {START_SECONDS:g} s")
        answer = json.loads(starter.stdout.readline() or '{"error": "the process that starts the nodes died"}')
        if "error" in answer:
            raise LabError(f"{answer['error']}: root and a kernel with namespaces are needed; try `ikeorch lab run`")
        pids: dict[str, int] = answer["pids"]
        return pids

    def _make_links(self) -> None:
        lines = []
        for one, other in self.topology.links:
            ends = [f"name {end.interface} netns {self.nodes[end.node].pid}" for end in (one, other)]
            lines.append(f"link add {ends[0]} type veth peer {ends[1]}\n")
        done = subprocess.run(
            ["ip", "-batch", "-"], input="".join(lines), capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode != 0:
            raise LabError(f"the links of {self.topology.name} cannot be made: {done.stderr.strip()}")

    def _configure(self, spec: NodeSpec) -> None:
        node = self.nodes[spec.name]
        up = [("ip", "link", "set", name, "up") for name in self.topology.interfaces(spec.name)]
        for program, commands in groupby((*up, *spec.exec), key=lambda command: command[0]):
            batch = "".join(f"{shlex.join(command[1:])}\n" for command in commands)
            node.run([program, "-batch", "-"], input=batch, timeout=30)

    def node(self, name: str) -> Node:
        """Return a node.

        Raises:
            LabError: There is none of that name.
        """
        return self.nodes[self.topology.node(name).name]

    def link(self, end: str) -> tuple[Node, str]:
        """Return the node and interface of a link's end.

        Args:
            end: Such as "gw-a:eth1".

        Returns:
            The node, and the interface's name in it.

        Raises:
            LabError: The topology has no such end.
        """
        return self._resolve(end)[0]

    def far_end(self, end: str) -> tuple[Node, str]:
        """Return the node and interface at the other end of the link of `end`; see link."""
        return self._resolve(end)[1]

    def _resolve(self, end: str) -> tuple[tuple[Node, str], tuple[Node, str]]:
        def found(endpoint: Endpoint) -> tuple[Node, str]:
            return self.nodes[endpoint.node], endpoint.interface

        for one, other in self.topology.links:
            if str(one) == end:
                return found(one), found(other)
            if str(other) == end:
                return found(other), found(one)
        raise LabError(f"{self.topology.name} has no link at {end!r}")

    def save_logs(self, target: Path) -> None:
        """Copy the nodes' logs to a folder, one folder a node.

        Args:
            target: The folder, made when it is missing.
        """
        for node in self.nodes.values():
            shutil.copytree(node.logs, target / node.name, dirs_exist_ok=True)

    def stop(self) -> None:
        """End all nodes with everything in them, and remove the lab's folder."""
        starter, self._starter = self._starter, None
        if starter is not None:
            for stream in (starter.stdin, starter.stdout):
                if stream is not None:
                    _close_quietly(stream)
            try:
                starter.wait(timeout=20)
            except subprocess.TimeoutExpired:
                starter.kill()
                starter.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _close_quietly(stream: IO[str]) -> None:
    try:
        stream.close()
    except OSError:
        return
