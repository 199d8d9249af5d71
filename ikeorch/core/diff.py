"""From desired and actual to an ordered plan.

Nothing is deleted on "unknown": a kernel or a charon that could not be read gives no actions at all, and only what
carries our mark ever appears in an actual state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import CharonState
from ikeorch.core.desired import Desired, TunnelPlan
from ikeorch.core.fabric import FabricWish, describe_change, restarted_sessions
from ikeorch.core.ids import CONNECTION_PREFIX, TunnelId
from ikeorch.core.kernel_state import (
    Guard,
    GuardPeer,
    IPNetwork,
    KernelObject,
    KernelState,
    NextHop,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
    collapse_networks,
    without_devices,
)
from ikeorch.core.plan import (
    Action,
    Advertise,
    EnsureObject,
    Impact,
    LoadAuthority,
    LoadConnection,
    LoadKey,
    RemoveObject,
    Step,
    Symbol,
    UnloadConnection,
)

_ENSURE_STEP = {
    Sysctl: Step.SETTING,
    Guard: Step.GUARD_NARROW,
    SourceRule: Step.UNDERLAY,
    UnderlayRoute: Step.UNDERLAY,
    XfrmInterface: Step.LINK,
    NextHop: Step.NEXT_HOP,
    NextHopGroup: Step.GROUP,
    PrefixRoute: Step.ROUTE,
}
_REMOVE_STEP = {
    SourceRule: Step.UNDERLAY_REMOVE,
    UnderlayRoute: Step.UNDERLAY_REMOVE,
    XfrmInterface: Step.LINK_REMOVE,
    NextHop: Step.NEXT_HOP_REMOVE,
    NextHopGroup: Step.GROUP_REMOVE,
    PrefixRoute: Step.ROUTE_REMOVE,
}


def diff_states(desired: Desired, actual: Actual) -> tuple[Action, ...]:
    """All that must be done to the kernel and to charon's configuration, in order; SAs are `core.establish`'s.

    Returns:
        Empty when nothing differs. Stable: the same input gives the same order.
    """
    actions: list[Action] = []
    if actual.kernel is not None:
        actions.extend(_diff_kernel(desired, actual.kernel))
        actions.extend(_diff_fabric(desired.fabric, actual.fabric.wish))
    if actual.charon is not None and desired.connections is not None:
        actions.extend(_diff_charon(desired, actual.charon))
    return tuple(sorted(actions, key=lambda action: action.step))


def _diff_fabric(wanted: FabricWish, asked: FabricWish | None) -> Iterable[Action]:
    """ExaBGP's own state is the speaker's matter; here it counts what the speaker was asked for."""
    if wanted == asked or (asked is None and not wanted.fabric.neighbors):
        return
    action = Action(
        step=Step.ANNOUNCE,
        operation=Advertise(wanted, describe_change(asked, wanted)),
        symbol=Symbol.ADD,
        reason="the fabric was not told yet",
    )
    if asked is not None:
        restarted = restarted_sessions(asked, wanted)
        reason = "what the tunnels can carry changed" if asked.routes != wanted.routes else "configured otherwise"
        if restarted:
            reason += f"; the session with {', '.join(str(each) for each in restarted)} begins anew, its routes with it"
        impact = Impact.OUTAGE if restarted else Impact.NONE
        action = replace(action, symbol=Symbol.RISK if restarted else Symbol.CHANGE, reason=reason, impact=impact)
    yield action


def _diff_kernel(desired: Desired, kernel: KernelState) -> Iterable[Action]:
    owners = {plan.interface: plan.tunnel for plan in desired.tunnels.values()}
    owners |= {entry.name: entry.tunnel for entry in kernel.objects.values() if isinstance(entry, XfrmInterface)}
    anew = _made_anew(desired, kernel)
    objects = without_devices(kernel.objects, anew) if anew else kernel.objects
    bundles = Counter(tunnel.peer for tunnel in desired.tunnels)
    for key, wanted in desired.kernel.items():
        found = objects.get(key)
        if found == wanted:
            continue
        if isinstance(wanted, Guard):
            yield from _diff_guard(wanted, found if isinstance(found, Guard) else None)
            continue
        missing = "goes with an interface that is made anew" if key in kernel.objects else "missing"
        yield Action(
            step=_ensure_step(wanted),
            operation=EnsureObject(wanted),
            symbol=Symbol.ADD if found is None else Symbol.CHANGE,
            reason=missing if found is None else f"differs: {_difference(found, wanted)}",
            tunnel=_owner(wanted, owners),
            impact=_kernel_impact(found, wanted, bundles),
        )
    for key, found in objects.items():
        if key in desired.kernel or isinstance(found, Sysctl | Guard):
            continue
        yield Action(
            step=_REMOVE_STEP[type(found)],
            operation=RemoveObject(found),
            symbol=Symbol.REMOVE,
            reason="no longer configured",
            tunnel=_owner(found, owners),
        )


def _made_anew(desired: Desired, kernel: KernelState) -> frozenset[str]:
    """Interfaces that are removed and made again within the plan."""
    return frozenset(
        wanted.name
        for key, wanted in desired.kernel.items()
        if isinstance(wanted, XfrmInterface)
        and isinstance(found := kernel.objects.get(key), XfrmInterface)
        and not found.can_become(wanted)
    )


def _diff_guard(wanted: Guard, found: Guard | None) -> Iterable[Action]:
    """Widen before the links come up, narrow after the old ones are gone: no packet of a live tunnel is caught."""
    wide = wanted if found is None else _union(found, wanted)
    if wide != found:
        reason = "missing" if found is None else "a tunnel or prefix is new"
        if found is not None and replace(found, saved=True) == wide:
            reason = "not saved for the next boot"
        symbol = Symbol.ADD if found is None else Symbol.CHANGE
        yield Action(step=Step.GUARD_WIDEN, operation=EnsureObject(wide), symbol=symbol, reason=reason)
    if wide != wanted:
        yield Action(
            step=Step.GUARD_NARROW,
            operation=EnsureObject(wanted),
            symbol=Symbol.CHANGE,
            reason="a tunnel or prefix is gone",
        )


def _union(left: Guard, right: Guard) -> Guard:
    """Both guards' members; of an interface that both name, the sources of both."""
    sources: dict[str, tuple[IPNetwork, ...]] = {}
    for entry in (*left.tunnels, *right.tunnels):
        sources[entry.interface] = (*sources.get(entry.interface, ()), *entry.sources)
    return Guard(
        uplinks=tuple(sorted({*left.uplinks, *right.uplinks})),
        tunnels=tuple(
            GuardPeer(interface=name, sources=collapse_networks(found)) for name, found in sorted(sources.items())
        ),
        prefixes=collapse_networks((*left.prefixes, *right.prefixes)),
    )


def _ensure_step(wanted: KernelObject) -> Step:
    if isinstance(wanted, Sysctl) and ".conf.ikx" in wanted.name:
        return Step.LINK_SETTING
    return _ENSURE_STEP[type(wanted)]


def _kernel_impact(found: KernelObject | None, wanted: KernelObject, bundles: Mapping[str, int]) -> Impact:
    """An XFRM interface cannot change its if_id or underlay: it is made anew, and carries nothing meanwhile."""
    if not isinstance(wanted, XfrmInterface) or not isinstance(found, XfrmInterface):
        return Impact.NONE
    if found.can_become(wanted):
        return Impact.NONE
    return Impact.OUTAGE if bundles[wanted.tunnel.peer] == 1 else Impact.REESTABLISH


def _difference(found: KernelObject, wanted: KernelObject) -> str:
    """The fields that differ, old and new."""
    fields = [name for name in type(wanted).__dataclass_fields__ if name != "required"]
    parts = []
    for name in fields:
        old, new = getattr(found, name, None), getattr(wanted, name)
        if old != new:
            parts.append(f"{name} {_short(old)} -> {_short(new)}")
    return ", ".join(parts)


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + " ".join(_short(item) for item in value) + "]"
    if hasattr(value, "next_hop") and hasattr(value, "weight"):
        return f"{value.next_hop},{value.weight}"
    return str(value)


def _owner(target: KernelObject, owners: dict[str, TunnelId]) -> TunnelId | None:
    if isinstance(target, XfrmInterface):
        return target.tunnel
    if isinstance(target, NextHop):
        return owners.get(target.device)
    return None


def _diff_charon(desired: Desired, charon: CharonState) -> Iterable[Action]:
    assert desired.connections is not None
    credentials = desired.credentials
    assert credentials is not None
    if credentials.ca_id not in charon.authorities:
        yield Action(
            step=Step.CREDENTIAL,
            operation=LoadAuthority(credentials.ca_id),
            symbol=Symbol.ADD,
            reason="charon does not know our CA",
        )
    if credentials.key_id not in charon.keys:
        yield Action(
            step=Step.CREDENTIAL,
            operation=LoadKey(credentials.key_id),
            symbol=Symbol.ADD,
            reason="charon does not have our private key",
        )
    used = charon.by_connection()
    for name, connection in desired.connections.items():
        if name not in charon.connections:
            reason, symbol = "charon does not have it", Symbol.ADD
        elif name not in charon.loaded:
            reason, symbol = "loaded before this daemon started; loading it again changes no live SA", Symbol.CHANGE
        elif charon.loaded[name] != connection:
            reason, symbol = f"differs: {_connection_difference(charon, name, desired)}", Symbol.CHANGE
        else:
            continue
        live = used.get(name, [])
        former = next((sa.former for sa in live if sa.former), "")
        if former and name not in charon.loaded:
            reason = f"its peer has another name now; its IKE_SA is of {former}"
        changed = bool(live) and (name in charon.loaded or bool(former))
        yield Action(
            step=Step.CONNECTION,
            operation=LoadConnection(connection),
            symbol=symbol,
            reason=reason,
            tunnel=connection.tunnel,
            impact=_connection_impact(desired.tunnels[connection.tunnel]) if changed else Impact.NONE,
        )
    for name in sorted(charon.connections):
        tunnel = TunnelId.from_connection(name)
        if name.startswith(CONNECTION_PREFIX) and tunnel is not None and name not in desired.connections:
            yield Action(
                step=Step.CONNECTION_REMOVE,
                operation=UnloadConnection(name),
                symbol=Symbol.REMOVE,
                reason="no longer configured",
                tunnel=tunnel,
            )


def _connection_impact(plan: TunnelPlan) -> Impact:
    """The end that initiates renews a live IKE_SA at once; the other end waits for it."""
    return Impact.REESTABLISH if plan.initiator else Impact.NEXT_ESTABLISHMENT


def _connection_difference(charon: CharonState, name: str, desired: Desired) -> str:
    """Names of the options that differ; certificates and addresses are not printed whole."""
    assert desired.connections is not None
    old, new = charon.loaded[name], desired.connections[name]
    names = [field for field in type(new).__dataclass_fields__ if getattr(old, field) != getattr(new, field)]
    return ", ".join(names)
