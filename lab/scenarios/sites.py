"""Bring the two gateways of a topology to life: certificates, daemons, tunnels."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.fabric import fib_route, start_fabric
from lab.waiting import wait_until

IKEORCH = str(Path(sys.executable).parent / "ikeorch")
CA_FOLDER = "/var/lib/ikeorch-ca"
PKI_FOLDER = "/etc/ikeorch/pki"
GATEWAYS = ("gw-a", "gw-b")
"""Those that `bring_up` joins; another one of the topology gets its daemons and nothing else."""
TUNNELS = 4
REMOTE_PREFIXES = {"leaf-a": ("10.2.0.0/16", "fd00:b::/48"), "leaf-b": ("10.1.0.0/16", "fd00:a::/48")}
"""What each leaf learns by BGP."""
READY = 90
"""Seconds for a daemon to answer; it takes two where the machine is not busy with other things."""
CHARON_UNREACHABLE = 5
"""status exits with it, and shows what it knows all the same."""


def ikeorch(
    node: Node, *arguments: str, check: bool = True, timeout: float = 60.0, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the operator's command in a node."""
    return node.run([IKEORCH, *arguments], check=check, timeout=timeout, input=text)


def status(node: Node) -> Any:  # noqa: ANN401 - the command's JSON
    """``ikeorch status --output json`` in a node."""
    result = ikeorch(node, "status", "--output", "json", check=False)
    if result.returncode not in {0, CHARON_UNREACHABLE}:
        raise AssertionError(f"status on {node.name} exited with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def issue_certificates(lab: Lab, *, tunnels: int = 16) -> None:
    """Make a CA on gateway A, and issue for the two gateways that `add_tunnels` joins."""
    ikeorch(lab.node("gw-a"), "pki", "init", "--ca-dir", CA_FOLDER, "--name", "lab CA")
    for name in GATEWAYS:
        issue_certificate(lab, name, tunnels=tunnels)


def issue_certificate(lab: Lab, name: str, *, tunnels: int = 16) -> None:
    """Issue for a gateway on A, where the CA is, and carry the files over, as an operator would with scp."""
    a, gateway = lab.node("gw-a"), lab.node(name)
    folder = PKI_FOLDER if gateway is a else f"/tmp/for-{name}"
    command = ("pki", "issue", f"{name}.dc.example", "--ca-dir", CA_FOLDER, "--out-dir", folder)
    ikeorch(a, *command, "--tunnels", str(tunnels))
    if gateway is a:
        return
    gateway.run(["mkdir", "-p", "-m", "700", PKI_FOLDER])
    for file, mode in ((f"{name}.key", 0o600), (f"{name}.pem", 0o644), ("ca.pem", 0o644)):
        target = gateway.path(f"{PKI_FOLDER}/{file}")
        target.write_bytes(a.path(f"{folder}/{file}").read_bytes())
        target.chmod(mode)


def start_daemons(lab: Lab) -> None:
    """The daemons that the topology names: FRR on the leafs, the others on all gateways."""
    start_fabric(lab)
    gateways = [spec for spec in lab.topology.nodes if spec.role == "gateway"]
    for spec in gateways:
        for daemon in spec.daemons:
            lab.node(spec.name).start_daemon(daemon, ready=None)
    for spec in gateways:
        for daemon in spec.daemons:
            lab.node(spec.name).wait_ready(daemon, READY)


def add_tunnels(lab: Lab, count: int = TUNNELS) -> str:
    """A adds the tunnels and prints the block, B takes it while A waits; both must succeed.

    Returns:
        The printed block.
    """
    a, b = (lab.node(name) for name in GATEWAYS)
    with a.popen([IKEORCH, "tunnel", "add", "gw-b", "--count", str(count), "--timeout", "60s"]) as adding:
        assert adding.stdout is not None
        block = read_block(adding.stdout)
        ikeorch(b, "peer", "add", "-f", "-", "--timeout", "60s", text=block)
        if (code := adding.wait(60)) != 0:
            raise AssertionError(f"tunnel add exited with {code}\n{a.log_tail('ikeorchd')}")
    return block


def read_block(stream: Any) -> str:  # noqa: ANN401 - a text stream
    """Read a peer block from the stdout of a running ``tunnel add``: its last line begins with ``tunnels:``."""
    lines = []
    for line in stream:
        lines.append(line)
        if line.startswith("tunnels:"):
            break
    return "".join(lines)


def bring_up(lab: Lab) -> None:
    """Certificates, daemons and tunnels, until packets have proved each tunnel in both directions."""
    issue_certificates(lab)
    start_daemons(lab)
    add_tunnels(lab)
    wait_carrying(lab)


def wait_carrying(lab: Lab, count: int = TUNNELS, timeout: float = 30.0) -> None:
    """Wait until both gateways say that all their tunnels carry and stand in the group."""

    def carrying() -> bool:
        for name in GATEWAYS:
            tunnels = status(lab.node(name))["tunnels"]
            if len(tunnels) != count or any(each["state"] != "carrying" or not each["weight"] for each in tunnels):
                return False
        return True

    wait_until(carrying, f"all {count} tunnels carry on both gateways", timeout, interval=0.2)
    wait_fabric(lab, timeout)


def wait_fabric(lab: Lab, timeout: float = 30.0) -> None:
    """Wait until the leafs' kernels have the routes to the other site; nothing to do where there are no leafs."""
    for leaf, prefixes in REMOTE_PREFIXES.items():
        for prefix in prefixes if leaf in lab.nodes else ():
            node = lab.node(leaf)
            wait_until(lambda: fib_route(node, prefix) is not None, f"{leaf} has {prefix}", timeout, interval=0.1)  # noqa: B023


@dataclass(frozen=True, slots=True)
class Direction:
    """A way through the bundle: from a host of one site to a host of the other."""

    name: str
    source: str
    target: str
    address: str


FORWARD = Direction("A to B", "host-a1", "host-b1", "10.2.1.10")
BACKWARD = Direction("B to A", "host-b1", "host-a1", "10.1.1.10")
FORWARD_6 = Direction("A to B, IPv6", "host-a1", "host-b1", "fd00:b:0:1::10")
