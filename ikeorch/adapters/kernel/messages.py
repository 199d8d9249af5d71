"""Two netlink message classes that pyroute2 0.9 lacks: next-hop objects, and routes that name one.

Layouts: include/uapi/linux/nexthop.h and include/uapi/linux/rtnetlink.h.
"""

from __future__ import annotations

import struct
from typing import Any

from pyroute2.netlink import NLA_F_NESTED, nla, nlmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from ikeorch.core.kernel_state import Member

RTM_NEWNEXTHOP = 104
RTM_DELNEXTHOP = 105
RTM_GETNEXTHOP = 106
GROUP_HASH_THRESHOLD = 0
GROUP_RESILIENT = 1

_GROUP_ENTRY = struct.Struct("=I B B H")
"""struct nexthop_grp: id, weight - 1, its high byte (Linux 6.12 and later), reserved."""
_CLOCK_TICKS = 100
"""Timers of a resilient group are told in clock_t, USER_HZ a second."""


class NextHopMessage(nlmsg):  # type: ignore[misc]
    """struct nhmsg with the attributes that we use."""

    fields = (("nh_family", "B"), ("nh_scope", "B"), ("nh_protocol", "B"), ("resvd", "B"), ("nh_flags", "I"))
    nla_map = (
        (1, "NHA_ID", "uint32"),
        (2, "NHA_GROUP", "cdata"),
        (3, "NHA_GROUP_TYPE", "uint16"),
        (4, "NHA_BLACKHOLE", "flag"),
        (5, "NHA_OIF", "uint32"),
        (6, "NHA_GATEWAY", "cdata"),
        (7, "NHA_ENCAP_TYPE", "uint16"),
        (8, "NHA_ENCAP", "cdata"),
        (9, "NHA_GROUPS", "flag"),
        (10, "NHA_MASTER", "uint32"),
        (11, "NHA_FDB", "flag"),
        (12, "NHA_RES_GROUP", "resilience"),
        (13, "NHA_RES_BUCKET", "cdata"),
    )

    class resilience(nla):  # type: ignore[misc] # noqa: N801 - pyroute2 looks it up by this name
        """Settings of a resilient group; strict validation asks for the nested flag."""

        nla_flags = NLA_F_NESTED
        nla_map = (
            (1, "NHA_RES_GROUP_BUCKETS", "uint16"),
            (2, "NHA_RES_GROUP_IDLE_TIMER", "uint32"),
            (3, "NHA_RES_GROUP_UNBALANCED_TIMER", "uint32"),
            (4, "NHA_RES_GROUP_UNBALANCED_TIME", "uint64"),
        )


class RouteMessage(rtmsg):  # type: ignore[misc]
    """struct rtmsg with RTA_NH_ID."""

    nla_map = (
        *((number, name, kind) for number, (name, kind) in enumerate(rtmsg.nla_map)),
        (30, "RTA_NH_ID", "uint32"),
    )


def encode_members(members: tuple[Member, ...]) -> bytes:
    """The value of NHA_GROUP."""
    return b"".join(_GROUP_ENTRY.pack(member.next_hop, member.weight - 1, 0, 0) for member in members)


def decode_members(value: bytes) -> tuple[Member, ...]:
    """Read NHA_GROUP, sorted by next-hop id; a rest that is no whole entry is ignored."""
    whole = len(value) - len(value) % _GROUP_ENTRY.size
    entries = _GROUP_ENTRY.iter_unpack(value[:whole])
    members = (Member(next_hop=hop, weight=(low | high << 8) + 1) for hop, low, high, _ in entries)
    return tuple(sorted(members, key=lambda member: member.next_hop))


def encode_resilience(buckets: int, idle_timer: int) -> dict[str, object]:
    """The value of NHA_RES_GROUP: number of buckets, and the idle timer in seconds."""
    return {
        "attrs": [("NHA_RES_GROUP_BUCKETS", buckets), ("NHA_RES_GROUP_IDLE_TIMER", idle_timer * _CLOCK_TICKS)],
    }


def decode_resilience(value: Any) -> tuple[int, int]:  # noqa: ANN401 - pyroute2's nested attribute
    """Buckets and idle timer (seconds) of NHA_RES_GROUP; zeros for what is not there."""
    buckets = value.get("NHA_RES_GROUP_BUCKETS") or 0
    return int(buckets), int(value.get("NHA_RES_GROUP_IDLE_TIMER") or 0) // _CLOCK_TICKS
