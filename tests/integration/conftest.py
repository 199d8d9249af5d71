"""A gateway on stand-ins for every test of the daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.world import World, gateway


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Gateway A with four tunnels configured; charon and kernel are empty."""
    async with gateway(tmp_path) as built:
        yield built
