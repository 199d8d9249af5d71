"""When a tunnel was judged and when it left its group: the prober's log beside what ``ip monitor`` saw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

MONITOR = ("chrt", "--fifo", "1", "ip", "-ts", "-o", "monitor", "nexthop")
"""Prints the kernel's changes of next hops with local time, so it is run with TZ=UTC; before all others, since the time
is that of its reading."""

_JUDGED = re.compile(r"^(?P<when>\S+)Z \[\w+ *\] tunnel_judged .*\btunnel=(?P<tunnel>\S+) verdict=down\b")
_GROUP = re.compile(r"^\[(?P<when>[^]]+)\] id (?P<id>\d+) group (?P<members>\S+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The prober's word that a tunnel is down, in Unix seconds."""

    when: float
    tunnel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A group that was given these next hops, in Unix seconds."""

    when: float
    group: int
    members: frozenset[int]


def read_judged(log: str, since: float) -> list[Judged]:
    """The verdicts "down" of a prober's log from `since` on (Unix seconds)."""
    found = [
        Judged(when=_seconds(match["when"]), tunnel=match["tunnel"])
        for match in map(_JUDGED.match, log.splitlines())
        if match
    ]
    return [entry for entry in found if entry.when >= since]


def read_changes(text: str) -> list[GroupChange]:
    """The groups that were made or replaced, of what MONITOR printed."""
    return [
        GroupChange(
            when=_seconds(match["when"]),
            group=int(match["id"]),
            # a member is "ID" or "ID,WEIGHT"
            members=frozenset(int(member.partition(",")[0]) for member in match["members"].split("/")),
        )
        for match in map(_GROUP.match, text.splitlines())
        if match
    ]


def repaired_after(judged: Judged, standing: Mapping[int, int], changes: Sequence[GroupChange]) -> float | None:
    """Seconds from a verdict until the last of the kernel's groups was without the tunnel.

    Args:
        judged: the verdict.
        standing: the groups that the tunnel stood in, and its next hop in each.
        changes: in order of time.

    Returns:
        None when that was not seen of all.
    """
    times = []
    for group, next_hop in standing.items():
        for change in changes:
            if change.when >= judged.when and change.group == group and next_hop not in change.members:
                times.append(change.when - judged.when)
                break
        else:
            return None
    return max(times, default=None)


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC).timestamp()
