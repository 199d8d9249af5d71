"""The second half of the demo: what the leafs are told, a provider that goes dark, and parts of a gateway that die."""

from __future__ import annotations

import time

from lab.runner import Lab
from lab.scenarios.fabric import fib_route, leaf_route, vtysh
from lab.scenarios.faults import CAPACITY, RATE, bandwidths, float32, kill_part, two_flows, updates, wait_told, weights
from lab.scenarios.observe import children, guard_drops
from lab.scenarios.outage import OF_PROVIDER, outage
from lab.scenarios.report import Report
from lab.scenarios.sites import BACKWARD, FORWARD, wait_carrying
from lab.scenarios.traffic import captures, finish, streams
from lab.waiting import wait_until

DARK = 20.0
"""Seconds."""
STREAM_SECONDS = 40
LOAD = 500
SOON = 2.0
"""Seconds in which a leaf hears of every change."""
HEALED = 10.0
"""Seconds from healing until all tunnels carry."""


def fabric(lab: Lab, report: Report) -> None:
    """What the leaf learned."""
    report.title("The fabric: each leaf learns the other site's prefix by BGP, with the capacity that leads there")
    leaf = lab.node("leaf-a")
    wait_told(lab, CAPACITY, 20)
    report.say("leaf-a# vtysh -c 'show bgp ipv4 unicast 10.2.0.0/16'")
    report.say(vtysh(leaf, "show bgp ipv4 unicast 10.2.0.0/16"))
    (path,) = leaf_route(leaf, "10.2.0.0/16")
    exact = path.link_bandwidth == float32(CAPACITY)
    measured = f"{path.link_bandwidth:.0f} bytes/s, four tunnels of 50 Gbit/s at the scale 1/8"
    report.claim("the leaf knows the capacity of the tunnels", measured, held=exact)
    route = fib_route(leaf, "10.2.0.0/16")
    report.claim(
        "the leaf's kernel forwards by it", str(route and route.protocol), held=bool(route and route.protocol == "bgp")
    )
    report.command(lab.node("gw-a"), "bgp", "routes")


def provider_dark(lab: Lab, report: Report) -> None:
    """One provider loses everything in both directions, silently."""
    report.title(f"Provider isp1 goes dark in both directions for {DARK:.0f} s, under two 1 kHz streams")
    a = lab.node("gw-a")
    report.say("one stream runs over isp1, one over isp2; `ip route get` on gw-a said which flow goes where")
    show_share(lab, report, "before")
    with two_flows(lab, STREAM_SECONDS) as results:
        time.sleep(1)
        with outage((lab.node("isp1"),), OF_PROVIDER):
            began = time.monotonic()
            wait_told(lab, CAPACITY / 2, 10)
            told = time.monotonic() - began
            show_share(lab, report, "during")
            report.command(a, "status")
            wait_until(lambda: time.monotonic() - began > DARK, "the end of the darkness", DARK + 5)
        healed = time.monotonic()
        wait_carrying(lab, timeout=3 * HEALED)
        back = time.monotonic() - healed
        wait_told(lab, CAPACITY, 10)
        show_share(lab, report, "after")
        report.say("the streams run to their end")
        pair = results()
    total = STREAM_SECONDS * RATE
    affected = f"{pair.isp1['lost']} ms of {total} ms"
    report.claim("lost on the flow over the dark provider", affected, held=0 < pair.isp1["lost"] <= 1000)
    whole = pair.isp2["lost"] == 0 and pair.isp2["total"] == total
    report.claim("lost on the flow over the other one", f"{pair.isp2['lost']} ms of {total} ms", held=whole)
    report.claim("the leafs heard of it", f"after {told:.1f} s", held=told <= SOON)
    report.claim("all four tunnels carry again", f"{back:.1f} s after healing", held=back <= HEALED)


def show_share(lab: Lab, report: Report, when: str) -> None:
    """Weights on the gateway and bandwidth at the leaf."""
    shares = " ".join(f"{tunnel}={weight}" for tunnel, weight in weights(lab.node("gw-a")).items())
    report.say(f"  {when:7} weights on gw-a: {shares}   bandwidth at leaf-a: {bandwidths(lab)[0]:.0f} bytes/s")


def daemon_killed(lab: Lab, report: Report) -> None:
    """Kill -9 of ikeorchd, with a look at the providers' links."""
    report.title(f"kill -9 of ikeorchd on gw-a, under {2 * LOAD} packets a second (both ways, 64 flows each)")
    with captures(lab, ("isp1:eth1", "isp2:eth1")) as running:
        part_killed(lab, report, "ikeorchd")
        seen = {end: finish(capture) for end, capture in running.items()}
    for end, capture in seen.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(capture["kinds"].items()))
        clear = set(capture["kinds"]) <= {"esp", "ike", "arp", "nd-mld"} and capture["magic"] == 0
        report.claim(f"only ciphertext at {end}", kinds, held=clear and capture["kinds"].get("esp", 0) > 1000)
    report.command(lab.node("gw-a"), "plan")
    report.say(f"the guard's drop counters on gw-a: {guard_drops(lab.node('gw-a'))}")


def helpers_killed(lab: Lab, report: Report) -> None:
    """The same for the two processes beside it."""
    for part, name in (("prober", "the prober"), ("shim", "ExaBGP's shim")):
        report.title(f"kill -9 of {name} on gw-a, under the same load")
        part_killed(lab, report, part)


def part_killed(lab: Lab, report: Report, part: str) -> None:
    """Kill -9 of one part under traffic: nothing lost, the same SPIs, nothing heard by the leafs."""
    a = lab.node("gw-a")
    before, told = children(a), updates(lab)
    with streams(lab, (FORWARD, BACKWARD), rate=LOAD, count=8 * LOAD) as started:
        time.sleep(1)
        report.say(f"{kill_part(a, part)}: another one runs already, its supervisor started it as systemd would")
        results = [stream.result() for stream in started]
    wait_carrying(lab)
    for stream, result in zip(started, results, strict=True):
        measured = f"{result['received']} of {result['total']} arrived"
        whole = result["lost"] == 0 and result["total"] == 8 * LOAD
        report.claim(f"{part} killed: nothing lost {stream.direction.name}", measured, held=whole)
    after = children(a)
    same = [(c.tunnel, c.spi_in, c.spi_out) for c in before] == [(c.tunnel, c.spi_in, c.spi_out) for c in after]
    report.claim(f"{part} killed: the same SPIs", f"{len(after)} CHILD_SAs", held=same)
    heard = sum(updates(lab)) - sum(told)
    report.claim(f"{part} killed: the leafs hear nothing", f"{heard} UPDATE messages", held=heard == 0)
