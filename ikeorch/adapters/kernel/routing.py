"""Rules, routes and next hops under our protocol number: read them, put one, remove one."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address, ip_network

from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_DELROUTE, RTM_NEWROUTE

from ikeorch.adapters.kernel.direct import DirectNetlink
from ikeorch.adapters.kernel.messages import (
    GROUP_HASH_THRESHOLD,
    GROUP_RESILIENT,
    RTM_DELNEXTHOP,
    RTM_GETNEXTHOP,
    RTM_NEWNEXTHOP,
    NextHopMessage,
    RouteMessage,
    decode_members,
    decode_resilience,
    encode_members,
    encode_resilience,
)
from ikeorch.adapters.kernel.netlink import ADD, DELETE, PUT, Message, Netlink, NetlinkRefusedError
from ikeorch.core.ids import ROUTE_PROTOCOL
from ikeorch.core.kernel_state import (
    MAIN_TABLE,
    Family,
    IPNetwork,
    Member,
    NextHop,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    UnderlayRoute,
)
from ikeorch.errors import ForeignObjectError, KernelError

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
VERSIONS = {socket.AF_INET: 4, socket.AF_INET6: 6}
UNICAST = 1
UNREACHABLE = 7
SCOPE_UNIVERSE = 0
SCOPE_LINK = 253
RTNH_F_ONLINK = 4
TO_TABLE = 1
GONE = {errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL, errno.EINVAL}
"""What the kernel answers when a rule, route or next hop is not there (any more)."""


async def read_rules(netlink: Netlink) -> list[SourceRule]:
    """Our policy rules of both families."""
    rules = []
    for family in FAMILIES.values():
        for entry in await netlink.call("rules", "get_rules", family=family):
            if entry.get("FRA_PROTOCOL") == ROUTE_PROTOCOL and entry.get("FRA_SRC"):
                rules.append(
                    SourceRule(
                        source=ip_address(entry.get("FRA_SRC")),
                        table=int(entry.get("FRA_TABLE") or entry["table"]),
                        priority=int(entry.get("FRA_PRIORITY") or 0),
                    )
                )
    return rules


async def put_rule(netlink: Netlink, rule: SourceRule) -> None:
    """Add a rule; the kernel would take a second equal one, so it is looked for first."""
    present = await read_rules(netlink)
    if rule in present:
        return
    for other in present:
        if other.key == rule.key:
            await remove_rule(netlink, other)
    await netlink.call(f"rule from {rule.source}", "rule", "add", **_rule_options(rule))


async def remove_rule(netlink: Netlink, rule: SourceRule) -> None:
    """Remove a rule."""
    try:
        await netlink.call(f"rule from {rule.source}", "rule", "del", **_rule_options(rule))
    except NetlinkRefusedError as error:
        if error.number not in GONE:
            raise


def _rule_options(rule: SourceRule) -> dict[str, object]:
    return {
        "family": FAMILIES[rule.source.version],
        "src": str(rule.source),
        "src_len": rule.source.max_prefixlen,
        "table": rule.table,
        "priority": rule.priority,
        "protocol": ROUTE_PROTOCOL,
        "action": TO_TABLE,
    }


async def read_routes(netlink: Netlink, names: dict[int, str]) -> list[UnderlayRoute | PrefixRoute]:
    """Our routes: in the main table those to prefixes, in all others those of the underlay."""
    routes: list[UnderlayRoute | PrefixRoute] = []
    for version, family in FAMILIES.items():
        for entry in await netlink.dump_routes(family):
            if entry["proto"] == ROUTE_PROTOCOL and entry["type"] in {UNICAST, UNREACHABLE}:
                routes.append(_route(entry, version, names))
    return routes


def _route(entry: Message, version: int, names: dict[int, str]) -> UnderlayRoute | PrefixRoute:
    table = int(entry.get("RTA_TABLE") or entry["table"])
    default = "0.0.0.0" if version == 4 else "::"  # noqa: S104 - a route's destination, nothing listens
    destination = ip_network(f"{entry.get('RTA_DST') or default}/{entry['dst_len']}")
    if table == MAIN_TABLE:
        group = entry.get("RTA_NH_ID")
        reachable = entry["type"] == UNICAST
        # a route of ours without a group is none that we want: id 0 exists nowhere, so it differs and is replaced
        number = int(group or 0) if reachable else None
        return PrefixRoute(destination=destination, metric=int(entry.get("RTA_PRIORITY") or 0), group=number)
    gateway = entry.get("RTA_GATEWAY")
    return UnderlayRoute(
        table=table,
        destination=destination,
        device=names.get(int(entry.get("RTA_OIF") or 0), ""),
        gateway=ip_address(gateway) if gateway else None,
    )


async def put_prefix_route(netlink: Netlink, route: PrefixRoute) -> None:
    """Put a route of the main table; one of ours that is there is replaced without a gap.

    Raises:
        ForeignObjectError: somebody else's route to that prefix has the same metric.
        KernelError: the kernel refuses.
    """
    message = _route_message(route.destination, MAIN_TABLE)
    message["type"] = UNREACHABLE if route.group is None else UNICAST
    message["attrs"].append(("RTA_PRIORITY", route.metric))
    if route.group is not None:
        message["attrs"].append(("RTA_NH_ID", route.group))
    await _add_or_replace(netlink, f"route {route.destination}", message)


async def put_underlay_route(netlink: Netlink, route: UnderlayRoute, device: int) -> None:
    """Put a route of an uplink's table.

    Args:
        netlink: the socket.
        route: the route.
        device: index of its device.

    Raises:
        ForeignObjectError: somebody else uses that table.
        KernelError: the kernel refuses.
    """
    message = _route_message(route.destination, route.table)
    message["type"] = UNICAST
    message["attrs"].append(("RTA_OIF", device))
    if route.gateway is None:
        message["scope"] = SCOPE_LINK if route.destination.version == 4 else SCOPE_UNIVERSE
    else:
        message["flags"] = RTNH_F_ONLINK
        message["attrs"].append(("RTA_GATEWAY", str(route.gateway)))
    await _add_or_replace(netlink, f"route {route.destination} table {route.table}", message)


async def _add_or_replace(netlink: Netlink, subject: str, message: RouteMessage) -> None:
    """Replace only what is ours: the kernel's own replace asks for table, prefix and metric, not for the owner."""
    try:
        await netlink.request(subject, message, RTM_NEWROUTE, ADD)
    except NetlinkRefusedError as error:
        if error.number != errno.EEXIST:
            raise
    else:
        return
    wanted = _slot(message)
    for entry in await netlink.dump_routes(message["family"]):
        if _slot(entry) == wanted and entry["proto"] != ROUTE_PROTOCOL:
            raise ForeignObjectError(
                f"{subject}: one of protocol {entry['proto']} with metric {wanted[2]} stands in its place",
                hint="find it with `ip route show table all` and remove it, or change its metric",
            )
    await netlink.request(subject, message, RTM_NEWROUTE, PUT)


def _slot(entry: Message) -> tuple[int, str, int, int]:
    """Where a route stands: table, destination, metric, prefix length; two of one slot exclude each other."""
    table = int(entry.get_attr("RTA_TABLE") or entry["table"])
    metric = int(entry.get_attr("RTA_PRIORITY") or 0)
    return table, str(entry.get_attr("RTA_DST") or ""), metric, int(entry["dst_len"])


async def remove_route(netlink: Netlink, route: UnderlayRoute | PrefixRoute) -> None:
    """Remove a route."""
    table = MAIN_TABLE if isinstance(route, PrefixRoute) else route.table
    message = _route_message(route.destination, table)
    message["scope"] = 255
    if isinstance(route, PrefixRoute):
        message["attrs"].append(("RTA_PRIORITY", route.metric))
    try:
        await netlink.request(f"route {route.destination}", message, RTM_DELROUTE, DELETE)
    except NetlinkRefusedError as error:
        if error.number not in GONE:
            raise


def _route_message(destination: IPNetwork, table: int) -> RouteMessage:
    message = RouteMessage()
    message["family"] = FAMILIES[destination.version]
    message["dst_len"] = destination.prefixlen
    message["table"] = table if table < 256 else 252
    message["proto"] = ROUTE_PROTOCOL
    message["scope"] = SCOPE_UNIVERSE
    message["attrs"] = [("RTA_TABLE", table)]
    if destination.prefixlen:
        message["attrs"].append(("RTA_DST", str(destination.network_address)))
    return message


async def read_next_hops(netlink: Netlink, names: dict[int, str]) -> list[NextHop | NextHopGroup]:
    """Our next hops and groups, with the weights as the kernel holds them."""
    found: list[NextHop | NextHopGroup] = []
    for entry in await netlink.dump_next_hops():
        if entry["nh_protocol"] != ROUTE_PROTOCOL:
            continue
        number = int(entry.get("NHA_ID") or 0)
        group = entry.get("NHA_GROUP")
        if group:
            buckets, idle = (0, 0)
            if entry.get("NHA_GROUP_TYPE") == GROUP_RESILIENT:
                buckets, idle = decode_resilience(entry.get("NHA_RES_GROUP"))
            members = decode_members(bytes(group))
            found.append(NextHopGroup(id=number, members=members, buckets=buckets, idle_timer=idle))
        else:
            device = names.get(int(entry.get("NHA_OIF") or 0), "")
            family = Family.IPV6 if entry["nh_family"] == socket.AF_INET6 else Family.IPV4
            found.append(NextHop(id=number, family=family, device=device))
    return found


async def put_next_hop(netlink: Netlink, hop: NextHop, device: int) -> None:
    """Put a next hop.

    Args:
        netlink: the socket.
        hop: the next hop.
        device: index of its device, which must be up.
    """
    message = _next_hop_message(hop.id)
    message["nh_family"] = FAMILIES[hop.family.value]
    message["attrs"].append(("NHA_OIF", device))
    await _refuse_foreign(netlink, hop.id)
    await netlink.request(f"next hop {hop.id}", message, RTM_NEWNEXTHOP, PUT)


async def put_group(netlink: DirectNetlink, group: NextHopGroup) -> None:
    """Put a group; routes that name it go on without a gap.

    Raises:
        KernelError: the kernel refuses; a group's type cannot be changed.
    """
    message = _next_hop_message(group.id)
    message["attrs"].append(("NHA_GROUP", encode_members(group.members)))
    kind = GROUP_RESILIENT if group.buckets else GROUP_HASH_THRESHOLD
    message["attrs"].append(("NHA_GROUP_TYPE", kind))
    if group.buckets:
        message["attrs"].append(("NHA_RES_GROUP", encode_resilience(group.buckets, group.idle_timer)))
    await _refuse_foreign(netlink, group.id)
    await netlink.request(f"next-hop group {group.id}", message, RTM_NEWNEXTHOP, PUT)


async def _refuse_foreign(netlink: Netlink | DirectNetlink, number: int) -> None:
    """NLM_F_REPLACE would overwrite somebody else's object of that id."""
    message = _next_hop_message(number)
    message["nh_protocol"] = 0
    try:
        found = await netlink.request(f"next hop {number}", message, RTM_GETNEXTHOP, NLM_F_REQUEST)
    except NetlinkRefusedError as error:
        if error.number not in GONE:
            raise
        return
    for entry in found:
        if entry["nh_protocol"] != ROUTE_PROTOCOL:
            raise ForeignObjectError(
                f"next hop {number} belongs to protocol {entry['nh_protocol']}",
                hint="find it with `ip nexthop` and remove it",
            )


async def remove_next_hop(netlink: Netlink, number: int) -> None:
    """Remove a next hop or group."""
    message = _next_hop_message(number)
    message["nh_protocol"] = 0
    try:
        await netlink.request(f"next hop {number}", message, RTM_DELNEXTHOP, DELETE)
    except NetlinkRefusedError as error:
        if error.number not in GONE:
            raise


def _next_hop_message(number: int) -> NextHopMessage:
    message = NextHopMessage()
    message["nh_protocol"] = ROUTE_PROTOCOL
    message["attrs"] = [("NHA_ID", number)]
    return message


async def has_resilient_groups(netlink: Netlink, probe_id: int) -> bool:
    """Whether the kernel offers resilient groups (Linux 5.13 and later): one over a black hole is made and removed.

    A black hole needs no device, so the answer does not depend on which links are up.

    Args:
        netlink: the socket.
        probe_id: two ids from here on that nobody uses.
    """
    hop = _next_hop_message(probe_id)
    hop["nh_family"] = socket.AF_INET
    hop["attrs"].append(("NHA_BLACKHOLE", True))
    group = _next_hop_message(probe_id + 1)
    group["attrs"].append(("NHA_GROUP", encode_members((Member(next_hop=probe_id, weight=1),))))
    group["attrs"].append(("NHA_GROUP_TYPE", GROUP_RESILIENT))
    group["attrs"].append(("NHA_RES_GROUP", encode_resilience(8, 1)))
    for number in (probe_id, probe_id + 1):
        await _refuse_foreign(netlink, number)
    try:
        await netlink.request("next-hop probe", hop, RTM_NEWNEXTHOP, PUT)
        await netlink.request("next-hop probe", group, RTM_NEWNEXTHOP, PUT)
    except KernelError:
        return False
    finally:
        await remove_next_hop(netlink, probe_id + 1)
        await remove_next_hop(netlink, probe_id)
    return True
