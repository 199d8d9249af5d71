"""The API under schemathesis: whatever is asked of a running daemon, the answer is one that the description knows."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ikeorch.daemon.description import api_description
from tests.integration.described import unix_session
from tests.integration.world import World, gateway, up

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.generation import GenerationMode

EXAMPLES = 30
"""Of each operation, for good and for bad requests each."""
SHORT = "0.02"
"""Seconds; nobody waits for a pass here."""


def can_be_wrong(operation: dict[str, Any]) -> bool:
    """Whether a request can contradict the description; any text is a name."""
    return any(each["schema"]["type"] != "string" for each in operation.get("parameters", []))


OPERATIONS = [
    (path, method, mode)
    for path, item in api_description()["paths"].items()
    for method, operation in item.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "requestBody" in operation or can_be_wrong(operation)
]


@pytest.fixture(scope="module")
def description() -> Any:
    """The description as schemathesis reads it."""
    return schemathesis.openapi.from_dict(api_description())


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[World]:
    """A gateway whose loop runs, with tunnels that carry."""
    async with gateway(tmp_path) as built:
        await up(built)
        loop = asyncio.create_task(built.reconciler.run())
        yield built
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


def requests_of(operation: Any, mode: GenerationMode) -> st.SearchStrategy[Any]:
    """Requests that fit the description, or that do not."""
    return operation.as_strategy(generation_mode=mode)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS, ids=lambda each: getattr(each, "value", each))
async def test_no_request_finds_an_answer_that_is_not_described(
    running: World,
    description: Any,
    path: str,
    method: str,
    mode: GenerationMode,
) -> None:
    """No 5xx, no undescribed status or body; and the gateway goes on as before."""
    operation = description[path][method.upper()]
    with unix_session(running.config.parent / "api.sock") as session:

        @given(case=requests_of(operation, mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def hammer(case: Any) -> None:
            if isinstance(case.query, dict) and path == "/v1/status":
                case.query["wait"] = SHORT if _is_number(case.query.get("wait", SHORT)) else case.query["wait"]
            answer = case.call(base_url="http://localhost", session=session)
            assert answer.status_code < 500, answer.text
            case.validate_response(answer)

        await asyncio.to_thread(hammer)
    answer = await asyncio.to_thread(running.client.get, "/v1/status")
    assert answer["charon"]["reachable"]


def _is_number(value: object) -> bool:
    try:
        return float(str(value)) >= 0
    except ValueError:
        return False
