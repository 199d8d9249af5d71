"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def fresh_logs() -> Iterator[None]:
    """A command under test sets logging up on that test's stderr, which is closed when the next one runs."""
    yield
    structlog.reset_defaults()
