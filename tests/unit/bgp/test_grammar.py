"""The lines that we write, and those that ExaBGP writes."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgp.grammar import (
    COMMAND_LIMIT,
    TEXT_LIMIT,
    Answer,
    NotificationEvent,
    PeerState,
    ShownNeighbor,
    ShutdownEvent,
    StateEvent,
    Text,
    Unusable,
    clean_text,
    parse_fingerprints,
    parse_line,
    parse_neighbors,
    parse_route,
    render_change,
    render_end_of_rib,
)
from bgp.rib import Change, Route

LEAF = ip_address("10.0.0.254")
ROUTE = Route(
    prefix=ip_network("10.2.0.0/16"), next_hop=ip_address("10.0.0.1"), community=bytes.fromhex("4004fdf24e9502f9")
)
STATE = (
    b'{ "exabgp": "5.0.0", "time": 1796029249.73, "host" : "gw", "pid" : 2, "ppid" : 1, "counter": 2, "type": "state", '
    b'"neighbor": { "address": { "local": "10.0.0.1", "peer": "10.0.0.254" }, '
    b'"asn": { "local": 65010, "peer": 65001 }, '
    b'"router-id": "10.0.255.1" , "state": "down", "reason": "notification sent (2,2)" } }'
)
NOTIFICATION = (
    b'{ "exabgp": "5.0.0", "time": 1.5, "type": "notification", "neighbor": { "address": { "local": "None", '
    b'"peer": "fd00::2" }, "direction": "receive", "notification": { "code": 6, "subcode": 2, "data": "0x53", '
    b'"message": "Shutdown\\nfor \\"work\\"\\u001b[2J" } } }'
)
SHOWN = (
    '[{"state": "up", "duration": 5, "fsm": "ESTABLISHED", "local": {"capabilities": {"graceful-restart": true}, '
    '"address": "10.0.0.1", "as": 65010, "id": "10.0.255.1", "hold": 90}, "peer": {"address": "10.0.0.254", '
    '"as": 65001, "id": "10.255.255.1", "hold": 90}}, {"state": "down", "duration": 3, "fsm": "IDLE", "local": '
    '{"capabilities": {"graceful-restart": false}, "address": "None", "as": 65010, "id": "10.0.255.1", "hold": 30}, '
    '"peer": {"address": "fd00::2", "as": 65002, "id": null, "hold": null}}]'
)


def test_an_announcement() -> None:
    """The community goes as raw bytes: ExaBGP's keyword refuses more than 34 Gbit/s."""
    expected = (
        b"neighbor 10.0.0.254 announce route 10.2.0.0/16 next-hop 10.0.0.1 extended-community [ 0x4004fdf24e9502f9 ]\n"
    )
    assert expected == render_change(LEAF, Change(route=ROUTE, announce=True))


def test_a_withdrawal_carries_what_was_announced() -> None:
    """So that it takes the announcement's place in ExaBGP's queue."""
    expected = (
        b"neighbor 10.0.0.254 withdraw route 10.2.0.0/16 next-hop 10.0.0.1 extended-community [ 0x4004fdf24e9502f9 ]\n"
    )
    assert expected == render_change(LEAF, Change(route=ROUTE, announce=False))


@pytest.mark.parametrize(("address", "family"), [("10.0.0.254", b"ipv4"), ("fd00::2", b"ipv6")])
def test_an_end_of_rib_names_the_sessions_family(address: str, family: bytes) -> None:
    """One session, one family."""
    expected = b"neighbor " + address.encode() + b" announce eor " + family + b" unicast\n"
    assert expected == render_end_of_rib(ip_address(address))


networks = st.one_of(
    st.builds(lambda raw, bits: IPv4Network((raw, bits), strict=False), st.integers(0, 2**32 - 1), st.integers(0, 32)),
    st.builds(
        lambda raw, bits: IPv6Network((raw, bits), strict=False), st.integers(0, 2**128 - 1), st.integers(0, 128)
    ),
)
addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))


@given(addresses, networks, addresses, st.binary(min_size=8, max_size=8), st.booleans())
def test_a_command_is_one_line_of_harmless_ascii(
    neighbor: IPv4Address,
    prefix: IPv4Network,
    next_hop: IPv4Address,
    community: bytes,
    announce: bool,
) -> None:
    """Nothing in it can end the line or begin another command, and ExaBGP shows the route as we understand it."""
    route = Route(prefix=prefix, next_hop=next_hop, community=community)
    line = render_change(neighbor, Change(route=route, announce=announce))
    assert re.fullmatch(rb"[a-z0-9 :./\[\]-]+\n", line)
    assert len(line) <= COMMAND_LIMIT
    shown = (
        f"neighbor {neighbor} local-ip None local-as 65010 peer-as 65001 router-id 10.0.255.1 family-allowed in-open "
        f"ipv{prefix.version} unicast {prefix} next-hop {next_hop} extended-community 0x{community.hex().upper()}"
    )
    assert parse_route(shown) == (neighbor, route)


def test_a_route_with_other_attributes_is_seen_without_community() -> None:
    """It then differs from every wish, and is announced anew or withdrawn."""
    shown = (
        "neighbor 10.0.0.254 local-ip 10.0.0.1 local-as 1 peer-as 2 router-id 10.0.0.1 family-allowed in-open "
        "ipv4 unicast 10.2.0.0/16 next-hop 10.0.0.1 med 5 extended-community 0x4004FDF24E9502F9"
    )
    parsed = parse_route(shown)
    assert parsed is not None
    assert parsed[1].community == b""
    assert b"extended-community" not in render_change(LEAF, Change(route=parsed[1], announce=False))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"done", Answer(done=True)),
        (b"error", Answer(done=False)),
        (b"done ", Answer(done=True)),
        (b"reload in progress", Text(text="reload in progress")),
        (b'{ "exabgp": "5.0.0", "type": "notification", "notification": "shutdown" }', ShutdownEvent()),
        (
            STATE,
            StateEvent(
                neighbor=LEAF,
                state=PeerState.DOWN,
                at=1796029249.73,
                local=ip_address("10.0.0.1"),
                reason="notification sent (2,2)",
            ),
        ),
        (
            NOTIFICATION,
            NotificationEvent(
                neighbor=ip_address("fd00::2"), received=True, code=6, subcode=2, text='Shutdown for "work" [2J'
            ),
        ),
    ],
)
def test_what_exabgp_says(line: bytes, expected: object) -> None:
    """Answers, events, and all else as text."""
    assert expected == parse_line(line)


@pytest.mark.parametrize(
    "line",
    [
        b"\xff",
        b"x" * 2_000_000,
        b'{ "exabgp"',
        b'{ "exabgp": 1 }',
        b'{ "exabgp": 1, "type": "state", "neighbor": [] }',
        b'{ "exabgp": 1, "type": "keepalive", "neighbor": {} }',
        STATE.replace(b'"down"', b'"sideways"'),
        STATE.replace(b"10.0.0.254", b"10.0.0.999"),
        STATE.replace(b"1796029249.73", b'"soon"'),
        NOTIFICATION.replace(b'"code": 6', b'"code": "six"'),
        b'{ "exabgp": ' + b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_unusable(line: bytes) -> None:
    """A value, never an exception."""
    assert isinstance(parse_line(line), Unusable)


@given(st.binary(max_size=300))
def test_no_bytes_make_the_parser_fail(raw: bytes) -> None:
    """Nor as the rest of an event."""
    parse_line(raw)
    parse_line(b'{ "exabgp"' + raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["type", "neighbor", "address", "peer", "state", "time", "notification", "direction", "code"]
            ),
            inner,
        ),
    )
)
def test_no_json_makes_the_parser_fail(value: object) -> None:
    """Whatever its shape."""
    import json

    text = json.dumps(value)
    parse_line(b'{ "exabgp": 1, ' + text[1:].encode() if text.startswith("{") else text.encode())
    parse_neighbors(text)


@given(st.text())
def test_no_text_makes_the_others_fail(text: str) -> None:
    """Answers may be anything."""
    parse_neighbors(text)
    parse_route(text)
    cleaned = clean_text(text)
    assert len(cleaned) <= TEXT_LIMIT
    assert cleaned.isprintable()


def test_the_neighbors_in_force() -> None:
    """As far as ExaBGP shows them; it does not know its own address before the first connection."""
    assert parse_neighbors(SHOWN) == (
        ShownNeighbor(address=LEAF, established=True, local=ip_address("10.0.0.1")),
        ShownNeighbor(address=ip_address("fd00::2"), established=False, local=None),
    )
    assert parse_neighbors("Peer   AS") is None
    assert parse_neighbors("7") is None


def test_the_fingerprints_in_force() -> None:
    """A neighbour that somebody else configured has none."""
    lines = [
        "neighbor 10.0.0.254 {",
        '\tdescription "ikeorch 0123456789abcdef";',
        "\trouter-id 10.0.255.1;",
        "\tcapability {",
        "\t}",
        "}",
        "neighbor fd00::2 {",
        '\tdescription "";',
        "}",
        "neighbor nonsense {",
        '\tdescription "x";',
        "}",
    ]
    assert parse_fingerprints(lines) == {LEAF: "ikeorch 0123456789abcdef", ip_address("fd00::2"): ""}


@given(st.lists(st.text()))
def test_no_lines_make_the_fingerprints_fail(lines: list[str]) -> None:
    """Answers may be anything."""
    parse_fingerprints(lines)
