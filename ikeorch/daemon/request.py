"""Reading a request: who asks, what the query and the body hold, and every refusal in one form."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from ikeorch.adapters.peer import peer_of
from ikeorch.daemon.description import require_described, require_described_body
from ikeorch.daemon.views import FORMAT_VERSION, Json
from ikeorch.errors import ExitCode, IkeorchError, NotNowError, NotPermittedError, UnknownNameError, UsageError

_log = structlog.get_logger("ikeorch.api")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HTTP_STATUS: tuple[tuple[type[IkeorchError], int], ...] = (
    (UnknownNameError, 404),
    (NotNowError, 409),
    (UsageError, 400),
    (NotPermittedError, 403),
    (IkeorchError, 409),
)
"""The first that fits."""
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?([eE][+-]?\d{1,3})?", re.ASCII)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn our errors into JSON; an error of programming is logged and answered without its insides."""
    try:
        require_described(request)
        return await handler(request)
    except IkeorchError as error:
        status = next(status for kind, status in _HTTP_STATUS if isinstance(error, kind))
        return _refusal(status, error.code, str(error), int(error.exit_code), what=error.what, hint=error.hint)
    except web.HTTPException as error:
        return _refusal(error.status, "http", error.reason, int(ExitCode.ERROR))
    except Exception:
        _log.exception("request_failed", request=f"{request.method} {request.path}")
        return _refusal(500, "internal", "the daemon failed; see its log", int(ExitCode.ERROR))


def _refusal(status: int, code: str, message: str, exit_code: int, *, what: str = "", hint: str = "") -> web.Response:
    error = {"code": code, "message": message, "what": what or message, "hint": hint, "exit_code": exit_code}
    return web.json_response({"format_version": FORMAT_VERSION, "error": error}, status=status)


async def read_body_if_any(request: web.Request) -> Json:
    """The body of a request that needs none.

    Raises:
        UsageError: there is one, and `read_body` refuses it.
    """
    return await read_body(request) if request.body_exists else {}


async def read_body(request: web.Request) -> Json:
    """The body: a JSON object with nothing but described keys.

    Raises:
        UsageError: it is something else.
    """
    try:
        body = await request.json()
    except (ValueError, UnicodeDecodeError):
        raise UsageError("the body is no JSON") from None
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object")
    require_described_body(request, body)
    return body


def whole(value: object) -> int | None:
    """A whole number of a body, also where it is written as 4.0; None for anything else."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def flag_of(request: web.Request, name: str) -> bool:
    """A query parameter that is 0 or 1; without it 0.

    Raises:
        UsageError: it is something else.
    """
    value = request.query.get(name, "0")
    if value not in {"0", "1"}:
        raise UsageError(f"{name} must be 0 or 1")
    return value == "1"


def number_of(request: web.Request, name: str, *, default: float, most: float) -> float:
    """A number of the query, at most `most`.

    Raises:
        UsageError: it is no number, or below 0.
    """
    text = request.query.get(name)
    if text is None:
        return default
    if _NUMBER.fullmatch(text) is None:
        raise UsageError(f"{name} must be a number from 0 to {most:g}")
    return min(float(text), most)


def user_id(request: web.Request) -> int:
    """The caller's user id, as the kernel says."""
    peer = peer_of(request.transport)
    return -1 if peer is None else peer.uid


def require_operator(request: web.Request) -> None:
    """Let only root and the daemon's own user change things.

    Raises:
        NotPermittedError: the caller is somebody else.
    """
    user = user_id(request)
    if user not in {0, os.geteuid()}:
        raise NotPermittedError(f"user id {user} may look but not change", hint="try as root")
