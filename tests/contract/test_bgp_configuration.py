"""The rendered configuration, read by the real ExaBGP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bgp.configuration import render_configuration
from bgp.process import environment, shim_command
from tests.contract.exabgp_world import EXABGP
from tests.unit.bgp.test_configuration import NEIGHBORS


def check(path: Path) -> subprocess.CompletedProcess[str]:
    """ExaBGP's own check, neighbours included."""
    return subprocess.run(
        [EXABGP, "validate", "--neighbor", str(path)],
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("count", [0, 1, 2])
def test_exabgp_takes_what_we_render(tmp_path: Path, count: int) -> None:
    """With no neighbour, and with each kind of them."""
    path = tmp_path / "exabgp.conf"
    path.write_text(render_configuration(NEIGHBORS[:count], shim_command(tmp_path / "sock", python=sys.executable)))
    result = check(path)
    assert (result.returncode, result.stdout + result.stderr) == (0, result.stdout + result.stderr)


def test_exabgps_check_can_fail(tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    path = tmp_path / "exabgp.conf"
    text = render_configuration(NEIGHBORS, shim_command(tmp_path / "sock", python=sys.executable))
    path.write_text(text.replace("hold-time", "hold-tine"))
    assert check(path).returncode == 1
