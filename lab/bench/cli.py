"""``cli``: how long commands take, natively: ``--help``, and ``tunnel list`` at 1,000 tunnels against swanctl's list.

Both lists come from one gateway, the fake charon over VICI's real wire (`lab.bench.cli_gateway`). ``swanctl_frozen``
reads one whose answer was composed before, which no real charon's is: a bound from below.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lab.bench.cli_gateway import PEERS, TUNNELS
from lab.bench.contract import Result, paired_ratio, program_version
from lab.control import LabError

RUNS = 15
IKEORCH = str(Path(sys.executable).parent / "ikeorch")


def timed(*command: str) -> float:
    """Milliseconds that a command takes as a whole process."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


@contextlib.contextmanager
def running_gateway(folder: Path) -> Iterator[None]:
    """The gateway, as long as the block lasts."""
    command = [sys.executable, "-m", "lab.bench.cli_gateway", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != "ready":
                raise LabError("the gateway with 1,000 tunnels did not come up; its error stands above")
            yield
        finally:
            process.kill()


def count_lines(word: str, *command: str) -> int:
    """How many lines of a command's output begin with a word."""
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(line.startswith(word) for line in output.splitlines())


def main() -> None:
    """Measure in turn, after a warm-up."""
    with tempfile.TemporaryDirectory() as name, running_gateway(Path(name)):
        commands = {
            "list": (IKEORCH, "tunnel", "list", "--socket", f"{name}/api.sock"),
            "swanctl": ("swanctl", "--list-sas", "--uri", f"unix://{name}/charon.vici"),
            "swanctl_frozen": ("swanctl", "--list-sas", "--uri", f"unix://{name}/frozen.vici"),
            "help": (IKEORCH, "--help"),
            "python": (sys.executable, "-c", "pass"),
            # the control: what help would cost if it imported the daemon
            "with_daemon_imports": (sys.executable, "-c", "import ikeorch.daemon.main"),
        }
        shown = count_lines("gw-p", *commands["list"]), count_lines("ikeorch.gw-p", *commands["swanctl"])
        if shown != (PEERS * TUNNELS,) * 2:
            raise LabError(f"the lists are not whole: {shown[0]} and {shown[1]} of {PEERS * TUNNELS} tunnels")
        series: dict[str, list[float]] = {kind: [] for kind in commands}
        for run in range(RUNS + 1):
            for kind, command in commands.items():
                took = timed(*command)
                if run:
                    series[kind].append(took)
    heavy = statistics.median(series["with_daemon_imports"])
    Result(
        name="cli",
        unit="ms",
        ours="list",
        samples=series,
        ratios={
            "list_vs_swanctl": paired_ratio(series["list"], series["swanctl"]),
            "list_vs_swanctl_frozen": paired_ratio(series["list"], series["swanctl_frozen"]),
            "help_ms": statistics.median(series["help"]),
            "help_vs_python": paired_ratio(series["help"], series["python"]),
        },
        control=f"importing the daemon's libraries is seen: {heavy:.0f} ms",
        environment={"swanctl": program_version("swanctl", "--help"), "load": os.getloadavg()[0]},
    ).publish()
