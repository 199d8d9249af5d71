"""The measuring part of ``failover``: one repeat on a fresh lab kernel, its findings as one line of JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.bench.timeline import MONITOR, read_changes, read_judged, repaired_after
from lab.node import Node, NodeProcess
from lab.runner import TWO_DC, Lab
from lab.scenarios.flow_choice import Flow, check_flows, choose_flows
from lab.scenarios.frr_tunnels import replace_ikeorch, set_interval, wait_settled
from lab.scenarios.observe import children, groups, xfrm_interfaces
from lab.scenarios.outage import OF_PROVIDER, lost_in_outage, of_tunnel, outage
from lab.scenarios.sites import FORWARD, GATEWAYS, bring_up, wait_carrying
from lab.scenarios.traffic import REPO, result_of, start_tool

RATE = 1000
"""Packets a second over a tunnel that is hit."""
SPARED_RATE = 200
"""The same over the others: enough to see a loss, and little work for a guest with one CPU."""
SECONDS = 4.5
"""Length of one stream; the outage begins as soon as all streams run."""
HEALED = 0.5
"""So many seconds at the end must have arrived, else the gap did not end."""
LATE = 20.0
"""Milliseconds behind its time from which on a sender's lateness is told."""
SILENCE = 2.0
"""Seconds after which a receiver that hears nothing more gives up."""
SOURCE = "10.1.1.10"
"""host-a1's address."""
INTERVALS = (300, 100)
"""Milliseconds between two packets of FRR's BFD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What is taken away.

    Attributes:
        name: of the variant.
        hit: tunnels that lose their data, by index; all are of isp1.
        spared: tunnels that must lose nothing, by index.
        provider: whether all of isp1 is lost, IKE too.
        both_ways: whether B to A is lost as well.
    """

    name: str
    hit: tuple[int, ...]
    spared: tuple[int, ...]
    provider: bool
    both_ways: bool


# each tunnel fails twice at most: from the third time on ikeorch lets it back later
VARIANTS = (
    Variant(name="tunnel_both", hit=(0,), spared=(1, 2), provider=False, both_ways=True),
    Variant(name="tunnel_one_way", hit=(2,), spared=(1, 0), provider=False, both_ways=False),
    Variant(name="provider", hit=(0, 2), spared=(1, 3), provider=True, both_ways=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What became of one flow.

    Attributes:
        tunnel: index of the tunnel that it ran over.
        lost: packets.
        first: the first lost one, None without a loss.
        last: the last lost one.
        total: packets sent.
        rate: packets a second.
        late: milliseconds that the sender was behind its time at most; so much of the gap may be missing.
    """

    tunnel: int
    lost: int
    first: int | None
    last: int | None
    total: int
    rate: float
    late: float

    @property
    def milliseconds(self) -> float:
        """The gap: lost packets times the time between two."""
        return self.lost * 1000 / self.rate

    @property
    def ended(self) -> bool:
        """Whether the flow ran again well before its end."""
        return self.last is None or self.last < self.total - HEALED * self.rate

    def describe(self) -> dict[str, object]:
        """As JSON."""
        return {
            "tunnel": self.tunnel,
            "lost": self.lost,
            "first": self.first,
            "last": self.last,
            "total": self.total,
            "rate": self.rate,
            "late_ms": self.late,
            "ended": self.ended,
        }


def read_gap(tunnel: int, result: Mapping[str, Any], sent: Mapping[str, Any], *, rate: float = RATE) -> Gap:
    """A receiver's counts and its sender's as a gap."""
    first = result["first_lost"]
    return Gap(
        tunnel=tunnel,
        lost=result["lost"],
        first=first[0] if first else None,
        last=result["last_lost"],
        total=result["total"],
        rate=rate,
        late=sent["late_seconds"] * 1000,
    )


@dataclass(frozen=True, slots=True)
class Stream:
    """One running flow."""

    tunnel: int
    rate: float
    receiver: NodeProcess
    sender: NodeProcess

    def gap(self) -> Gap:
        """Wait for its end, and tell what was lost."""
        sent = result_of(self.sender, 60)
        return read_gap(self.tunnel, result_of(self.receiver, 60), sent, rate=self.rate)


@contextlib.contextmanager
def running_streams(lab: Lab, flows: Sequence[tuple[int, float, Flow]]) -> Iterator[tuple[Stream, ...]]:
    """A stream for each flow of a tunnel and rate; the body begins when packets of all of them arrive."""
    source, target = lab.node(FORWARD.source), lab.node(FORWARD.target)
    with contextlib.ExitStack() as stack:
        streams = []
        for tunnel, rate, flow in flows:
            port = ("--port", str(flow.port))
            receiver = stack.enter_context(
                start_tool(
                    target, "stream", "receive", FORWARD.address, *port, "--silence", str(SILENCE), "--longest", "20"
                )
            )
            arguments = [sys.executable, "-m", "lab.tools.stream", "send", FORWARD.address, *port, "--flows", "1"]
            arguments += ["--source-port", str(flow.source_port), "--rate", str(rate)]
            arguments += ["--count", str(int(SECONDS * rate))]
            streams.append(Stream(tunnel, rate, receiver, stack.enter_context(source.popen(arguments, cwd=REPO))))
        for stream in streams:
            assert stream.receiver.stdout is not None
            if (line := stream.receiver.stdout.readline().strip()) != "running":
                raise AssertionError(f"no packet of the stream over tunnel {stream.tunnel} arrived: {line!r}")
        yield tuple(streams)


def lose(lab: Lab, variant: Variant) -> str:
    """The match of what a variant loses at isp1."""
    if variant.provider:
        return OF_PROVIDER
    (index,) = variant.hit
    (child,) = [child for child in children(lab.node("gw-a")) if child.tunnel == f"ikeorch.gw-b.{index}"]
    return of_tunnel(child, both_ways=variant.both_ways)


def measure(lab: Lab, variant: Variant) -> tuple[tuple[Gap, ...], float]:
    """One outage under traffic from A to B.

    Returns:
        What became of each flow, those of the hit tunnels first, and when the outage began (Unix seconds).
    """
    gateway, provider = lab.node("gw-a"), lab.node("isp1")
    tunnels = (*variant.hit, *variant.spared)
    interfaces = xfrm_interfaces(gateway)
    flows = choose_flows(gateway, [interfaces[f"gw-b/{index}"].name for index in tunnels], FORWARD, source=SOURCE)
    match = lose(lab, variant)
    rates = (*(RATE for _ in variant.hit), *(SPARED_RATE for _ in variant.spared))
    with running_streams(lab, tuple(zip(tunnels, rates, flows, strict=True))) as streams:
        check_flows(gateway, flows, FORWARD, source=SOURCE)
        with outage([provider], match):
            began = time.time()
            gaps = tuple(stream.gap() for stream in streams)
            taken = lost_in_outage(provider)
    lost = [gap.lost for gap in gaps[: len(variant.hit)]]
    if not all(lost) or sum(lost) > taken:
        raise AssertionError(f"{variant.name}: the hit flows lost {lost} packets, the provider took {taken}")
    return gaps, began


class Findings:
    """What the repeat found, by series."""

    def __init__(self) -> None:
        self.series: dict[str, list[float]] = {}
        self.details: list[dict[str, object]] = []
        self.elsewhere: dict[str, int] = {}
        self.unended = 0

    def add(self, name: str, value: float) -> None:
        """One figure of a series."""
        self.series.setdefault(name, []).append(value)

    def take(self, variant: Variant, who: str, gaps: Sequence[Gap], **more: object) -> None:
        """The gaps of one outage: the longest of the hit flows is its figure.

        Args:
            variant: what was lost.
            who: repaired it; "" for ikeorch.
            gaps: of the hit flows, then of the spared ones.
            more: for the details.
        """
        hit, spared = gaps[: len(variant.hit)], gaps[len(variant.hit) :]
        name = "_".join(filter(None, (variant.name, who, "ms")))
        self.add(name, max(gap.milliseconds for gap in hit))
        self.elsewhere[who] = self.elsewhere.get(who, 0) + sum(gap.lost for gap in spared)
        self.unended += sum(not gap.ended for gap in hit)
        flows = [gap.describe() for gap in gaps]
        self.details.append({"series": name, "flows": flows, **more})
        said = ", ".join(
            f"tunnel {gap.tunnel}: {gap.milliseconds:.0f} ms" + ("" if gap.ended else " (never ended)") for gap in gaps
        )
        late = max(gap.late for gap in gaps)
        said += f"; senders up to {late:.0f} ms late" if late >= LATE else ""
        print(f"  {name}: {said}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def monitored(node: Node) -> Iterator[list[str]]:
    """Watch the kernel's next hops; the list holds what was printed, once the body has ended."""
    text: list[str] = []
    with node.popen(list(MONITOR), env={"TZ": "UTC"}) as monitor:
        yield text
        assert monitor.stdout is not None
        monitor.terminate()
        text.append(monitor.stdout.read())


def measure_ours(lab: Lab, variant: Variant, findings: Findings) -> None:
    """ikeorch: the gap, and how long after the verdict the kernel's groups, of both families, were changed."""
    gateway = lab.node("gw-a")
    standing = next_hops_by_device(gateway)
    interfaces = xfrm_interfaces(gateway)
    with monitored(gateway) as text:
        gaps, began = measure(lab, variant)
    changes = read_changes(text[0])
    detected, repaired = {}, {}
    for judged in read_judged(gateway.log("prober"), began):
        detected[judged.tunnel] = round((judged.when - began) * 1000, 1)
        took = repaired_after(judged, standing[interfaces[judged.tunnel].name], changes)
        if took is not None:
            findings.add("repair_ms", took * 1000)
            repaired[judged.tunnel] = round(took * 1000, 1)
    findings.take(variant, "", gaps, detected_ms=detected, repair_ms=repaired)
    print(f"    judged after {detected} ms, out of the groups after {repaired} ms", file=sys.stderr, flush=True)
    wait_carrying(lab, timeout=60)


def next_hops_by_device(node: Node) -> dict[str, dict[int, int]]:
    """For each interface the groups that it stands in, and by which next hop."""
    entries = node.json(["ip", "-j", "nexthop", "show"])
    devices = {entry["id"]: entry["dev"] for entry in entries if "dev" in entry}
    found: dict[str, dict[int, int]] = {}
    for group in groups(node):
        for member in group["group"]:
            found.setdefault(devices[member["id"]], {})[group["id"]] = member["id"]
    return found


def measure_all(lab: Lab, findings: Findings) -> None:
    """Ours, then the baselines over the same tunnels."""
    for variant in VARIANTS:
        measure_ours(lab, variant, findings)
    for number, interval in enumerate(INTERVALS):
        if number:
            set_interval(lab, interval)
        else:
            replace_ikeorch(lab, interval)
        for variant in VARIANTS:
            gaps, _ = measure(lab, variant)
            findings.take(variant, f"bfd{interval}", gaps)
            wait_settled(lab, interval)


def control(lab: Lab, findings: Findings) -> None:
    """Nobody probes: the gap must not end."""
    for name in GATEWAYS:
        lab.node(name).stop_daemon("prober", signal.SIGKILL)
    gaps, _ = measure(lab, VARIANTS[0])
    findings.take(VARIANTS[0], "without_prober", gaps)


def main() -> int:
    """Measure once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--control", action="store_true", help="without a prober, and nothing else")
    work = control if parser.parse_args().control else measure_all
    findings = Findings()
    with Lab.start(TWO_DC) as lab:
        bring_up(lab)
        try:
            work(lab, findings)
        finally:
            lab.save_logs(Path("build/bench/failover-logs"))
    print(
        json.dumps(
            {
                "series": findings.series,
                "details": findings.details,
                "elsewhere": findings.elsewhere,
                "unended": findings.unended,
                "kernel": platform.release(),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
