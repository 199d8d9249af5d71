"""VICI's bytes: what is decoded, and that nothing else gets through."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vici.exception import DeserializationException
from vici.protocol import FiniteStream, Message, Packet

from ikeorch.adapters.vici.wire import (
    HEADER,
    MAX_DEPTH,
    MAX_SEGMENT,
    Outgoing,
    WireError,
    decode_message,
    decode_packet,
    encode_registration,
    encode_request,
    packet_length,
)

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-%", min_size=1, max_size=20)
VALUES = st.binary(max_size=200) | st.lists(st.binary(max_size=50), max_size=5)
MESSAGES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=5),
    lambda inner: st.dictionaries(NAMES, VALUES | inner, max_size=5),
    max_leaves=20,
)


@given(message=MESSAGES)
def test_every_message_of_the_package_is_read_as_the_package_reads_it(message: dict[str, Any]) -> None:
    """The two decoders agree on whatever the package's encoder writes."""
    encoded = Message.serialize(message)
    assert Message.deserialize(FiniteStream(encoded)) == decode_message(encoded)


@given(data=st.binary(max_size=300) | st.lists(st.sampled_from(range(8)), max_size=60).map(bytes))
def test_hostile_bytes_are_refused_in_one_way_only(data: bytes) -> None:
    """Whatever it is, it is a message or a WireError, and a message only if the package reads the same."""
    try:
        ours = decode_message(data)
    except WireError:
        return
    assert Message.deserialize(FiniteStream(data)) == ours


@given(message=MESSAGES, cut=st.integers(min_value=1, max_value=100))
def test_a_truncated_message_is_never_taken_for_a_whole_one(message: dict[str, Any], cut: int) -> None:
    """Cut anywhere, it is refused, or it ends exactly between two entries."""
    encoded = Message.serialize(message)
    shorter = encoded[: max(0, len(encoded) - cut)]
    try:
        ours = decode_message(shorter)
    except WireError:
        return
    assert Message.serialize(ours) == shorter


@given(packet=st.binary(max_size=200))
def test_hostile_packets_are_refused_in_one_way_only(packet: bytes) -> None:
    """The same for what stands around a message."""
    try:
        received = decode_packet(packet)
    except WireError:
        return
    assert Packet.parse(packet).response_type == received.kind


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x01a", "unknown marker"),
        (b"\x09\x01a", "unknown marker"),
        (b"\x02", "never began"),
        (b"\x01\x01a", "no end"),
        (b"\x04\x01a\x05\x00\x01b", "no end"),
        (b"\x04\x01a\x03", "in a list"),
        (b"\x03\x05ab", "cut off"),
        (b"\x03\x01a\x00\x09b", "cut off"),
        (b"\x03\x01a\x00", "cut off"),
        (b"\x03\x01\xff\x00\x00", "UTF-8"),
        (b"\x03\x01a\x00\x00" * 2, "twice"),
        (b"\x01\x01a\x02" * 2, "twice"),
        (b"\x01\x01a" * (MAX_DEPTH + 1) + b"\x02" * (MAX_DEPTH + 1), "within each other"),
    ],
)
def test_a_malformed_message_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    """Each kind of fault has its own words."""
    with pytest.raises(WireError, match=reason):
        decode_message(data)


def test_the_package_would_take_a_truncated_message() -> None:
    """Why we decode ourselves: this message claims nine bytes and brings one."""
    try:
        taken = Message.deserialize(FiniteStream(b"\x03\x01a\x00\x09b"))
    except DeserializationException:
        pytest.fail("the package is strict now; its decoder could be used")
    assert taken == {"a": b"b"}


@pytest.mark.parametrize("packet", [b"", b"\x00", b"\x03\x01a", b"\x63", b"\x07\x05ab"])
def test_what_charon_never_sends_is_no_packet(packet: bytes) -> None:
    """Requests, unknown kinds, an event without its whole name."""
    with pytest.raises(WireError):
        decode_packet(packet)


@pytest.mark.parametrize("length", [0, MAX_SEGMENT + 1, 2**32 - 1])
def test_a_frame_is_bounded_before_it_is_read(length: int) -> None:
    """A length from the wire never becomes memory unchecked."""
    with pytest.raises(WireError):
        packet_length(HEADER.pack(length))


def test_a_frame_of_the_largest_size_is_read() -> None:
    """The bound itself is inside."""
    assert packet_length(HEADER.pack(MAX_SEGMENT)) == MAX_SEGMENT


def test_a_request_is_framed() -> None:
    """Length, kind, name, message."""
    expected = Packet.request("load-conn", Message.serialize({"a": {"b": ["c", b"d"], "e": "1"}}))
    framed = encode_request("load-conn", {"a": {"b": ["c", b"d"], "e": 1}})
    assert HEADER.pack(len(expected)) + expected == framed


def test_a_registration_is_framed() -> None:
    """Register and its undoing differ in the kind only."""
    assert encode_registration("log", register=True)[4:] == b"\x03\x03log"
    assert encode_registration("log", register=False)[4:] == b"\x04\x03log"


@pytest.mark.parametrize(
    "message",
    [{"a": None}, {"a": True}, {"a": 1.5}, {"a": [1]}, {"a": ["b", None]}, {"a": "x" * 70_000}, {"a" * 256: "b"}],
)
def test_what_vici_cannot_carry_is_refused(message: Outgoing) -> None:
    """charon would read ``None`` as text, and lengths overflow (A13)."""
    with pytest.raises(WireError):
        encode_request("load-conn", message)


def test_a_request_longer_than_a_packet_is_refused() -> None:
    """charon would close the connection."""
    with pytest.raises(WireError, match="longer"):
        encode_request("load-conn", {str(number): "x" * 60_000 for number in range(10)})
