"""Changes under traffic that touch more than charon's timers: each does what its plan says, checked from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.faults import conditions
from lab.scenarios.sites import BACKWARD, FORWARD, GATEWAYS, ikeorch, status, wait_carrying
from lab.scenarios.traffic import streams
from lab.waiting import wait_until
from tests.lab.test_change import edit, spis, undone_revision

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]
RATE = 400


@contextmanager
def nothing_lost(lab: Lab, seconds: int) -> Iterator[None]:
    """Traffic in both directions for some seconds, of which nothing is lost."""
    count = RATE * seconds
    with streams(lab, (FORWARD, BACKWARD), rate=RATE, count=count) as started:
        time.sleep(1)
        yield
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(count, 0)] * 2


def settled(lab: Lab) -> None:
    """All tunnels carry, nothing is wrong, and the plan is empty; the peer may still tell whom it refused."""
    wait_carrying(lab)
    for name in GATEWAYS:
        node = lab.node(name)

        def wrong() -> set[str]:
            return {
                code
                for code in conditions(node)  # noqa: B023
                if not code.startswith("refused-" if name == "gw-b" else "change-undone")  # noqa: B023
            }

        wait_until(lambda: not wrong(), f"nothing is wrong on {name}", 20)
        assert "nothing to change" in ikeorch(node, "plan").stdout


def mtus(node: Node) -> set[int]:
    """The MTUs of the XFRM interfaces, as the kernel says."""
    output = node.run(["ip", "-o", "link", "show", "type", "xfrm"]).stdout
    return {int(line.split(" mtu ")[1].split()[0]) for line in output.splitlines()}


def test_an_mtu_is_changed_under_traffic(sites: Lab) -> None:
    """Half of the bundle, then the other half, each proven by packets of that size; the SAs stay."""
    a = sites.node("gw-a")
    before = spis(a)
    edit(a, "capacity: 50G", "capacity: 50G, mtu: 1300")
    assert " -> 1300" in ikeorch(a, "plan").stdout
    with nothing_lost(sites, 20):
        ikeorch(a, "apply")
        assert mtus(a) == {1300}
    assert spis(a) == before
    ikeorch(a, "rollback")
    wait_until(lambda: mtus(a) != {1300}, "the MTU is as before", 20)
    settled(sites)


def test_an_mtu_that_the_path_does_not_take_is_undone(sites: Lab) -> None:
    """A provider that drops large packets without a word: stopped after the first wave, the cause is named."""
    a, isp1 = sites.node("gw-a"), sites.node("isp1")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before, old = file.read_bytes(), mtus(a)
    drop = "table inet narrow {\nchain forward {\ntype filter hook forward priority 0\nmeta length > 1400 drop\n}\n}\n"
    edit(a, "capacity: 50G", "capacity: 50G, mtu: 1380")
    with nothing_lost(sites, 25):
        isp1.run(["nft", "-f", "-"], input=drop)
        applied = ikeorch(a, "apply", check=False)
        isp1.run(["nft", "delete", "table", "inet", "narrow"])
    assert applied.returncode == 1
    assert "packets of 1380 bytes do not come through" in applied.stderr
    assert file.read_bytes() == before
    assert mtus(a) == old
    assert "mtu: 1380" in ikeorch(a, "history", undone_revision(a)).stdout
    settled(sites)


def test_tunnels_are_taken_away_and_added_under_traffic(sites: Lab) -> None:
    """4, 2, 4 at both ends, the initiator first and the responder first: flows leave before an SA ends."""
    a, b = (sites.node(name) for name in GATEWAYS)
    with nothing_lost(sites, 45):
        for first, second in ((a, b), (b, a)):
            for node in (first, second):
                ikeorch(node, "tunnel", "remove", "gw-b" if node is a else "gw-a", "--count", "2")
                time.sleep(4)
            wait_until(lambda: len(spis(a)) == len(spis(b)) == 2, "two tunnels are left", 15)
            for node in (first, second):
                peer = "gw-b" if node is a else "gw-a"
                ikeorch(node, "tunnel", "add", peer, "--count", "4", "--no-wait")
            wait_carrying(sites)
    settled(sites)


def test_an_uplinks_address_is_changed_under_traffic(sites: Lab) -> None:
    """The operator gives the device another address, then both ends' files, the initiator first: 0 lost."""
    a, b = (sites.node(name) for name in GATEWAYS)
    before = spis(a)
    a.run(["ip", "address", "add", "192.0.2.9/24", "dev", "eth1"])
    edit(a, "addresses: [192.0.2.1/24]", "addresses: [192.0.2.9/24]")
    edit(b, "192.0.2.1", "192.0.2.9")
    with nothing_lost(sites, 45):
        pending = ikeorch(a, "apply", "--timeout", "8s", check=False)
        assert pending.returncode == 75
        ikeorch(b, "apply")
        wait_until(
            lambda: all(spis(a)[tunnel].isdisjoint(before[tunnel]) for tunnel in ("ikeorch.gw-b.0", "ikeorch.gw-b.2")),
            "the tunnels of this uplink run on the new address",
            30,
        )
    paths = {each["path"]["local"] for each in status(a)["tunnels"]}
    assert paths == {"192.0.2.9", "203.0.113.1"}
    assert "192.0.2.1 " not in a.run(["ip", "rule"]).stdout
    assert spis(a)["ikeorch.gw-b.1"] == before["ikeorch.gw-b.1"]
    settled(sites)


def test_a_prefix_is_added_and_taken_away_under_traffic(sites: Lab) -> None:
    """At both ends; what is there already notices nothing."""
    a, b = (sites.node(name) for name in GATEWAYS)
    before = spis(a)
    with nothing_lost(sites, 25):
        edit(b, 'prefixes: [10.2.0.0/16, "fd00:b::/48"]', 'prefixes: [10.2.0.0/16, 10.22.0.0/16, "fd00:b::/48"]')
        edit(a, 'prefixes: [10.2.0.0/16, "fd00:b::/48"]', 'prefixes: [10.2.0.0/16, 10.22.0.0/16, "fd00:b::/48"]')
        for node in (a, b):
            ikeorch(node, "apply")
        assert "10.22.0.0/16" in a.run(["ip", "route"]).stdout
        for node in (b, a):
            refused = ikeorch(node, "rollback", check=False)
            assert (refused.returncode, "10.22.0.0/16" in refused.stderr) == (1, True)
            ikeorch(node, "rollback", "--accept-risk=drop-traffic", "--accept-risk=withdraw-last-path")
        wait_until(lambda: "10.22.0.0/16" not in a.run(["ip", "route"]).stdout, "the route is gone", 10)
    assert spis(a) == before
    settled(sites)


@pytest.mark.parametrize(
    ("old", "new", "refusal", "answer"),
    [
        (
            "peers:\n",
            "suites: {default: aes128gcm16-prfsha256-ecp256}\npeers:\n",
            "refused-proposal",
            "NO_PROPOSAL_CHOSEN",
        ),
        ("identity: gw-b.dc.example", "identity: gw-x.dc.example", "refused-identity", "AUTHENTICATION_FAILED"),
    ],
    ids=["suite", "identity"],
)
def test_what_the_peer_refuses_for_good_is_undone(sites: Lab, old: str, new: str, refusal: str, answer: str) -> None:
    """The old IKE_SAs carry all the time; then file and gateway are as before, and the cause is named."""
    a = sites.node("gw-a")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before, running = file.read_bytes(), spis(a)
    edit(a, old, new)
    with nothing_lost(sites, 25):
        applied = ikeorch(a, "apply", "--wait-for-peer", "8s", "--accept-risk=change-identity", check=False)
    assert applied.returncode == 1
    assert "undone: gw-b/0" in applied.stderr
    assert answer in applied.stderr
    assert file.read_bytes() == before
    assert spis(a) == running
    assert refusal in conditions(sites.node("gw-b"))
    settled(sites)
