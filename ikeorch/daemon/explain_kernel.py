"""The lines of ip(8), sysctl(8) and nft(8) that an object of the kernel stands for."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import assert_never

from ikeorch.adapters.kernel.guard import add_elements, flush_set, set_members
from ikeorch.core.ids import ROUTE_PROTOCOL
from ikeorch.core.kernel_state import (
    Guard,
    IPInterface,
    IPNetwork,
    KernelObject,
    NextHop,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)

_OWNER = ("protocol", ROUTE_PROTOCOL)
SAVED = "# and the filled table is saved as guard.nft in ikeorchd's state folder, for the next boot"
RULES = "nft -f templates/guard.nft  # shipped with ikeorch: the rules, with empty sets"


def ensure_lines(target: KernelObject, found: KernelObject | None) -> list[str]:
    """What creates an object, or changes the version of it that is there.

    Raises:
        KernelError: a device name that nft must not see.
    """
    match target:
        case XfrmInterface():
            return _interface_lines(target, found if isinstance(found, XfrmInterface) else None)
        case SourceRule():
            lines = [] if found is None else remove_lines(found)
            return [*lines, _ip(_version(target), "rule add", *_rule(target))]
        case UnderlayRoute():
            verb = "route add" if found is None else "route replace"
            return [_ip(_version(target), verb, *_underlay_route(target))]
        case NextHop():
            return [_ip(target.family.value, "nexthop replace id", target.id, "dev", target.device, *_OWNER)]
        case NextHopGroup():
            return [_ip(None, "nexthop replace id", target.id, "group", *_members(target), *_OWNER)]
        case PrefixRoute():
            verb = "route add" if found is None else "route replace"
            return [_ip(_version(target), verb, *_prefix_route(target), *_OWNER)]
        case Sysctl():
            return [shlex.join(("sysctl", "-w", f"{target.name}={target.value}"))]
        case Guard():
            return [*_guard_lines(target, found if isinstance(found, Guard) else None), SAVED]
        case _:
            assert_never(target)


def remove_lines(target: KernelObject) -> list[str]:
    """What removes an object; settings and the guard are never removed."""
    match target:
        case XfrmInterface():
            return [_ip(None, "link delete dev", target.name)]
        case SourceRule():
            return [_ip(_version(target), "rule delete", *_rule(target))]
        case UnderlayRoute():
            return [_ip(_version(target), "route delete", target.destination, "table", target.table, *_OWNER)]
        case NextHop() | NextHopGroup():
            return [_ip(None, "nexthop delete id", target.id)]
        case PrefixRoute():
            return [_ip(_version(target), "route delete", *_prefix_route(replace(target, group=None))[-3:], *_OWNER)]
        case Sysctl() | Guard():
            return []
        case _:
            assert_never(target)


def _ip(family: int | None, verb: str, *words: object) -> str:
    option = () if family is None else (f"-{family}",)
    return shlex.join(("ip", *option, *verb.split(), *(str(word) for word in words)))


def _version(target: SourceRule | UnderlayRoute | PrefixRoute) -> int:
    return (target.source if isinstance(target, SourceRule) else target.destination).version


def _rule(rule: SourceRule) -> tuple[object, ...]:
    return ("from", rule.source, "lookup", rule.table, "priority", rule.priority, *_OWNER)


def _destination(network: IPNetwork) -> str:
    return str(network) if network.prefixlen else "default"


def _underlay_route(route: UnderlayRoute) -> tuple[object, ...]:
    way: tuple[object, ...]
    if route.gateway is not None:
        way = ("via", route.gateway, "dev", route.device, "onlink")
    else:
        way = ("dev", route.device, *(("scope", "link") if route.destination.version == 4 else ()))
    return (_destination(route.destination), *way, "table", route.table, *_OWNER)


def _prefix_route(route: PrefixRoute) -> tuple[object, ...]:
    kind: tuple[object, ...] = ("unreachable",) if route.group is None else ()
    way: tuple[object, ...] = () if route.group is None else ("nhid", route.group)
    return (*kind, _destination(route.destination), *way, "metric", route.metric)


def _members(group: NextHopGroup) -> tuple[object, ...]:
    members = "/".join(f"{member.next_hop},{member.weight}" for member in group.members)
    if not group.buckets:
        return (members,)
    return (members, "type", "resilient", "buckets", group.buckets, "idle_timer", group.idle_timer)


def _interface_lines(wanted: XfrmInterface, found: XfrmInterface | None) -> list[str]:
    """An interface whose if_id or underlay differs is made anew, every other difference is changed in place."""
    device = ("dev", wanted.name)
    lines = []
    if found is not None and not found.can_become(wanted):
        lines, found = remove_lines(found), None
    if found is None:
        kind = ("type", "xfrm", "dev", wanted.underlay, "if_id", wanted.if_id)
        lines.append(_ip(None, "link add", wanted.name, *kind))
    if found is None or found.tunnel != wanted.tunnel:
        lines.append(_ip(None, "link set", *device, "alias", wanted.tunnel.alias))
    if found is None or found.mtu != wanted.mtu:
        lines.append(_ip(None, "link set", *device, "mtu", wanted.mtu))
    before: tuple[IPInterface, ...] = found.addresses if found else ()
    lines += [_ip(None, "address delete", address, *device) for address in before if address not in wanted.addresses]
    for address in wanted.addresses:
        if address not in before:
            lines.append(_ip(None, "address add", address, *device, *(("nodad",) if address.version == 6 else ())))
    if found is None or found.up != wanted.up:
        lines.append(_ip(None, "link set", *device, "up" if wanted.up else "down"))
    return lines


def _guard_lines(wanted: Guard, found: Guard | None) -> list[str]:
    """One transaction; a set that loses a member is filled anew, since its intervals may be cut in another way."""
    before = set_members(found or Guard())
    commands = []
    for name, members in set_members(wanted).items():
        new = [member for member in members if member not in set(before[name])]
        if set(before[name]) - set(members):
            commands.append(flush_set(name))
            new = members
        if new:
            commands.append(add_elements(name, new))
    lines = [] if found is not None else [RULES]
    return [*lines, shlex.join(("nft", "; ".join(commands)))] if commands else lines
