"""The local API: HTTP and JSON on a unix socket; who may do what follows from the caller's user id (SO_PEERCRED).

root and the daemon's own user may change things, every other user that can reach the socket may look. A refusal is
always ``{"error": {code, what, where, hint, exit_code}}``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import structlog
from aiohttp import web

from ikeorch.config.block import render_peer_block
from ikeorch.config.edit import raise_tunnel_count, remove_peer, set_tunnel_count
from ikeorch.config.loader import LoadedConfig
from ikeorch.config.place import Sources, append_peer, edit_peer
from ikeorch.core.ids import MAX_TUNNELS_PER_BUNDLE
from ikeorch.core.revision import Terms
from ikeorch.core.units import Seconds
from ikeorch.daemon.config_file import ConfigFile, Gate
from ikeorch.daemon.description import serve_description
from ikeorch.daemon.history import USUAL, History
from ikeorch.daemon.losses import carrying
from ikeorch.daemon.planning import plan_online
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.daemon.request import (
    answer_errors,
    flag_of,
    number_of,
    read_body,
    read_body_if_any,
    require_operator,
    user_id,
    whole,
)
from ikeorch.daemon.risk import accepted_risks, gate
from ikeorch.daemon.show import configuration_answer, show_routes
from ikeorch.daemon.status_text import StatusText
from ikeorch.daemon.terms import read_terms
from ikeorch.daemon.views import FORMAT_VERSION, Json, history_view, revision_view
from ikeorch.errors import ConfigError, IkeorchError, UsageError

MAX_BODY = 1024 * 1024
MAX_WAIT = 30.0
_EDITS = {"POST": "peer add", "DELETE": "peer remove", "PUT": "tunnel count of"}
"""What the history calls a change of one peer."""

_log = structlog.get_logger("ikeorch.api")


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
        self._status_text = StatusText()
        self._runner: web.AppRunner | None = None

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=MAX_BODY, middlewares=[answer_errors])
        app.router.add_get("/v1/openapi.json", serve_description)
        app.router.add_get("/v1/status", self._status)
        app.router.add_routes(show_routes(self._reconciler))
        app.router.add_get("/v1/plan", self._plan)
        app.router.add_get("/v1/config", self._show_config)
        app.router.add_post("/v1/reload", self._reload)
        app.router.add_post("/v1/apply", self._apply)
        app.router.add_post("/v1/confirm", self._confirm)
        app.router.add_post("/v1/rollback", self._rollback)
        app.router.add_get("/v1/history", self._show_history)
        app.router.add_get("/v1/history/{revision}", self._show_revision)
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
        after = number_of(request, "after", default=0, most=2**62)
        wait = number_of(request, "wait", default=MAX_WAIT, most=MAX_WAIT)
        await self._reconciler.wait_for_pass(int(after), Seconds(wait))
        result = self._reconciler.require_pass()
        text = self._status_text.of(result, on_trial=self._history.on_trial())
        return web.json_response(text=text)

    async def _plan(self, request: web.Request) -> web.Response:
        """What `apply` would do: the file as it is now, against the world as it is now.

        ``?explain=1`` adds the commands that each action stands for, ``?snapshot=1`` all that the plan was made from.
        """
        explain, save = flag_of(request, "explain"), flag_of(request, "snapshot")
        return web.json_response(await self._planned(await self._config.read(), explain=explain, save=save))

    async def _planned(self, loaded: LoadedConfig, *, explain: bool = False, save: bool = False) -> Json:
        return await plan_online(self._reconciler, loaded, self._config.in_force, explain=explain, save=save)

    async def _show_config(self, _: web.Request) -> web.Response:
        """The configuration in force: as written, and with all defaults."""
        loaded = self._config.in_force
        if loaded is None:
            raise IkeorchError("the daemon has put no configuration in force yet", hint="try again in a moment")
        return web.json_response(configuration_answer(loaded, self._reconciler.last))

    async def _reload(self, request: web.Request) -> web.Response:
        """Body: ``accept_risks``, names of risks."""
        require_operator(request)
        loaded, _ = await self.reload(
            "reload by API", uid=user_id(request), gate=self._gate(await read_body_if_any(request))
        )
        return web.json_response(self._changed(loaded, changed=True))

    def _gate(self, body: Json) -> Gate:
        return gate(self._reconciler, accepted_risks(body))

    async def reload(
        self, reason: str, *, uid: int, terms: Terms = USUAL, gate: Gate | None = None
    ) -> tuple[LoadedConfig, int | None]:
        """Read the file again and put it in force; one that is refused leaves the old one in force.

        Args:
            reason: what asked for it.
            uid: who.
            terms: on which terms.
            gate: asked before, None where there is nobody to accept a risk.

        Returns:
            The configuration, and the number of its revision, None for one that is in force already.

        Raises:
            ConfigError: it is refused.
            RiskError: the gate refuses.
            UsageError: a change waits to be confirmed.
        """
        async with self._history.changes:
            self._history.require_settled()
            try:
                loaded = await self._config.read()
            except ConfigError as error:
                self._reconciler.refuse_config(str(error))
                raise
            if gate is not None:
                await gate(loaded)
            number = None
            if terms.within is not None:
                number = self._history.record(loaded, uid=uid, what=reason, terms=terms)
            self._config.enforce(loaded)
            number = self._history.record(loaded, uid=uid, what=reason, terms=terms) or number
        self._reconciler.wake(reason)
        return loaded, number

    async def _apply(self, request: web.Request) -> web.Response:
        """Put the file in force.

        Body: ``confirm_within`` and ``wait_for_peer`` (seconds), ``max_lost`` (0 to 1), ``operator`` (the caller's IP
        address), ``accept_risks``, and ``config`` and ``actions`` (digests of a plan that was looked at).
        """
        require_operator(request)
        body = await read_body(request)
        terms = read_terms(body)
        risks = self._gate(body)

        async def gate(loaded: LoadedConfig) -> None:
            if "config" in body:
                planned = await self._planned(loaded)
                if (body["config"], body.get("actions")) != (planned["config_digest"], planned["actions_digest"]):
                    raise IkeorchError("the world moved since the plan was made", hint="make another and look at it")
            await risks(loaded)

        before, spec = self._reconciler.last, self._reconciler.spec
        carried = sorted(carrying(before))
        loaded, number = await self.reload("apply", uid=user_id(request), terms=terms, gate=gate)
        waiting = self._history.awaited()
        answer = self._changed(loaded, changed=loaded.spec != spec)
        answer["pass"] = self._reconciler.begun
        answer["carried"] = carried
        answer["revision"] = number
        answer["confirm_within"] = waiting[1] if waiting else None
        if terms.within is not None and waiting is None:
            answer["warnings"].append("nothing waits for a confirmation: this file was in force already")
        return web.json_response(answer)

    async def _confirm(self, request: web.Request) -> web.Response:
        require_operator(request)
        number = await self._history.confirm(uid=user_id(request))
        answer = {"format_version": FORMAT_VERSION, "revision": number, "on_trial": self._history.on_trial()}
        return web.json_response(answer)

    async def _rollback(self, request: web.Request) -> web.Response:
        """Body ``{"revision": N}``, or none for the revision before; ``accept_risks``."""
        require_operator(request)
        body = await read_body(request)
        given = body.get("revision")
        number = whole(given)
        if given is not None and number is None:
            raise UsageError("revision must be a whole number")
        uid = user_id(request)
        target = await self._history.rollback(
            number, uid=uid, reason=f"asked for by user id {uid}", gate=self._gate(body)
        )
        return web.json_response({"format_version": FORMAT_VERSION, "revision": target})

    async def _show_history(self, _: web.Request) -> web.Response:
        waiting = self._history.awaited()
        return web.json_response(history_view(self._history.revisions(), waiting[1] if waiting else None))

    async def _show_revision(self, request: web.Request) -> web.Response:
        """The files of one revision."""
        text = request.match_info["revision"]
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        return web.json_response(revision_view(self._history.revision(number)))

    async def _set_tunnels(self, request: web.Request) -> web.Response:
        """Body ``{"count": N}``: the bundle has N tunnels afterwards; ``{"at_least": N}`` never takes one away."""
        require_operator(request)
        peer = request.match_info["peer"]
        body = await read_body(request)
        key = "at_least" if "at_least" in body else "count"
        count = whole(body.get(key))
        if count is None or not 0 <= count <= MAX_TUNNELS_PER_BUNDLE:
            raise UsageError(f"{key} must be a whole number from 0 to {MAX_TUNNELS_PER_BUNDLE}")
        edit = set_tunnel_count if key == "count" else raise_tunnel_count
        return await self._edit(request, body, peer, lambda text, peer, source: edit(text, peer, count, source))

    async def _add_peer(self, request: web.Request) -> web.Response:
        """Body ``{"block": YAML}``: a peer block, as ``tunnel add`` prints it on the other gateway."""
        require_operator(request)
        body = await read_body(request)
        block = body.get("block")
        if not isinstance(block, str):
            raise UsageError("block must be the text of a peer block")
        name = ""

        def change(sources: Sources) -> Sources:
            nonlocal name
            changed, name = append_peer(sources, block, "peer block")
            return changed

        async with self._history.changes:
            self._history.require_settled()
            loaded, changed = await self._config.edit(change, self._gate(body))
            return self._edited(request, loaded, name, changed=changed)

    async def _remove_peer(self, request: web.Request) -> web.Response:
        """Body: none, or ``accept_risks``."""
        require_operator(request)
        peer = request.match_info["peer"]
        body = await read_body_if_any(request)
        return await self._edit(request, body, peer, remove_peer)

    async def _edit(
        self, request: web.Request, body: Json, peer: str, edit: Callable[[str, str, str], str]
    ) -> web.Response:
        """Change a peer in the file where it stands."""
        async with self._history.changes:
            self._history.require_settled()
            loaded, changed = await self._config.edit(lambda sources: edit_peer(sources, peer, edit), self._gate(body))
            return self._edited(request, loaded, peer, changed=changed)

    def _edited(self, request: web.Request, loaded: LoadedConfig, peer: str, *, changed: bool) -> web.Response:
        """Say what an edit changed and what the other side needs."""
        self._history.record(loaded, uid=user_id(request), what=f"{_EDITS[request.method]} {peer}")
        if changed:
            _log.info("config_changed", peer=peer, uid=user_id(request), request=f"{request.method} {request.path}")
        answer = self._changed(loaded, changed=changed, peer=peer)
        answer["peer"] = peer
        known = loaded.spec.peer(peer)
        if known is not None:
            answer["tunnels"] = [str(tunnel) for tunnel in known.tunnel_ids]
            try:
                answer["peer_block"] = render_peer_block(loaded.spec, known)
            except UsageError as error:
                answer["peer_block"] = f"# {error}\n"
        return web.json_response(answer)

    def _changed(self, loaded: LoadedConfig, *, changed: bool, peer: str | None = None) -> Json:
        """The answer to a change, with all warnings, or with those that concern one peer."""
        about = [("peers", at) for at, each in enumerate(loaded.spec.peers) if each.name == peer]
        return {
            "format_version": FORMAT_VERSION,
            "changed": changed,
            "warnings": [
                warning.render(str(self._config.path))
                for warning in loaded.warnings
                if peer is None or warning.location[:2] in about
            ]
            + ([self._history.unwritten] if self._history.unwritten else []),
        }
