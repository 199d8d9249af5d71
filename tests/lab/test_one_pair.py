"""All four tunnels on one address pair, from twenty fresh starts, each on a lab kernel of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parent.parent.parent
STARTS = 20

pytestmark = [pytest.mark.guests, pytest.mark.timeout(1800)]


def start_afresh(number: int) -> dict[str, Any]:
    """One fresh lab kernel with the topology of one address pair; what it looked like."""
    command = [str(Path(sys.executable).parent / "ikeorch"), "lab", "run", "--timeout", "240"]
    command += ["--share", str(REPO / "build" / f"one-pair-{number}"), "--"]
    result = subprocess.run(
        [*command, sys.executable, "-m", "lab.scenarios.one_pair"],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    report: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return report


def test_twenty_fresh_starts_are_all_right() -> None:
    """Every time: four SAs in the right interfaces on both ends, 0 COOKIEs and 0 retransmissions in either log."""
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        reports = list(pool.map(start_afresh, range(STARTS)))
    assert len(reports) == STARTS
    for report in reports:
        for gateway, peer in (("gw-a", "gw-b"), ("gw-b", "gw-a")):
            seen = report[gateway]
            assert seen["ike_sas"] == 4
            assert seen["tunnels"] == [f"ikeorch.{peer}.{index}" for index in range(4)]
            assert seen["child_if_ids"] == seen["interface_if_ids"]
            assert seen["log_lines"] > 20
            assert (seen["cookies"], seen["retransmissions"]) == (0, 0)
        assert report["arrivals"] == {
            str(index): {str(other): 3 if other == index else 0 for other in range(4)} for index in range(4)
        }
