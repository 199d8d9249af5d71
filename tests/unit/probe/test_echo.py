"""ICMP echoes on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.adapters.probe.echo import MARK, decode_reply, encode_request

IPV4_HEADER = bytes([0x45]) + bytes(19)


def reply(version: int, *, kind: int | None = None, mark: bytes = MARK) -> bytes:
    """What the peer's kernel makes of our request, as a raw socket delivers it."""
    request = encode_request(version, 0x1234, 7)
    answer = bytes([kind if kind is not None else {4: 0, 6: 129}[version]]) + request[1:8] + mark
    return IPV4_HEADER + answer if version == 4 else answer


def test_a_request_is_exact() -> None:
    """RFC 792: type 8, code 0, a checksum that adds up to zero, identifier, sequence."""
    request = encode_request(4, 0x1234, 7)
    assert request[:2] == b"\x08\x00"
    assert request[4:8] == b"\x12\x34\x00\x07"
    total = sum(int.from_bytes(request[at : at + 2]) for at in range(0, len(request), 2))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
    assert encode_request(6, 1, 2)[:2] == b"\x80\x00"


@pytest.mark.parametrize("version", [4, 6])
def test_an_answer_to_ours_is_read(version: int) -> None:
    """Its sequence number comes back."""
    assert decode_reply(version, reply(version), 0x1234) == 7


@pytest.mark.parametrize("version", [4, 6])
def test_other_peoples_packets_are_not(version: int) -> None:
    """Another identifier, another type, another payload."""
    assert decode_reply(version, reply(version), 0x1235) is None
    assert decode_reply(version, reply(version, kind=3), 0x1234) is None
    assert decode_reply(version, reply(version, mark=b"x" * len(MARK)), 0x1234) is None


@given(st.sampled_from([4, 6]), st.binary(max_size=80))
def test_rubbish_is_no_answer(version: int, packet: bytes) -> None:
    """And never an error."""
    assert decode_reply(version, packet, 0x1234) in {None, 7}
