"""Nothing leaves in clear and nothing clear comes in, whatever happens to charon or to the SAs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab.node import Node
from lab.runner import TWO_DC, Lab
from lab.scenarios.observe import guard_drops
from lab.scenarios.sites import (
    FORWARD,
    add_tunnels,
    issue_certificates,
    start_daemons,
    status,
    wait_carrying,
)
from lab.scenarios.traffic import captures, finish, result_of, start_tool, streams
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

LINKS = ("isp1:eth1", "isp1:eth2", "isp2:eth1", "isp2:eth2", "isp1:eth3")
ALLOWED = {"esp", "ike", "arp", "nd-mld"}
PACKETS = 10_000
RATE = 400
LEAST = 2_000
"""Packets that arrive at least: the two ends of charon cost some, how many depends on the machine."""


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Lab, dict[str, Any]]]:
    """The whole story under captures on every provider link; what they counted."""
    with Lab.start(TWO_DC) as lab:
        issue_certificates(lab)
        with captures(lab, LINKS) as running:
            start_daemons(lab)
            add_tunnels(lab)
            wait_carrying(lab)
            with streams(lab, (FORWARD,), rate=RATE, count=PACKETS) as (stream,):
                began = time.monotonic()
                end_charon(lab.node("gw-a"), signal.SIGTERM)
                wait_carrying(lab, timeout=40)
                end_charon(lab.node("gw-b"), signal.SIGKILL)
                wait_carrying(lab, timeout=40)
                # the last fifth of the packets meets a gateway without any SA
                wait_until(lambda: time.monotonic() - began > 0.8 * PACKETS / RATE, "most packets are sent", 60)
                for command in (["ip", "xfrm", "state", "flush"], ["ip", "xfrm", "policy", "flush"]):
                    lab.node("gw-a").run(command)
                received = stream.result()
            counted = {end: finish(capture) for end, capture in running.items()}
        counted["stream"] = received
        yield lab, counted


def end_charon(node: Node, number: int) -> None:
    """End charon while packets flow; its supervisor starts it again."""
    time.sleep(2)  # the stream shall run before, not a condition to wait for
    pid = node.kill("charon", number)
    wait_until(lambda: node.daemons["charon"].pid not in {None, pid}, "charon runs again", 20)
    node.wait_ready("charon", 20)
    wait_until(lambda: status(node)["charon"]["reachable"], "ikeorchd talks to charon again", 20)


def test_only_ciphertext_and_signalling_pass_the_providers(world: tuple[Lab, dict[str, Any]]) -> None:
    """ESP, IKE, ARP, ND and MLD, nothing else; no packet with the magic text among 10,000."""
    _, counted = world
    assert counted["stream"]["total"] == PACKETS
    for end in LINKS:
        assert set(counted[end]["kinds"]) <= ALLOWED, (end, counted[end]["kinds"])
        assert counted[end]["magic"] == 0
        assert counted[end]["missed"] == 0


def test_the_captures_saw_what_they_must_see(world: tuple[Lab, dict[str, Any]]) -> None:
    """Every packet that arrived was an ESP packet on one of the two links of A; a blind capture would pass all else."""
    _, counted = world
    esp = sum(counted[end]["kinds"].get("esp", 0) for end in ("isp1:eth1", "isp2:eth1"))
    assert LEAST <= counted["stream"]["received"] <= PACKETS * 0.85
    assert esp >= counted["stream"]["received"]
    assert counted["isp1:eth1"]["kinds"].get("esp", 0) > LEAST / 4
    assert counted["isp2:eth1"]["kinds"].get("esp", 0) > LEAST / 4


def test_ike_of_the_second_uplink_is_on_the_second_uplink_only(world: tuple[Lab, dict[str, Any]]) -> None:
    """Each provider's links carry IKE of their own addresses; nothing crosses between the providers."""
    _, counted = world
    first = {"192.0.2.1>198.51.100.1", "198.51.100.1>192.0.2.1"}
    second = {"203.0.113.1>198.51.101.1", "198.51.101.1>203.0.113.1"}
    assert set(counted["isp1:eth1"]["ike"]) == set(counted["isp1:eth2"]["ike"]) == first
    assert set(counted["isp2:eth1"]["ike"]) == set(counted["isp2:eth2"]["ike"]) == second
    assert counted["isp1:eth3"]["ike"] == {}
    assert "esp" not in counted["isp1:eth3"]["kinds"]


def test_a_control_in_clear_is_seen(world: tuple[Lab, dict[str, Any]]) -> None:
    """The same capture counts the magic text when it really is in clear."""
    lab, _ = world
    with captures(lab, ("isp1:eth1",)) as running:
        lab.node("isp1").python("lab.tools.stream", "send", "192.0.2.1", "--rate", "100", "--count", "10")
        seen = finish(running["isp1:eth1"])
    assert seen["magic"] >= 10
    assert seen["kinds"]["udp"] >= 10


@pytest.mark.parametrize(
    ("provider", "gateway", "host", "network", "via"),
    [
        ("isp1", "gw-b", "10.2.1.10", "10.2.0.0/16", "198.51.100.1"),
        ("isp2", "gw-a", "10.1.1.10", "10.1.0.0/16", "203.0.113.1"),
    ],
)
def test_clear_packets_injected_at_a_provider_never_arrive(  # noqa: PLR0917 - one table
    world: tuple[Lab, dict[str, Any]], provider: str, gateway: str, host: str, network: str, via: str
) -> None:
    """10,000 packets towards a host of the site: none arrives, and the guard counted them all."""
    lab, _ = world
    node = lab.node(provider)
    node.run(["ip", "route", "add", network, "via", via])
    before = guard_drops(lab.node(gateway))["clear_forward"]
    target = lab.node("host-b1" if gateway == "gw-b" else "host-a1")
    with start_tool(target, "stream", "receive", host, "--longest", "12") as receiver:
        node.python(
            "lab.tools.stream", "send", host, "--rate", "2000", "--count", str(PACKETS), "--flows", "16", timeout=60
        )
        result = result_of(receiver, 60)
    node.run(["ip", "route", "del", network])
    assert result["received"] == 0
    assert guard_drops(lab.node(gateway))["clear_forward"] - before >= PACKETS


def test_the_receiver_of_the_injection_can_hear(world: tuple[Lab, dict[str, Any]]) -> None:
    """The control of the test above: packets of its own leaf do arrive."""
    lab, _ = world
    with start_tool(lab.node("host-b1"), "stream", "receive", "10.2.1.10") as receiver:
        lab.node("leaf-b").python("lab.tools.stream", "send", "10.2.1.10", "--rate", "200", "--count", "50")
        assert result_of(receiver, 30)["received"] == 50
