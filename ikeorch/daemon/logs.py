"""Structured logs on stderr: one line an event, JSON for machines or aligned text for a terminal."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(*, json: bool, debug: bool) -> None:
    """Set structlog up for the whole process.

    Args:
        json: one JSON object a line instead of text.
        debug: also what did not change anything.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
