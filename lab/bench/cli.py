"""``cli``: how long ``ikeorch --help`` takes, natively, against a Python that starts and does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from lab.bench.contract import Result, paired_ratio

RUNS = 15
IKEORCH = str(Path(sys.executable).parent / "ikeorch")


def timed(*command: str) -> float:
    """Milliseconds that a command takes as a whole process."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Measure in turn, after a warm-up."""
    series: dict[str, list[float]] = {"help": [], "python": [], "with_daemon_imports": []}
    commands = {
        "help": (IKEORCH, "--help"),
        "python": (sys.executable, "-c", "pass"),
        # the control: what help would cost if it imported the daemon
        "with_daemon_imports": (sys.executable, "-c", "import ikeorch.daemon.main"),
    }
    for run in range(RUNS + 1):
        for name, command in commands.items():
            took = timed(*command)
            if run:
                series[name].append(took)
    heavy = statistics.median(series["with_daemon_imports"])
    Result(
        name="cli",
        unit="ms",
        ours="help",
        samples=series,
        ratios={
            "help_ms": statistics.median(series["help"]),
            "help_vs_python": paired_ratio(series["help"], series["python"]),
        },
        control=f"importing the daemon's libraries is seen: {heavy:.0f} ms",
    ).publish()
