"""The image's entrypoint (lab/container.py), run in nodes of the lab's runner, in a PID namespace as a container's."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.node import Node, NodeProcess
from lab.runner import REPO, TWO_DC, Lab
from lab.scenarios.fabric import neighbor
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

ENTRYPOINT = ("unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "lab.container")
PUBLISHED = "router bgp 65001\n neighbor 10.0.0.1 remote-as 65010\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.start(TWO_DC) as running:
        yield running


@contextmanager
def container(node: Node, *words: str, links: int = 0) -> Iterator[NodeProcess]:
    """The entrypoint as the first process of a PID namespace."""
    with node.popen([*ENTRYPOINT, *words], env={"CLAB_INTFS": str(links)}, cwd=str(REPO)) as process:
        yield process


def daemons(node: Node) -> dict[str, dict[str, Any]]:
    """What the container's first process says of its daemons; empty while it does not answer."""
    answer = json.loads(node.python("lab.daemon_status", "/run/lab.sock").stdout)["lab"]
    return answer or {}


def running(node: Node, *names: str) -> bool:
    """Whether exactly these daemons run."""
    return [name for name, state in daemons(node).items() if state["pid"] is not None] == list(names)


def programs(node: Node) -> set[str]:
    """The programs that run in the node, and in the container in it."""
    return set(node.run(["sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null"], check=False).stdout.split())


def inside(node: Node, process: NodeProcess, *argv: str, check: bool = True) -> str:
    """Run a command in the container, as `docker exec` does."""
    first = node.run(["pgrep", "-P", str(process.pid)]).stdout.strip()
    return node.run(["nsenter", "--target", first, "--mount", "--pid", *argv], check=check).stdout


def test_leaf_boots_as_a_container(lab: Lab) -> None:
    """Bound files become copies, the daemons of `cmd` run and come back when killed, and SIGTERM ends all at once."""
    node = lab.node("leaf-a")
    node.run(["sh", "-c", "mkdir /run/checkout && cat >/run/checkout/frr.conf"], input=PUBLISHED)
    node.run(["mount", "--bind", "/run/checkout/frr.conf", "/etc/frr/frr.conf"])
    with container(node, "zebra", "bgpd", links=3) as process:
        wait_until(lambda: running(node, "zebra", "bgpd"), "zebra and bgpd run", 30, interval=0.2)
        node.wait_ready("bgpd")
        assert neighbor(node, "10.0.0.1")["remoteAs"] == 65010
        # no mount any more: as ikeorchd does, the file is replaced, and the checkout's stays
        change = "sed s/65010/65011/ /etc/frr/frr.conf >/etc/frr/new && mv /etc/frr/new /etc/frr/frr.conf"
        inside(node, process, "sh", "-c", change)
        assert node.run(["cat", "/run/checkout/frr.conf"]).stdout == PUBLISHED
        inside(node, process, "pkill", "-9", "-x", "bgpd")
        wait_until(lambda: daemons(node)["bgpd"]["starts"] == 2, "bgpd runs again", 10, interval=0.2)
        node.wait_ready("bgpd")
        assert neighbor(node, "10.0.0.1")["remoteAs"] == 65011
        inside(node, process, "kill", "-TERM", "1", check=False)  # which ends the one that sends it as well
        assert process.wait(5) == 0
        wait_until(lambda: not {"zebra", "bgpd"} & programs(node), "the daemons are gone", 5)


def test_gateway_loads_the_guard_before_its_daemons(lab: Lab) -> None:
    """The guard's table is there when the links are not, and charon starts only after they came."""
    node = lab.node("gw-a")
    node.run(["nft", "delete", "table", "inet", "ikeorch"])
    with container(node, "charon", "ikeorchd", links=4):
        listing = ["nft", "list", "table", "inet", "ikeorch"]
        wait_until(lambda: node.run(listing, check=False).returncode == 0, "the guard is loaded", 30)
        assert "charon-systemd" not in programs(node)
        node.run(["ip", "link", "add", "eth4", "type", "dummy"])
        wait_until(lambda: running(node, "charon", "ikeorchd"), "charon and ikeorchd run", 60, interval=0.2)
    wait_until(lambda: "charon-systemd" not in programs(node), "charon is gone", 5)


def test_hash_seed_is_the_runners(lab: Lab) -> None:
    """A container sets the multipath seed that the runner would, from its host name."""
    node = lab.node("leaf-b")
    seed = Path("/proc/sys/net/ipv4/fib_multipath_hash_seed")
    before = node.run(["cat", str(seed)]).stdout
    node.run(["sh", "-c", f"echo 1 >{seed}"])
    with container(node):
        wait_until(lambda: node.run(["cat", str(seed)]).stdout == before, "the seed is set", 30)


def test_unknown_daemon_is_refused(lab: Lab) -> None:
    """The entrypoint says which word it does not know, and which it does."""
    done = lab.node("host-a1").python("lab.container", "zebra", "ospfd", check=False)
    assert done.returncode == 64
    assert "no such daemon: ospfd; known: charon, prober, ikeorchd, exabgp, zebra, bgpd, bfdd" in done.stdout
