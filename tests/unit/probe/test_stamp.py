"""STAMP packets: their exact layout, and that nothing hostile passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.adapters.probe.stamp import (
    PACKET_LENGTH,
    Probe,
    Reply,
    Sender,
    decode_probe,
    decode_reply,
    encode_probe,
    encode_reply,
    ntp_timestamp,
)

PROBE = Probe(sequence=7, timestamp=0x1122334455667788, sender=Sender("gw-a", 3))
REPLY = Reply(
    sequence=7, sent=2 << 32, received=1 << 32, probe_sequence=7, probe_timestamp=5, reflector=Sender("gw-b", 3)
)


def test_a_probe_has_the_layout_of_rfc_8762() -> None:
    """Sequence, timestamp, error estimate, 30 zero bytes, then our TLV with the U flag (RFC 8972)."""
    packet = encode_probe(PROBE)
    assert packet[:14].hex() == "00000007" + "1122334455667788" + "8001"
    assert packet[14:44] == bytes(30)
    assert packet[44:48].hex() == "80fc0040"
    assert packet[48:54] == b"\x00\x03gw-a"
    assert len(packet) == PACKET_LENGTH


def test_a_reply_has_the_layout_of_rfc_8762() -> None:
    """The probe's fields come back at their offsets, with the TTL; probe and reply have one length."""
    packet = encode_reply(REPLY, ttl=64)
    assert packet[16:24].hex() == "0000000100000000"
    assert packet[24:28].hex() == "00000007"
    assert packet[28:36].hex() == "0000000000000005"
    assert packet[36:44].hex() == "8001" + "0000" + "40" + "000000"
    assert packet[44:48].hex() == "00fc0040"
    assert len(packet) == PACKET_LENGTH


def test_what_is_written_reads_back() -> None:
    """Names and numbers survive."""
    assert decode_probe(encode_probe(PROBE)) == PROBE
    assert decode_reply(encode_reply(REPLY, ttl=1)) == REPLY
    assert REPLY.dwell_seconds == 1.0


def test_foreign_tlvs_are_passed_over() -> None:
    """A sender may add TLVs of other types before ours."""
    packet = encode_probe(PROBE)
    assert decode_probe(packet[:44] + b"\x80\x01\x00\x04abcd" + packet[44:]) == PROBE


@pytest.mark.parametrize("cut", [0, 1, 43, 44, 47, 48, PACKET_LENGTH - 1])
def test_a_short_packet_is_none_of_ours(cut: int) -> None:
    """Cut anywhere."""
    assert decode_probe(encode_probe(PROBE)[:cut]) is None


@given(st.binary(max_size=200))
def test_rubbish_never_raises(packet: bytes) -> None:
    """Whatever arrives on the port."""
    decode_probe(packet)
    decode_reply(packet)


def test_a_reflector_whose_clock_stepped_back_held_nothing() -> None:
    """Round-trip times are never negative."""
    assert (
        Reply(
            sequence=0, sent=1, received=2, probe_sequence=0, probe_timestamp=0, reflector=Sender("b", 0)
        ).dwell_seconds
        == 0
    )


def test_ntp_time_counts_from_1900() -> None:
    """1970-01-01 is 2208988800 seconds after (RFC 5905)."""
    assert ntp_timestamp(0.5) == (2208988800 << 32) + (1 << 31)
