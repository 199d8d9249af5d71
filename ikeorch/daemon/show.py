"""What the API shows of one tunnel, one peer and the configuration, each with the reasons for its state."""

from __future__ import annotations

from aiohttp import web

from ikeorch.config.loader import LoadedConfig
from ikeorch.config.show import configuration_view
from ikeorch.core.ids import TunnelId
from ikeorch.core.plan import describe_operation
from ikeorch.core.why import Why, why_configuration, why_peer, why_tunnel
from ikeorch.daemon.pass_result import PassResult
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.daemon.views import FORMAT_VERSION, Json, condition_view, peer_view, tunnel_view
from ikeorch.errors import UnknownNameError

SHOWN = 8
"""Names that are told to somebody who asked for one that is not there."""


def show_routes(reconciler: Reconciler) -> list[web.RouteDef]:
    """The routes of both."""

    async def tunnel(request: web.Request) -> web.Response:
        name = f"{request.match_info['peer']}/{request.match_info['index']}"
        return web.json_response(tunnel_answer(reconciler.require_pass(), name))

    async def peer(request: web.Request) -> web.Response:
        return web.json_response(peer_answer(reconciler.require_pass(), request.match_info["peer"]))

    return [web.get("/v1/tunnels/{peer}/{index}", tunnel), web.get("/v1/peers/{peer}", peer)]


def tunnel_answer(result: PassResult, name: str) -> Json:
    """One tunnel.

    Raises:
        UnknownNameError: there is none of that name.
    """
    found = next((status for status in result.tunnels if str(status.plan.tunnel) == name), None)
    if found is None:
        known = ", ".join(str(status.plan.tunnel) for status in result.tunnels[:SHOWN]) or "none"
        raise UnknownNameError(f"there is no tunnel {name[:80]!r}", hint=f"tunnels: {known}; a name is PEER/INDEX")
    tunnel = found.plan.tunnel
    peer = result.spec.peer(tunnel.peer)
    site = peer.site if peer else ""
    why = why_tunnel(found, result.conditions, site=site, actions=_failed(result, {tunnel}))
    return {
        "format_version": FORMAT_VERSION,
        "tunnel": tunnel_view(found),
        "conditions": [condition_view(each) for each in result.conditions if each.subject == name],
        "why": why_view(why),
    }


def peer_answer(result: PassResult, name: str) -> Json:
    """One peer and its tunnels.

    Raises:
        UnknownNameError: there is none of that name.
    """
    peer = result.spec.peer(name)
    if peer is None:
        known = ", ".join(each.name for each in result.spec.peers[:SHOWN]) or "none"
        raise UnknownNameError(f"there is no peer {name[:80]!r}", hint=f"configured peers: {known}")
    tunnels = [status for status in result.tunnels if status.plan.tunnel.peer == name]
    actions = _failed(result, {status.plan.tunnel for status in tunnels})
    why = why_peer(name, tunnels, result.conditions, site=peer.site, actions=actions)
    return {
        "format_version": FORMAT_VERSION,
        "peer": peer_view(result.spec, peer),
        "tunnels": [tunnel_view(status) for status in tunnels],
        "conditions": [condition_view(each) for each in result.conditions if each.subject == name],
        "why": why_view(why),
    }


def configuration_answer(loaded: LoadedConfig, result: PassResult | None) -> Json:
    """The configuration in force, as written and with all defaults, and what is to be said of it.

    Args:
        loaded: the configuration.
        result: the last pass, None before the first.
    """
    why = why_configuration(result.conditions if result else ())
    return {"format_version": FORMAT_VERSION, **configuration_view(loaded), "why": why_view(why)}


def why_view(why: Why) -> Json:
    """A chain of reasons."""
    return {
        "summary": why.summary,
        "because": [{"about": reason.about, **condition_view(reason.condition)} for reason in why.because],
    }


def _failed(result: PassResult, tunnels: set[TunnelId]) -> list[str]:
    """What was to be done for these tunnels and failed."""
    return [describe_operation(each.action.operation) for each in result.failures if each.action.tunnel in tunnels]
