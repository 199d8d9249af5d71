"""What the API shows, as plain JSON values. One function a view; every view carries `format_version`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ikeorch import __version__
from ikeorch.config.place import unpack_sources
from ikeorch.core.conditions import Condition
from ikeorch.core.fabric import describe_change, format_bandwidth
from ikeorch.core.fabric_state import FabricState
from ikeorch.core.plan import Symbol, describe_operation
from ikeorch.core.planner import Planned
from ikeorch.core.revision import Revision
from ikeorch.core.risk_names import Risk
from ikeorch.core.spec import FabricSpec, GatewaySpec, PeerSpec
from ikeorch.core.status import TunnelStatus
from ikeorch.core.units import Seconds
from ikeorch.daemon.explain import explain_plan
from ikeorch.daemon.pass_result import PassResult

FORMAT_VERSION = 1
Json = dict[str, Any]


def status_view(result: PassResult) -> Json:
    """The whole gateway: tunnels, peers and conditions."""
    charon = result.actual.charon
    return {
        "format_version": FORMAT_VERSION,
        "pass": result.number,
        "gateway": {
            "name": result.spec.name,
            "site": result.spec.site,
            "identity": result.spec.identity,
            "version": __version__,
        },
        "charon": {"reachable": charon is not None, "version": charon.version if charon else None},
        "settled": not result.planned and not result.failures and not result.changing,
        "renewing": sorted(str(tunnel) for tunnel in result.renewing),
        "changing": sorted(str(tunnel) for tunnel in result.changing),
        "tunnels": [tunnel_view(tunnel) for tunnel in result.tunnels],
        "peers": [peer_view(result.spec, peer) for peer in result.spec.peers],
        "fabric": fabric_view(result.actual.fabric, result.spec.fabric),
        "conditions": [condition_view(condition) for condition in result.conditions],
    }


def peer_view(spec: GatewaySpec, peer: PeerSpec) -> Json:
    """One peer, as configured."""
    return {
        "name": peer.name,
        "site": peer.site,
        "identity": peer.identity,
        "prefixes": [str(prefix) for prefix in peer.prefixes],
        "tunnels": peer.tunnels.count,
        "initiator": "us" if spec.initiates(peer) else "peer",
    }


def fabric_view(state: FabricState, fabric: FabricSpec) -> Json:
    """The sessions with the leafs, and what each was told; bandwidths in bytes/s as on the wire."""
    return {
        "connected": not state.problem,
        "bandwidth_scale": str(fabric.bandwidth_scale),
        "when_unreachable": fabric.when_unreachable.value,
        "neighbors": [
            {
                "address": str(session.neighbor.address),
                "asn": session.neighbor.asn,
                "state": "up" if session.up else "down",
                "reason": session.reason,
                "since": _time(session.since) if session.since else None,
                "routes": [
                    {
                        "prefix": str(route.prefix),
                        "bandwidth": route.bandwidth,
                        "capacity": format_bandwidth(route.bandwidth, fabric.bandwidth_scale),
                    }
                    for route in (session.sent if session.up else ())
                ],
            }
            for session in state.sessions
        ],
    }


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def condition_view(condition: Condition) -> Json:
    """One condition."""
    return {
        "code": condition.code.value,
        "class": condition.kind.value,
        "severity": condition.severity.value,
        "subject": condition.subject,
        "message": condition.message,
        "hint": condition.hint,
        "since": _time(condition.since),
        "clearing": condition.absent_since is not None,
    }


def tunnel_view(tunnel: TunnelStatus) -> Json:
    """One tunnel. SPIs are hexadecimal text, RTT milliseconds, ages seconds."""
    plan, ike, child = tunnel.plan, tunnel.ike, tunnel.child
    return {
        "tunnel": str(plan.tunnel),
        "peer": plan.tunnel.peer,
        "index": plan.tunnel.index,
        "state": tunnel.state.value,
        "reason": tunnel.reason,
        "path": {"uplink": plan.path.uplink, "local": str(plan.path.local), "remote": str(plan.path.remote)},
        "interface": plan.interface,
        "if_id": plan.if_id,
        "mtu": plan.mtu,
        "inner": [{"local": str(local), "remote": str(remote)} for local, remote in plan.inner],
        "identities": {"local": plan.local_id, "remote": plan.remote_id},
        "initiator": "us" if plan.initiator else "peer",
        "suite": plan.suite,
        "rtt_ms": None if tunnel.rtt is None else round(tunnel.rtt * 1000, 3),
        "weight": tunnel.weight,
        "ike": None
        if ike is None
        else {"id": ike.unique_id, "state": ike.state.value, "suite": ike.suite, "age": ike.age},
        "child": None
        if child is None
        else {
            "id": child.unique_id,
            "state": child.state.value,
            "suite": child.suite,
            "spi_in": f"{child.spi_in:08x}",
            "spi_out": f"{child.spi_out:08x}",
            "age": child.age,
        },
        "bytes_in": child.bytes_in if child else 0,
        "bytes_out": child.bytes_out if child else 0,
        "packets_in": child.packets_in if child else 0,
        "packets_out": child.packets_out if child else 0,
    }


def plan_view(
    planned: Planned,
    unseen: Iterable[Condition],
    risks: Iterable[Risk] = (),
    *,
    text: str,
    in_force: bool,
    at: float,
    explain: bool = False,
) -> Json:
    """What `apply` would do, in order, its risks, and what could not be seen, so that the plan is not all of it.

    Args:
        planned: the plan.
        unseen: why the plan is not all of it.
        risks: what must be accepted.
        text: of the configuration that was planned.
        in_force: whether that is the one in force.
        at: Unix seconds of the look at the world.
        explain: with the lines that each action stands for.
    """
    described = [describe_operation(action.operation) for action in planned.actions]
    words = [f"{action.symbol.value} {text}" for action, text in zip(planned.actions, described, strict=True)]
    actions: list[Json] = [
        {
            "symbol": action.symbol.value,
            "action": text,
            "reason": action.reason,
            "impact": action.impact.value,
            "tunnel": str(action.tunnel) if action.tunnel else None,
        }
        for action, text in zip(planned.actions, described, strict=True)
    ]
    if explain:
        for view, lines in zip(actions, explain_plan(planned), strict=True):
            view["commands"] = lines
    return {
        "format_version": FORMAT_VERSION,
        "in_force": in_force,
        "config_digest": _digest(text),
        "actions_digest": _digest("\n".join(words)),
        "unseen": [condition_view(replace(condition, since=Seconds(at))) for condition in unseen],
        "risks": [_risk_view(risk) for risk in risks],
        "actions": actions,
        "later": _later_view(planned),
    }


def _risk_view(risk: Risk) -> Json:
    return {
        "symbol": Symbol.RISK.value,
        "risk": risk.name.value,
        "subject": risk.subject,
        "message": risk.message,
        "flag": risk.flag,
    }


def _later_view(planned: Planned) -> list[Json]:
    """What no action says yet, since packets must prove the tunnels first."""
    if planned.expected == planned.desired.fabric or not planned.expected.fabric.neighbors:
        return []
    return [
        {
            "action": f"BGP {describe_change(planned.desired.fabric, planned.expected)}",
            "once_proved": [str(tunnel) for tunnel in planned.unproven],
        }
    ]


def history_view(revisions: Iterable[Revision], confirm_within: float | None) -> Json:
    """Every revision, newest first, without its text."""
    return {
        "format_version": FORMAT_VERSION,
        "confirm_within": confirm_within,
        "revisions": [_revision(revision) for revision in sorted(revisions, key=lambda each: -each.number)],
    }


def revision_view(revision: Revision) -> Json:
    """One revision with its files."""
    return {
        "format_version": FORMAT_VERSION,
        **_revision(revision),
        "files": [{"name": source.name, "text": source.text} for source in unpack_sources(revision.text)],
    }


def _revision(revision: Revision) -> Json:
    return {
        "revision": revision.number,
        "at": _time(revision.at),
        "uid": revision.uid if revision.uid >= 0 else None,
        "command": revision.what,
        "outcome": revision.outcome.value,
        "reason": revision.reason,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
