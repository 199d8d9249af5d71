"""The form of a benchmark's result: the last line of stdout, and a file with the raw samples."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ikeorch import __version__

OUTPUT = Path("build/bench")
Samples = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One benchmark's outcome.

    Attributes:
        name: the benchmark.
        unit: of `samples`.
        ours: key of our own figure in `samples`.
        samples: raw figures by series.
        ratios: plain numbers.
        control: what the run that was broken on purpose showed.
        environment: facts on where it ran, beside the common ones.
        details: one entry a run, for the file with the raw samples only.
    """

    name: str
    unit: str
    ours: str
    samples: Samples
    ratios: Mapping[str, float]
    control: str
    environment: Mapping[str, object] = field(default_factory=dict)
    details: Sequence[object] = ()

    def publish(self) -> None:
        """Write the raw samples to build/bench/NAME.json and the result as the last line of stdout."""
        OUTPUT.mkdir(parents=True, exist_ok=True)
        environment = {**common_environment(), **self.environment}
        raw: dict[str, object] = {
            "name": self.name,
            "unit": self.unit,
            "samples": self.samples,
            "environment": environment,
        }
        if self.details:
            raw["details"] = self.details
        (OUTPUT / f"{self.name}.json").write_text(json.dumps(raw, indent=2) + "\n")
        medians = {key: round(statistics.median(values), 4) for key, values in self.samples.items()}
        spread = {key: [round(min(values), 4), round(max(values), 4)] for key, values in self.samples.items()}
        line = {
            "name": self.name,
            "runs": min(len(values) for values in self.samples.values()),
            "ours": medians[self.ours],
            "baselines": {key: value for key, value in medians.items() if key != self.ours},
            "ratios": {key: round(value, 4) for key, value in self.ratios.items()},
            "unit": self.unit,
            "spread": spread,
            "control": self.control,
            "environment": environment,
        }
        print(json.dumps(line), flush=True)


def common_environment() -> dict[str, object]:
    """Where a benchmark ran."""
    return {
        "ikeorch": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
    }


def paired_ratio(ours: Sequence[float], other: Sequence[float]) -> float:
    """Median of the ratios of pairs that were measured one after the other."""
    return statistics.median(mine / theirs for mine, theirs in zip(ours, other, strict=True))


def program_version(*command: str) -> str:
    """First line that a program prints of its version."""
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return output.splitlines()[0] if output else ""
