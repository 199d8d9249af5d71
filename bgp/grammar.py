"""ExaBGP 5's text API: the lines that we write and those that it writes. The only place that knows them. No I/O.

Commands are built from address objects and hexadecimal bytes only, so that nothing in them can end a line or begin
another command; a single byte outside ASCII makes ExaBGP restart its API process. What comes back is read leniently and
bounded: a line that cannot be understood is a value (`Unusable`), never an exception.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address, ip_network
from typing import Any

from bgp.advertisement import IPAddress, IPNetwork
from bgp.link_bandwidth import SIZE
from bgp.rib import Change, Route

LINE_LIMIT = 1024 * 1024
"""Bytes in a line of ExaBGP's; a `show neighbor` of 500 neighbours is the longest."""
COMMAND_LIMIT = 1024
"""Bytes in a line of ours."""
TEXT_LIMIT = 200
"""Characters of a peer's text that are passed on."""

SHOW_NEIGHBORS = b"show neighbor json\n"
SHOW_CONFIGURATION = b"show neighbor configuration\n"
ARE_YOU_THERE = b"version\n"
"""Answered at once, ahead of what waits."""
SHOW_ROUTES = b"show adj-rib out extensive\n"
RELOAD = b"reload\n"

FINGERPRINT = "ikeorch "
"""How a neighbour's description begins."""

HELLO = "ikeorch-shim 1"
READY = "ikeorch-shim ready"

_ROUTE = re.compile(
    r"neighbor (?P<neighbor>[0-9a-fA-F.:]+) local-ip \S+ local-as \S+ peer-as \S+ router-id \S+ family-allowed \S+ "
    r"ipv[46] unicast (?P<prefix>[0-9a-fA-F.:]+/\d+) next-hop (?P<next_hop>[0-9a-fA-F.:]+)(?P<rest> .*)?"
)
_COMMUNITY = re.compile(r" extended-community 0x(?P<raw>[0-9a-fA-F]{16})")


class PeerState(Enum):
    """What ExaBGP says of a session."""

    DOWN = "down"
    CONNECTED = "connected"
    UP = "up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end of the answer to our oldest open command."""

    done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A part of the answer to our oldest open command."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEvent:
    """A session changed.

    Attributes:
        neighbor: the peer's address.
        state: the new one.
        at: epoch seconds by ExaBGP's clock.
        local: our address of the session, None while ExaBGP does not know it.
        reason: ExaBGP's words for `down`.
    """

    neighbor: IPAddress
    state: PeerState
    at: float
    local: IPAddress | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationEvent:
    """A NOTIFICATION was sent or received.

    Attributes:
        neighbor: the peer's address.
        received: the peer sent it.
        code: RFC 4271, section 4.5.
        subcode: the same.
        text: what it says in words.
    """

    neighbor: IPAddress
    received: bool
    code: int
    subcode: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownEvent:
    """ExaBGP ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A line that is none of the others."""

    why: str


Line = Answer | Text | StateEvent | NotificationEvent | ShutdownEvent | Unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNeighbor:
    """A neighbour that ExaBGP has, as far as we need it.

    Attributes:
        address: the peer's.
        established: the session is up.
        local: our address of the session, None while ExaBGP does not know it.
    """

    address: IPAddress
    established: bool
    local: IPAddress | None


def render_change(neighbor: IPAddress, change: Change) -> bytes:
    """The command that announces or withdraws one route for one neighbour."""
    route = change.route
    return _line(_route_command(neighbor, route.prefix, str(route.next_hop), route.community, announce=change.announce))


def show_change(neighbor: IPAddress, prefix: IPNetwork, community: bytes, *, announce: bool) -> str:
    """The same for people, before the session says which address the next hop is."""
    return _route_command(neighbor, prefix, "self", community, announce=announce)


def _route_command(neighbor: IPAddress, prefix: IPNetwork, next_hop: str, community: bytes, *, announce: bool) -> str:
    raw = f" extended-community [ 0x{community.hex()} ]" if len(community) == SIZE else ""
    return f"neighbor {neighbor} {'announce' if announce else 'withdraw'} route {prefix} next-hop {next_hop}{raw}"


def render_end_of_rib(neighbor: IPAddress) -> bytes:
    """The command that sends the End-of-RIB of the session's family."""
    return _line(f"neighbor {neighbor} announce eor ipv{neighbor.version} unicast")


def _line(text: str) -> bytes:
    line = text.encode("ascii")
    assert line.isascii()
    assert b"\n" not in line
    assert len(line) < COMMAND_LIMIT
    return line + b"\n"


def clean_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """One printable line of at most so many characters."""
    printable = "".join(char if char.isprintable() and char != "\ufffd" else " " for char in text[: 4 * limit])
    return " ".join(printable.split())[:limit]


def parse_line(raw: bytes) -> Line:
    """Read one line of ExaBGP's, without its end."""
    if len(raw) > LINE_LIMIT:
        return Unusable(why="a line without end")
    try:
        text = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        return Unusable(why="bytes that are no ASCII")
    if text in ("done", "error"):
        return Answer(done=text == "done")
    if not text.startswith('{ "exabgp"'):
        return Text(text=text)
    try:
        return _event(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Unusable(why=f"an event that cannot be read ({type(error).__name__})")


def _event(message: Any) -> Line:  # noqa: ANN401 - ExaBGP's JSON
    kind = message["type"]
    if kind == "notification" and message.get("notification") == "shutdown":
        return ShutdownEvent()
    if kind not in ("state", "notification"):
        return Unusable(why="an event that is of no use here")
    peer = message["neighbor"]
    address = ip_address(str(peer["address"]["peer"]))
    if kind == "state":
        at = float(message["time"])
        return StateEvent(
            neighbor=address,
            state=PeerState(peer["state"]),
            at=at if math.isfinite(at) else 0.0,
            local=_address(peer["address"].get("local")),
            reason=clean_text(str(peer.get("reason", ""))),
        )
    notification = peer["notification"]
    return NotificationEvent(
        neighbor=address,
        received=peer["direction"] == "receive",
        code=int(notification["code"]),
        subcode=int(notification["subcode"]),
        text=clean_text(str(notification.get("message", ""))),
    )


def _address(text: object) -> IPAddress | None:
    try:
        return ip_address(str(text))
    except ValueError:
        return None


def parse_neighbors(text: str) -> tuple[ShownNeighbor, ...] | None:
    """Read the answer to SHOW_NEIGHBORS; None when it is none."""
    try:
        return tuple(
            ShownNeighbor(
                address=ip_address(str(entry["peer"]["address"])),
                established=entry["fsm"] == "ESTABLISHED",
                local=_address(entry["local"]["address"]),
            )
            for entry in json.loads(text)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def parse_fingerprints(lines: Iterable[str]) -> dict[IPAddress, str]:
    """Read the answer to SHOW_CONFIGURATION: each neighbour's description, "" for one without."""
    found: dict[IPAddress, str] = {}
    address: IPAddress | None = None
    for line in lines:
        match line.split():
            case ["neighbor", text, "{"]:
                address = _address(text)
                if address is not None:
                    found[address] = ""
            case ["description", *words] if address is not None:
                found[address] = " ".join(words).strip('";')
    return found


def parse_route(text: str) -> tuple[IPAddress, Route] | None:
    """Read a line of the answer to SHOW_ROUTES: the neighbour and the route; None when it is none."""
    match = _ROUTE.fullmatch(text)
    if match is None:
        return None
    community = _COMMUNITY.fullmatch(match["rest"] or "")
    try:
        prefix: IPNetwork = ip_network(match["prefix"])
        route = Route(
            prefix=prefix,
            next_hop=ip_address(match["next_hop"]),
            community=bytes.fromhex(community["raw"]) if community else b"",
        )
        return ip_address(match["neighbor"]), route
    except ValueError:
        return None
