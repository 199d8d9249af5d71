"""``failover``: a path that silently loses everything, and how long the flows over it are interrupted.

Four tunnels of the reference topology, UDP streams of 1,000 packets a second from A to B over tunnels that are known
before (`ip route get`); the gap is counted in sequence numbers at the receiver. Three variants: one tunnel's data lost
both ways, the same from A to B only, and a whole provider. In each repeat, on a lab kernel of its own, they are
measured with ikeorch and then with FRR (BGP and BFD 3 x 300 ms, then 3 x 100 ms) over the same tunnels. The control
has no prober: its gap must not end.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from lab.bench.contract import Result, Samples, program_version
from lab.control import LabError

IKEORCH = str(Path(sys.executable).parent / "ikeorch")
RUNS = int(os.environ.get("IKEORCH_BENCH_RUNS", "5"))
TIMEOUT = 600
"""Seconds for one repeat; it takes two minutes."""
VARIANTS = ("tunnel_both", "tunnel_one_way", "provider")
BASELINES = ("bfd300", "bfd100")


def main() -> None:
    """Repeat on fresh lab kernels and publish what they found."""
    findings = []
    for number in range(1, RUNS + 1):
        print(f"failover: repeat {number} of {RUNS}", file=sys.stderr, flush=True)
        findings.append(measure_once())
    print("failover: the control", file=sys.stderr, flush=True)
    control = measure_once("--control")
    series = merge([found["series"] for found in findings])
    Result(
        name="failover",
        unit="ms",
        ours="provider_ms",
        samples=series,
        ratios={
            **compare(series),
            "repair_ms": median(series["repair_ms"]),
            "repair_max_ms": max(series["repair_ms"]),
            "other_provider_lost": spared_lost(findings, ""),
            **{f"{name}_other_provider_lost": spared_lost(findings, name) for name in BASELINES},
            "gaps_not_ended": sum(found["unended"] for found in findings),
        },
        control=describe_control(control),
        environment={
            "tunnels": 4,
            "lab_kernel": findings[0]["kernel"],
            "charon": program_version("dpkg-query", "-W", "-f", "${Version}", "charon-systemd"),
            "frr": program_version("/usr/lib/frr/bgpd", "--version"),
        },
        details=[entry for found in findings for entry in found["details"]],
    ).publish()


def measure_once(*arguments: str) -> Any:  # noqa: ANN401 - the measuring part's JSON
    """One repeat on a lab kernel of its own.

    Raises:
        LabError: it failed; what it said was passed through.
    """
    command = [IKEORCH, "lab", "run", "--timeout", str(TIMEOUT), "--", sys.executable]
    done = subprocess.run(
        [*command, "-m", "lab.bench.failover_run", *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines or not lines[-1].startswith("{"):
        raise LabError("the measuring part failed; its output is above")
    return json.loads(lines[-1])


def merge(series: Sequence[Samples]) -> dict[str, list[float]]:
    """The same series of several repeats, one after the other."""
    merged: dict[str, list[float]] = {}
    for each in series:
        for name, values in each.items():
            merged.setdefault(name, []).extend(values)
    return merged


def spared_lost(findings: Sequence[Any], who: str) -> int:
    """Packets that flows lost whose tunnel was not hit, "" for ours."""
    return sum(found["elsewhere"][who] for found in findings)


def compare(series: Samples) -> dict[str, float]:
    """Ours against each baseline: for each variant, and of these the worst as the figure of all.

    Args:
        series: milliseconds by "VARIANT_ms" and "VARIANT_BASELINE_ms".
    """
    ratios: dict[str, float] = {}
    for baseline in BASELINES:
        for name, figure in (("median", median), ("p99", ninety_nine)):
            by_variant = {
                variant: figure(series[f"{variant}_ms"]) / figure(series[f"{variant}_{baseline}_ms"])
                for variant in VARIANTS
            }
            ratios[f"{name}_vs_{baseline}"] = max(by_variant.values())
            if name == "median":
                ratios |= {f"{variant}_median_vs_{baseline}": ratio for variant, ratio in by_variant.items()}
    return ratios


def ninety_nine(values: Sequence[float]) -> float:
    """The 99th percentile, the nearest rank: the largest of fewer than 100 values."""
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def describe_control(control: Mapping[str, Any]) -> str:
    """What the control showed.

    Raises:
        LabError: its gap ended, so that an interruption without end cannot be told from a short one.
    """
    (entry,) = control["details"]
    hit, *others = entry["flows"]
    if hit["ended"]:
        raise LabError(f"without a prober the gap ended all the same: {hit}")
    lost = hit["total"] - hit["first"]
    spared = sum(flow["lost"] for flow in others)
    return f"without a prober the gap never ended: {hit['lost']} of the last {lost} packets lost, others {spared}"
