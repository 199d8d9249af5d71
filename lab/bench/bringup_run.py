"""The measuring part of ``bringup``: runs on a lab kernel and prints its findings as one line of JSON."""

from __future__ import annotations

import argparse
import json
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import vici
from ruamel.yaml import YAML

from ikeorch.adapters.vici.convert import to_load_conn
from ikeorch.config.loader import load_config
from ikeorch.core.allocate import Allocations, allocate_missing, wanted_numbers
from ikeorch.core.charon_state import Connection
from ikeorch.core.desired import Desired, compute_desired
from ikeorch.core.kernel_state import SourceRule, UnderlayRoute, XfrmInterface
from ikeorch.daemon.credentials import LoadedCredentials, load_credentials
from lab.node import Node
from lab.runner import REPO, Lab
from lab.scenarios.observe import list_sas
from lab.scenarios.sites import GATEWAYS, ikeorch, issue_certificates, status
from lab.topology import load_topology
from lab.waiting import wait_until

TUNNELS = 64
LONGEST = 60.0
SITES = {"gw-a": ("192.0.2", "10.1"), "gw-b": ("198.51.100", "10.2")}


def configuration(name: str, addresses: int, tunnels: int) -> str:
    """A gateway's file: one uplink with so many addresses, and the peer."""
    peer = "gw-b" if name == "gw-a" else "gw-a"
    own, prefix = SITES[name]
    their, their_prefix = SITES[peer]
    mine = ", ".join(f"{own}.{number + 1}/24" for number in range(addresses))
    others = ", ".join(f"{their}.{number + 1}" for number in range(addresses))
    return f"""\
schema_version: 1
gateway:
  name: {name}
  site: dc-{name[-1]}
  identity: {name}.dc.example
  asn: 65010
  router_id: 10.0.255.1
  uplinks: [{{name: isp1, interface: eth1, addresses: [{mine}], gateway: {own}.254, capacity: 100G}}]
  prefixes: [{prefix}.0.0/16]
  credentials:
    certificate: /etc/ikeorch/pki/{name}.pem
    key: /etc/ikeorch/pki/{name}.key
    ca: /etc/ikeorch/pki/ca.pem
peers:
  - name: {peer}
    site: dc-{peer[-1]}
    identity: {peer}.dc.example
    asn: 65020
    uplinks: [{{name: isp1, addresses: [{others}]}}]
    inner: [10.255.0.0/24]
    prefixes: [{their_prefix}.0.0/16]
    tunnels: {{count: {tunnels}}}
"""


def topology(folder: Path, addresses: int, delay_ms: int) -> Path:
    """Two gateways and a provider between them, with half the RTT each way."""
    nodes: dict[str, Any] = {}
    for name, (own, _) in SITES.items():
        file = folder / f"{name}.yaml"
        file.write_text(configuration(name, addresses, 0))
        nodes[name] = {
            "labels": {"ikeorch.role": "gateway"},
            "binds": [
                f"{file.name}:/etc/ikeorch/ikeorch.yaml",
                f"{REPO}/templates/strongswan.conf:/etc/strongswan.conf",
            ],
            "exec": [f"ip address add {own}.{number + 1}/24 dev eth1" for number in range(addresses)]
            + [f"ip route add default via {own}.254"],
        }
    provider = [f"ip address add {own}.254/24 dev eth{at}" for at, (own, _) in enumerate(SITES.values(), 1)]
    if delay_ms:
        provider += [f"tc qdisc add dev eth{at} root netem delay {delay_ms / 2:g}ms limit 100000" for at in (1, 2)]
    nodes["isp1"] = {"labels": {"ikeorch.role": "router"}, "sysctls": {"net.ipv4.ip_forward": 1}, "exec": provider}
    links = [{"endpoints": [f"{name}:eth1", f"isp1:eth{at}"]} for at, name in enumerate(SITES, 1)]
    path = folder / "bench.clab.yml"
    defaults = {"kind": "linux", "image": "ikeorch-lab", "network-mode": "none"}
    with path.open("w") as file_object:
        YAML().dump({"name": "bench", "topology": {"defaults": defaults, "nodes": nodes, "links": links}}, file_object)
    return path


def everything(node: Node, addresses: int) -> tuple[Desired, LoadedCredentials]:
    """What ikeorch would make on a gateway with all tunnels: the baselines make the same by other means."""
    spec = load_config(configuration(node.name, addresses, TUNNELS), node.name).spec
    credentials = load_credentials(
        replace(
            spec.credentials,
            certificate=node.path(str(spec.credentials.certificate)),
            key=node.path(str(spec.credentials.key)),
            ca=node.path(str(spec.credentials.ca)),
        )
    )
    desired = compute_desired(
        spec,
        Allocations(allocate_missing({}, wanted_numbers(spec))),
        credentials=credentials.bundle,
        verdicts={},
        grouped=frozenset(),
        resilient=True,
        underlay_mtu={"eth1": 1500},
    )
    return desired, credentials


def make_links(node: Node, desired: Desired) -> None:
    """The XFRM interfaces, rules and routes of a gateway in one batch of ip(8)."""
    lines = []
    for entry in desired.kernel.values():
        if isinstance(entry, XfrmInterface):
            lines.append(f"link add {entry.name} type xfrm dev {entry.underlay} if_id {entry.if_id}")
            lines += [f"address add {address} dev {entry.name}" for address in entry.addresses]
            lines.append(f"link set {entry.name} mtu {entry.mtu} up")
        elif isinstance(entry, SourceRule):
            lines.append(f"rule add from {entry.source} lookup {entry.table} priority {entry.priority}")
        elif isinstance(entry, UnderlayRoute):
            via = f"via {entry.gateway} onlink" if entry.gateway else ""
            lines.append(f"route replace {entry.destination} {via} dev {entry.device} table {entry.table}")
    node.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", timeout=60)


def load_connections(node: Node, desired: Desired, credentials: LoadedCredentials, *, start: bool, spoil: bool) -> None:
    """Load key, CA and all connections by the vici package; `spoil` gives the last one a wrong identity."""
    assert desired.connections is not None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(str(node.path("/run/charon.vici")))
        session = vici.Session(sock)
        session.load_authority({"bench": {"cacert": credentials.bundle.ca}})
        session.load_key({"type": "any", "data": credentials.key.reveal()})
        connections = list(desired.connections.values())
        for number, connection in enumerate(connections):
            wrong = spoil and number == len(connections) - 1
            session.load_conn(
                message_of(replace(connection, remote_id="nobody.example") if wrong else connection, start)
            )


def message_of(connection: Connection, start: bool) -> Any:  # noqa: ANN401 - vici's nested dicts
    """The daemon's own load-conn message, with charon's start_action where it is asked for."""
    message: Any = to_load_conn(connection)
    if start:
        message[connection.name]["children"][connection.name]["start_action"] = "start"
    return message


class Run:
    """One fresh start of everything."""

    def __init__(self, addresses: int, delay_ms: int) -> None:
        self.addresses = addresses
        self.delay_ms = delay_ms
        self.cookies = 0
        self.retransmissions = 0

    def measure(self, begin: Callable[[Lab, Run], None], *, daemon: bool, longest: float = LONGEST) -> float | None:
        """Seconds from `begin` until an echo came back through each tunnel; None if it did not within the time."""
        with tempfile.TemporaryDirectory() as folder:
            path = topology(Path(folder), self.addresses, self.delay_ms)
            with Lab(load_topology(path)) as lab:
                issue_certificates(lab, tunnels=TUNNELS)
                for name in GATEWAYS:
                    lab.node(name).start_daemon("charon", ready=30)
                    if daemon:
                        lab.node(name).start_daemon("prober", ready=30)
                        lab.node(name).start_daemon("ikeorchd", ready=30)
                        wait_until(lambda name=name: status(lab.node(name))["settled"], "settled", 30)  # type: ignore[misc]
                began = time.monotonic()
                begin(lab, self)
                done = wait_for_echoes(lab, self.addresses, began, longest)
                for name in GATEWAYS:
                    log = lab.node(name).log("charon")
                    self.cookies += log.count("COOKIE")
                    self.retransmissions += log.count("retransmit")
                return done


def wait_for_echoes(lab: Lab, addresses: int, began: float, longest: float) -> float | None:
    """Seconds since `began` when all tunnels are INSTALLED on both ends and have carried an echo there and back."""
    desired, _ = everything(lab.node("gw-a"), addresses)
    lines = [f"{plan.interface} {plan.inner[0][1]}" for plan in desired.tunnels.values()]
    command = [sys.executable, "-m", "lab.tools.echo", "--longest", str(longest)]
    result = lab.node("gw-a").run(command, input="\n".join(lines) + "\n", timeout=longest + 30, cwd=str(REPO))
    found = json.loads(result.stdout.splitlines()[-1])
    ended = time.monotonic()
    if found["answered"] != len(lines):
        return None
    for name in GATEWAYS:
        installed = [
            child
            for _, section in list_sas(lab.node(name))
            for child in section.get("child-sas", {}).values()
            if child["state"] == b"INSTALLED"
        ]
        if len(installed) < len(lines):
            raise AssertionError(f"{name} has {len(installed)} installed children of {len(lines)}")
    return ended - began


def begin_ours(lab: Lab, run: Run) -> None:
    """One command on each end."""
    del run
    for name, peer in (("gw-b", "gw-a"), ("gw-a", "gw-b")):
        ikeorch(lab.node(name), "tunnel", "add", peer, "--count", str(TUNNELS), "--no-wait")


def prepare(lab: Lab, run: Run, *, start: bool, spoil: bool = False) -> None:
    """Make both gateways as the daemon would, without it; only A starts when charon starts by itself."""
    for name in ("gw-b", "gw-a"):
        node = lab.node(name)
        desired, credentials = everything(node, run.addresses)
        make_links(node, desired)
        load_connections(node, desired, credentials, start=start and name == "gw-a", spoil=spoil and name == "gw-a")


def begin_native(lab: Lab, run: Run) -> None:
    """Charon's own start_action=start."""
    prepare(lab, run, start=True)


def begin_loop(lab: Lab, run: Run) -> None:
    """``swanctl --initiate`` for one child after the other."""
    prepare(lab, run, start=False)
    initiate_all(lab)


def begin_spoilt(lab: Lab, run: Run) -> None:
    """The control: one of the tunnels can never come up."""
    prepare(lab, run, start=False, spoil=True)
    initiate_all(lab)


def initiate_all(lab: Lab) -> None:
    """The loop that people write."""
    script = "; ".join(f"swanctl --initiate --child ikeorch.gw-b.{index} >/dev/null" for index in range(TUNNELS))
    lab.node("gw-a").run(["sh", "-c", script], check=False, timeout=120)


def main() -> int:
    """Measure all series in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    series: dict[str, list[float]] = {}
    retransmissions: list[int] = []
    cookies: list[int] = []
    kinds = (("ours", begin_ours, True), ("loop", begin_loop, False), ("native", begin_native, False))
    for number in range(runs):
        for label, addresses, delay in (("rtt0", 8, 0), ("rtt30", 8, 30), ("one_pair_rtt30", 1, 30)):
            for kind, begin, daemon in kinds:
                if label.startswith("one_pair") and kind == "native":
                    continue
                run = Run(addresses, delay)
                took = run.measure(begin, daemon=daemon)
                if took is None:
                    raise AssertionError(f"{label} {kind}: not all tunnels came up within {LONGEST:.0f} s")
                series.setdefault(f"{label}_{kind}", []).append(took)
                if label.startswith("one_pair") and kind == "ours":
                    retransmissions.append(run.retransmissions)
                    cookies.append(run.cookies)
                print(f"run {number + 1} of {runs}: {label} {kind} {took:.2f} s", flush=True)
    control = Run(8, 0).measure(begin_spoilt, daemon=False, longest=8.0)
    if control is not None:
        raise AssertionError("the control came up: a broken tunnel would not be seen")
    print(
        json.dumps(
            {
                "series": series,
                "one_pair_retransmissions": retransmissions,
                "one_pair_cookies": cookies,
                "control": f"one of {TUNNELS} tunnels with a wrong identity: not done within 8 s, as it must be",
                "tunnels": TUNNELS,
                "kernel": platform.release(),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
