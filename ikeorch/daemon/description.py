"""The API's OpenAPI 3.1 description, a file of the package; tests hold it against routes and answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from aiohttp import web

from ikeorch.errors import UsageError


@cache
def api_description() -> dict[str, Any]:
    """The description."""
    text = (files("ikeorch.daemon") / "openapi.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def require_described(request: web.Request) -> None:
    """Refuse a query with a parameter that its path does not have: a mistyped one would do something else unseen.

    Raises:
        UsageError: it has one.
    """
    if request.query:
        parameters = _operation(request).get("parameters", [])
        known = [each["name"] for each in parameters if each["in"] == "query"]
        _require_known(request.query, known, "parameter")


def require_described_body(request: web.Request, body: Mapping[str, object]) -> None:
    """Refuse a body with a key that its operation does not have, for the same reason.

    Raises:
        UsageError: it has one.
    """
    content = _operation(request).get("requestBody", {}).get("content", {})
    _require_known(body, list(content.get("application/json", {}).get("schema", {}).get("properties", {})), "key")


def _operation(request: web.Request) -> dict[str, Any]:
    """What is described of the request's operation; nothing for a path that is not there."""
    resource = request.match_info.route.resource
    described = api_description()["paths"].get(resource.canonical, {}) if resource is not None else {}
    found: dict[str, Any] = described.get(request.method.lower(), {})
    return found


def _require_known(given: Iterable[str], known: Sequence[str], kind: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        hint = f"there are {', '.join(known)}" if known else "there is none"
        raise UsageError(f"there is no {kind} {unknown[0][:80]!r}", hint=hint)


async def serve_description(_: web.Request) -> web.Response:
    """Answer with it."""
    return web.json_response(api_description())
