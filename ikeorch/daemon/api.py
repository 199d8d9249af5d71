"""The local API: HTTP and JSON on a unix socket; who may do what follows from the caller's user id (SO_PEERCRED).

root and the daemon's own user may change things, every other user that can reach the socket may look. A refusal is
always ``{"error": {code, what, where, hint, exit_code}}``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from aiohttp import web

from ikeorch.adapters.peer import peer_of
from ikeorch.config.block import render_peer_block
from ikeorch.config.edit import raise_tunnel_count, remove_peer, set_tunnel_count
from ikeorch.config.loader import LoadedConfig
from ikeorch.config.place import Sources, append_peer, edit_peer
from ikeorch.config.show import configuration_view
from ikeorch.core.ids import MAX_TUNNELS_PER_BUNDLE
from ikeorch.core.units import Seconds
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.daemon.history import History, carrying
from ikeorch.daemon.planning import plan_online
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.daemon.views import FORMAT_VERSION, Json, history_view, status_view
from ikeorch.errors import ConfigError, ExitCode, IkeorchError, NotPermittedError, UsageError

MAX_BODY = 1024 * 1024
MAX_WAIT = 30.0
MAX_CONFIRMATION = 7 * 86400
_HTTP_STATUS = {ExitCode.USAGE: 400, ExitCode.NOT_PERMITTED: 403, ExitCode.TRY_AGAIN: 503}

_log = structlog.get_logger("ikeorch.api")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Api:
    """The API of one daemon.

    Args:
        reconciler: the loop.
        config: the configuration file.
        history: what was put in force.
    """

    def __init__(self, reconciler: Reconciler, config: ConfigFile, history: History) -> None:
        self._reconciler = reconciler
        self._config = config
        self._history = history
        self._runner: web.AppRunner | None = None

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[_answer_errors])
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/plan", self._plan)
        app.router.add_get("/v1/config", self._show_config)
        app.router.add_post("/v1/reload", self._reload)
        app.router.add_post("/v1/apply", self._apply)
        app.router.add_post("/v1/confirm", self._confirm)
        app.router.add_post("/v1/rollback", self._rollback)
        app.router.add_get("/v1/history", self._show_history)
        app.router.add_post("/v1/peers", self._add_peer)
        app.router.add_delete("/v1/peers/{peer}", self._remove_peer)
        app.router.add_put("/v1/peers/{peer}/tunnels", self._set_tunnels)
        return app

    async def start(self, path: Path) -> None:
        """Listen on a unix socket; a left-over one of a dead daemon is replaced (the caller holds the lock)."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - before anything runs
        self._runner = web.AppRunner(self.application(), access_log=None, handle_signals=False)
        await self._runner.setup()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o117)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        await web.SockSite(self._runner, listener).start()

    async def stop(self) -> None:
        """Close the socket and what is open on it."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _status(self, request: web.Request) -> web.Response:
        """The last pass; with ``?after=N`` the first one above N, waited for at most ``?wait=SECONDS``."""
        after = _number(request, "after", default=0, most=2**62)
        wait = _number(request, "wait", default=MAX_WAIT, most=MAX_WAIT)
        result = await self._reconciler.wait_for_pass(int(after), Seconds(wait))
        if result is None:
            raise IkeorchError("the daemon has not finished its first pass", hint="try again in a moment")
        return web.json_response(status_view(result))

    async def _plan(self, request: web.Request) -> web.Response:
        """What `apply` would do: the file as it is now, against the world as it is now.

        ``?explain=1`` adds the commands that each action stands for, ``?snapshot=1`` all that the plan was made from.
        """
        explain, save = (bool(_number(request, name, default=0, most=1)) for name in ("explain", "snapshot"))
        return web.json_response(await self._planned(await self._config.read(), explain=explain, save=save))

    async def _planned(self, loaded: LoadedConfig, *, explain: bool = False, save: bool = False) -> Json:
        return await plan_online(self._reconciler, loaded, self._config.in_force, explain=explain, save=save)

    async def _show_config(self, _: web.Request) -> web.Response:
        """The configuration in force: as written, and with all defaults."""
        loaded = self._config.in_force
        if loaded is None:
            raise IkeorchError("the daemon has put no configuration in force yet", hint="try again in a moment")
        return web.json_response({"format_version": FORMAT_VERSION, **configuration_view(loaded)})

    async def _reload(self, request: web.Request) -> web.Response:
        _require_operator(request)
        loaded = await self.reload("reload by API", uid=_user_id(request))
        return web.json_response(self._changed(loaded, changed=True))

    async def reload(self, reason: str, *, uid: int, within: Seconds | None = None) -> LoadedConfig:
        """Read the file again and put it in force; one that is refused leaves the old one in force.

        Args:
            reason: what asked for it.
            uid: who.
            within: seconds in which it must be confirmed, None for a change that stays.

        Raises:
            ConfigError: it is refused.
            UsageError: a change waits to be confirmed.
        """
        self._history.require_settled()
        try:
            if within is not None:
                self._history.record(await self._config.read(), uid=uid, what=reason, within=within)
            loaded = await self._config.reload()
        except ConfigError as error:
            self._reconciler.refuse_config(str(error))
            raise
        self._history.record(loaded, uid=uid, what=reason)
        self._reconciler.wake(reason)
        return loaded

    async def _apply(self, request: web.Request) -> web.Response:
        """Body: ``confirm_within`` (seconds), and ``config`` and ``actions`` (digests of a plan that was looked at)."""
        _require_operator(request)
        body = await _body(request)
        within = body.get("confirm_within")
        if within is not None and (type(within) not in {int, float} or not 1 <= within <= MAX_CONFIRMATION):
            raise UsageError(f"confirm_within must be a number of seconds from 1 to {MAX_CONFIRMATION}")
        if "config" in body:
            planned = await self._planned(await self._config.read())
            if (body["config"], body.get("actions")) != (planned["config_digest"], planned["actions_digest"]):
                raise IkeorchError("the world moved since the plan was made", hint="make another and look at it")
        before, spec = self._reconciler.last, self._reconciler.spec
        carried = sorted(carrying(before))
        loaded = await self.reload("apply", uid=_user_id(request), within=None if within is None else Seconds(within))
        waiting = self._history.awaited()
        answer = self._changed(loaded, changed=loaded.spec != spec)
        answer["pass"] = before.number if before else 0
        answer["carried"] = carried
        answer["confirm_within"] = waiting[1] if waiting else None
        return web.json_response(answer)

    async def _confirm(self, request: web.Request) -> web.Response:
        _require_operator(request)
        number = await self._history.confirm(uid=_user_id(request))
        return web.json_response({"format_version": FORMAT_VERSION, "revision": number})

    async def _rollback(self, request: web.Request) -> web.Response:
        """Body ``{"revision": N}``, or none for the revision before."""
        _require_operator(request)
        number = (await _body(request)).get("revision")
        if number is not None and type(number) is not int:
            raise UsageError("revision must be a whole number")
        uid = _user_id(request)
        target = await self._history.rollback(number, uid=uid, reason=f"asked for by user id {uid}")
        return web.json_response({"format_version": FORMAT_VERSION, "revision": target})

    async def _show_history(self, _: web.Request) -> web.Response:
        waiting = self._history.awaited()
        return web.json_response(history_view(self._history.revisions(), waiting[1] if waiting else None))

    async def _set_tunnels(self, request: web.Request) -> web.Response:
        """Body ``{"count": N}``: the bundle has N tunnels afterwards; ``{"at_least": N}`` never takes one away."""
        _require_operator(request)
        peer = request.match_info["peer"]
        body = await _body(request)
        key = "at_least" if "at_least" in body else "count"
        count = body.get(key)
        if type(count) is not int or not 0 <= count <= MAX_TUNNELS_PER_BUNDLE:
            raise UsageError(f"{key} must be a whole number from 0 to {MAX_TUNNELS_PER_BUNDLE}")
        edit = set_tunnel_count if key == "count" else raise_tunnel_count
        return await self._edit(request, peer, lambda text, peer, source: edit(text, peer, count, source))

    async def _add_peer(self, request: web.Request) -> web.Response:
        """Body ``{"block": YAML}``: a peer block, as ``tunnel add`` prints it on the other gateway."""
        _require_operator(request)
        block = (await _body(request)).get("block")
        if not isinstance(block, str):
            raise UsageError("block must be the text of a peer block")
        name = ""

        def change(sources: Sources) -> Sources:
            nonlocal name
            changed, name = append_peer(sources, block, "peer block")
            return changed

        self._history.require_settled()
        loaded, changed = await self._config.edit(change)
        return self._edited(request, loaded, name, changed=changed)

    async def _remove_peer(self, request: web.Request) -> web.Response:
        _require_operator(request)
        peer = request.match_info["peer"]
        return await self._edit(request, peer, remove_peer)

    async def _edit(self, request: web.Request, peer: str, edit: Callable[[str, str, str], str]) -> web.Response:
        """Change a peer in the file where it stands."""
        self._history.require_settled()
        loaded, changed = await self._config.edit(lambda sources: edit_peer(sources, peer, edit))
        return self._edited(request, loaded, peer, changed=changed)

    def _edited(self, request: web.Request, loaded: LoadedConfig, peer: str, *, changed: bool) -> web.Response:
        """Say what an edit changed and what the other side needs."""
        self._history.record(loaded, uid=_user_id(request), what=f"{request.method} {request.path}")
        if changed:
            _log.info("config_changed", peer=peer, uid=_user_id(request), request=f"{request.method} {request.path}")
        answer = self._changed(loaded, changed=changed)
        answer["peer"] = peer
        known = loaded.spec.peer(peer)
        if known is not None:
            answer["tunnels"] = [str(tunnel) for tunnel in known.tunnel_ids]
            try:
                answer["peer_block"] = render_peer_block(loaded.spec, known)
            except UsageError as error:
                answer["peer_block"] = f"# {error}\n"
        return web.json_response(answer)

    def _changed(self, loaded: LoadedConfig, *, changed: bool) -> Json:
        return {
            "format_version": FORMAT_VERSION,
            "changed": changed,
            "warnings": [warning.render(str(self._config.path)) for warning in loaded.warnings],
        }


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn our errors into JSON; an error of programming is logged and answered without its insides."""
    try:
        return await handler(request)
    except IkeorchError as error:
        status = _HTTP_STATUS.get(error.exit_code, 409)
        return _refusal(status, error.code, str(error), int(error.exit_code), what=error.what, hint=error.hint)
    except web.HTTPException as error:
        return _refusal(error.status, "http", error.reason, int(ExitCode.ERROR))
    except Exception:
        _log.exception("request_failed", request=f"{request.method} {request.path}")
        return _refusal(500, "internal", "the daemon failed; see its log", int(ExitCode.ERROR))


def _refusal(status: int, code: str, message: str, exit_code: int, *, what: str = "", hint: str = "") -> web.Response:
    error = {"code": code, "message": message, "what": what or message, "hint": hint, "exit_code": exit_code}
    return web.json_response({"format_version": FORMAT_VERSION, "error": error}, status=status)


async def _body(request: web.Request) -> Json:
    try:
        body = await request.json()
    except (ValueError, UnicodeDecodeError):
        raise UsageError("the body is no JSON") from None
    if not isinstance(body, dict):
        raise UsageError("the body must be a JSON object")
    return body


def _number(request: web.Request, name: str, *, default: float, most: float) -> float:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.replace(".", "", 1).isdecimal() or not text.isascii() or len(text) > 20:
        raise UsageError(f"{name} must be a number from 0 to {most:g}")
    return min(float(text), most)


def _user_id(request: web.Request) -> int:
    """The caller's user id, as the kernel says."""
    peer = peer_of(request.transport)
    return -1 if peer is None else peer.uid


def _require_operator(request: web.Request) -> None:
    user = _user_id(request)
    if user not in {0, os.geteuid()}:
        raise NotPermittedError(f"user id {user} may look but not change", hint="try as root")
