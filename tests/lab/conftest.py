"""The two sites, brought up once a module; they run on a lab kernel (`ikeorch lab run`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.runner import TWO_DC, Lab
from lab.scenarios.sites import bring_up


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two sites, as built: no daemon runs yet."""
    with Lab.start(TWO_DC) as running:
        yield running
        running.save_logs(Path("build/lab-logs"))


@pytest.fixture(scope="module")
def sites(lab: Lab) -> Lab:
    """Two sites with four tunnels that carry packets."""
    bring_up(lab)
    return lab
