"""A third site joins two that carry traffic, and leaves again: the two never notice."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from lab.node import Node
from lab.runner import THREE_DC, Lab
from lab.scenarios.fabric import fib_route, told_bandwidths
from lab.scenarios.faults import CAPACITY, conditions, float32
from lab.scenarios.observe import Child, children, xfrm_interfaces
from lab.scenarios.sites import BACKWARD, FORWARD, GATEWAYS, TUNNELS, bring_up, ikeorch, status
from lab.scenarios.third_site import REMOTE_PREFIXES, THIRD, join, leave
from lab.scenarios.traffic import streams
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

RATE = 200
LONGEST = 100
"""Seconds for which the streams would run; the change is over before."""
ALL = (*GATEWAYS, THIRD)
HOSTS = {"host-a1": ("10.1.1.10", "fd00:a:0:1::10"), "host-b1": ("10.2.1.10", "fd00:b:0:1::10")}
COMMENTS = "# Who may change this: the network group.\n", "\n# The end: peers that others add follow.\n"


def config(node: Node) -> str:
    """The gateway's file."""
    return node.path("/etc/ikeorch/ikeorch.yaml").read_text()


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """Each gateway's file as it was when the third site had no peer."""
    return {}


@pytest.fixture(scope="module")
def lab(before: dict[str, str]) -> Iterator[Lab]:
    """A and B joined, C's daemons without a peer and without a certificate; the files hold comments."""
    with Lab.start(THREE_DC) as running:
        bring_up(running)
        for name in ALL:
            file = running.node(name).path("/etc/ikeorch/ikeorch.yaml")
            before[name] = COMMENTS[0] + file.read_text() + COMMENTS[1]
            file.write_text(before[name])
        yield running


def bundle(lab: Lab) -> list[Child]:
    """The CHILD_SAs between A and B."""
    return [child for child in children(lab.node("gw-a")) if "gw-b" in child.tunnel]


def remaining(lab: Lab) -> list[int]:
    """XFRM interfaces of each gateway; they go after the SAs."""
    return [len(xfrm_interfaces(lab.node(name))) for name in ALL]


@contextlib.contextmanager
def nothing_lost(lab: Lab) -> Iterator[None]:
    """Two streams between A and B around the body, of which nothing may be lost."""
    before = bundle(lab)
    with streams(lab, (FORWARD, BACKWARD), rate=RATE, count=RATE * LONGEST) as started:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        for stream in started:
            stream.stop()
        results = [stream.result() for stream in started]
    assert [result["lost"] for result in results] == [0, 0]
    assert all(0.5 * RATE * took < result["total"] < RATE * LONGEST for result in results), (results, took)
    assert bundle(lab) == before


def told(lab: Lab) -> dict[str, list[float | None]]:
    """What each leaf hears of each prefix."""
    return {leaf: told_bandwidths(lab.node(leaf), prefixes) for leaf, prefixes in REMOTE_PREFIXES.items()}


def test_a_third_site_joins_while_the_two_carry_traffic(lab: Lab, before: dict[str, str]) -> None:
    """Nothing is lost between A and B; then every pair carries, and each leaf knows both others' capacity."""
    with nothing_lost(lab):
        join(lab)
    for name in ALL:
        view = status(lab.node(name))
        assert [each["state"] for each in view["tunnels"]] == ["carrying"] * 2 * TUNNELS
        wait_until(lambda: conditions(lab.node(name)) == {}, f"nothing is wrong on {name}", 20)  # noqa: B023
        links = xfrm_interfaces(lab.node(name))
        assert sorted(child.if_id for child in children(lab.node(name))) == sorted(
            link.if_id for link in links.values()
        )
    wanted = {leaf: [float32(CAPACITY)] * 4 for leaf in REMOTE_PREFIXES}
    wait_until(lambda: told(lab) == wanted, "each leaf hears of both other sites", 20)
    for leaf, prefixes in REMOTE_PREFIXES.items():
        for prefix in prefixes:
            route = fib_route(lab.node(leaf), prefix)
            assert route is not None
            assert route.protocol == "bgp"
    for addresses in HOSTS.values():
        for address in addresses:
            lab.node("host-c1").run(["ping", "-q", "-c", "5", "-i", "0.1", "-W", "2", address])
    for name in GATEWAYS:
        assert config(lab.node(name)).startswith(before[name].removesuffix(COMMENTS[1]))
        assert all(comment.strip() in config(lab.node(name)) for comment in COMMENTS)
    assert all(comment.strip() in config(lab.node(THIRD)) for comment in COMMENTS)


def test_and_leaves_again(lab: Lab, before: dict[str, str]) -> None:
    """0 lost between A and B again; nothing of C remains, and the files are as before, letter by letter."""
    with nothing_lost(lab):
        leave(lab)
        wait_until(lambda: remaining(lab) == [TUNNELS, TUNNELS, 0], "nothing of the bundles to C remains", 40)
    for name in ALL:
        node = lab.node(name)
        assert len(children(node)) == (0 if name == THIRD else TUNNELS)
        assert "nothing to change" in ikeorch(node, "plan").stdout
        wait_until(lambda: conditions(node) == {}, f"nothing is wrong on {name}", 20)  # noqa: B023
        assert config(node) == before[name]
    for leaf, known in REMOTE_PREFIXES.items():
        prefixes = known if leaf == "leaf-c" else known[2:]
        wait_until(
            lambda: told_bandwidths(lab.node(leaf), prefixes) == [None] * len(prefixes),  # noqa: B023
            f"{leaf} has forgotten {', '.join(prefixes)}",
            10,
        )
        assert all(fib_route(lab.node(leaf), prefix) is None for prefix in prefixes)
    assert lab.node("host-c1").run(["ping", "-c", "1", "-W", "1", "10.1.1.10"], check=False).returncode != 0
