"""``bringup``: 64 tunnels from nothing to a packet through each, against strongSwan's own ways, in one lab kernel.

Each series is measured in turn (A B C A B C ...): ours by one API call on each end; (a) a loop of
``swanctl --initiate``; (b) charon's own ``start_action=start``. Every run begins with fresh namespaces and daemons and
ends when an echo came back through each tunnel. The control has one tunnel with a wrong identity and must not end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lab.bench.contract import Result, paired_ratio, program_version
from lab.control import LabError

IKEORCH = str(Path(sys.executable).parent / "ikeorch")
RUNS = 7
TIMEOUT = 3000


def main() -> None:
    """Run the measuring part on a lab kernel and publish what it found."""
    command = [IKEORCH, "lab", "run", "--timeout", str(TIMEOUT), "--", sys.executable]
    process = subprocess.Popen(
        [*command, "-m", "lab.bench.bringup_run", "--runs", str(RUNS)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        last = line
        if not line.startswith("{"):
            print(line, end="", flush=True)
    if process.wait() != 0 or not last.startswith("{"):
        raise LabError("the measuring part failed; its output is above")
    found = json.loads(last)
    series = found["series"]
    ratios = {}
    for delay in ("rtt0", "rtt30"):
        ratios[f"{delay}_vs_loop"] = paired_ratio(series[f"{delay}_ours"], series[f"{delay}_loop"])
        ratios[f"{delay}_vs_native"] = paired_ratio(series[f"{delay}_ours"], series[f"{delay}_native"])
    ratios["one_pair_retransmissions"] = max(found["one_pair_retransmissions"])
    ratios["one_pair_cookies"] = max(found["one_pair_cookies"])
    ratios["one_pair_rtt30_vs_loop"] = paired_ratio(series["one_pair_rtt30_ours"], series["one_pair_rtt30_loop"])
    Result(
        name="bringup",
        unit="s",
        ours="rtt0_ours",
        samples=series,
        ratios=ratios,
        control=found["control"],
        environment={
            "tunnels": found["tunnels"],
            "lab_kernel": found["kernel"],
            "charon": program_version("dpkg-query", "-W", "-f", "${Version}", "charon-systemd"),
        },
    ).publish()
