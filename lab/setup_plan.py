"""What a node's first process must know to set the node up; passed as JSON from the runner to the supervisor."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetup:
    """One node.

    Attributes:
        name: Its name, and its host name.
        socket: Path of its control socket.
        logs: Folder outside the node that it sees as /var/log.
        copies: Pairs of a file or folder outside and its place in the node.
        sysctls: Settings under /proc/sys, by dotted name; those that this kernel lacks are skipped.
    """

    name: str
    socket: str
    logs: str
    copies: tuple[tuple[str, str], ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()


def to_json(setups: tuple[NodeSetup, ...]) -> str:
    """Return the set-ups as one line of JSON."""
    return json.dumps([dataclasses.asdict(setup) for setup in setups])


def from_json(text: str) -> tuple[NodeSetup, ...]:
    """Return the set-ups of one line of JSON."""
    return tuple(
        NodeSetup(
            name=item["name"],
            socket=item["socket"],
            logs=item["logs"],
            copies=tuple((source, target) for source, target in item["copies"]),
            sysctls=tuple((name, value) for name, value in item["sysctls"]),
        )
        for item in json.loads(text)
    )
