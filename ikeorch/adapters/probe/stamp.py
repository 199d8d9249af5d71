"""STAMP packets, unauthenticated mode (RFC 8762 sections 4.2.1 and 4.3.1) with TLVs (RFC 8972 section 4). No I/O.

One TLV of the private-use range carries the name of the gateway and the index of the tunnel that a packet was sent
into, so that whoever receives it knows whether it came out of the right tunnel. The reflector puts its own name in
its place; both packets have one length, as RFC 8762 section 4.3 asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

PORT = 862
"""UDP port of STAMP reflectors (RFC 8762 section 4.1)."""
NTP_EPOCH = 2_208_988_800
"""Seconds from 1900 to 1970 (RFC 5905 section 6)."""
NAME_TLV = 252
"""First type of the private-use range (RFC 8972 section 5.1)."""
PADDING_TLV = 1
"""Extra Padding (RFC 8972 section 4.1)."""
SPARE_TLV = 253
"""In a probe: send nothing else into this tunnel for a moment, its SAs are about to be replaced. Without a value."""
UNRECOGNIZED = 0x80
"""The U flag: set by the sender, cleared by a reflector that knows the type (RFC 8972 section 4)."""
ERROR_ESTIMATE = 0x8001
"""Clock said to be synchronised, smallest multiplier (RFC 4656 section 4.1.2)."""

_SENDER = struct.Struct("!I Q H H 28x")
_REFLECTOR = struct.Struct("!I Q H H Q I Q H 2x B 3x")
_TLV = struct.Struct("!B B H")
_NAME = struct.Struct("!H 62s")
BASE_LENGTH = _SENDER.size
PACKET_LENGTH = BASE_LENGTH + _TLV.size + _NAME.size


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a packet, and into which tunnel.

    Attributes:
        gateway: the sender's own name, at most 32 ASCII characters.
        index: the tunnel's index, 0 to 255.
    """

    gateway: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A session sender's packet.

    Attributes:
        sequence: 0 to 2**32-1.
        timestamp: NTP, 64 bit.
        sender: who sent it.
        spare: the sender asks that this tunnel be spared.
    """

    sequence: int
    timestamp: int
    sender: Sender
    spare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A session reflector's packet.

    Attributes:
        sequence: the reflector's own; a stateless reflector copies the sender's.
        sent: NTP time of its sending at the reflector.
        received: NTP time of the probe's arrival at the reflector.
        probe_sequence: sequence number of the probe.
        probe_timestamp: timestamp of the probe.
        reflector: who answered, from which tunnel.
    """

    sequence: int
    sent: int
    received: int
    probe_sequence: int
    probe_timestamp: int
    reflector: Sender

    @property
    def dwell_seconds(self) -> float:
        """How long the reflector held the probe; 0 or more, also when its clock stepped back."""
        return max(0, self.sent - self.received) / 2**32


def ntp_timestamp(unix_seconds: float) -> int:
    """Unix time as 64-bit NTP time."""
    return int((unix_seconds + NTP_EPOCH) * 2**32) & 0xFFFF_FFFF_FFFF_FFFF


def encode_probe(probe: Probe, *, length: int = 0) -> bytes:
    """A session sender's packet, `PACKET_LENGTH` bytes, four more with a wish; or padded.

    The answer to a padded one stays short: only the way there is tried, the way back has an MTU of its own.

    Args:
        probe: what it says.
        length: bytes to pad it to, at least four more than it has; 0 for no padding.
    """
    base = _SENDER.pack(probe.sequence, probe.timestamp, ERROR_ESTIMATE, 0)
    spare = _TLV.pack(UNRECOGNIZED, SPARE_TLV, 0) if probe.spare else b""
    packet = base + _encode_name(probe.sender, UNRECOGNIZED) + spare
    rest = length - len(packet) - _TLV.size
    return packet + _TLV.pack(UNRECOGNIZED, PADDING_TLV, rest) + bytes(rest) if rest >= 0 else packet


def encode_reply(reply: Reply, *, ttl: int) -> bytes:
    """A session reflector's packet.

    Args:
        reply: what it says.
        ttl: TTL or hop limit with which the probe arrived, 0 to 255.
    """
    base = _REFLECTOR.pack(
        reply.sequence,
        reply.sent,
        ERROR_ESTIMATE,
        0,
        reply.received,
        reply.probe_sequence,
        reply.probe_timestamp,
        ERROR_ESTIMATE,
        ttl,
    )
    return base + _encode_name(reply.reflector, 0)


def decode_probe(packet: bytes) -> Probe | None:
    """Read a probe; None for anything that is not one of ours."""
    sender = _decode_name(packet)
    if sender is None:
        return None
    sequence, timestamp, _, _ = _SENDER.unpack_from(packet)
    spare = any(kind == SPARE_TLV for kind, _ in _tlvs(packet))
    return Probe(sequence=sequence, timestamp=timestamp, sender=sender, spare=spare)


def decode_reply(packet: bytes) -> Reply | None:
    """Read a reply; None for anything that is not one of ours."""
    reflector = _decode_name(packet)
    if reflector is None:
        return None
    sequence, sent, _, _, received, probe_sequence, probe_timestamp, _, _ = _REFLECTOR.unpack_from(packet)
    return Reply(
        sequence=sequence,
        sent=sent,
        received=received,
        probe_sequence=probe_sequence,
        probe_timestamp=probe_timestamp,
        reflector=reflector,
    )


def _encode_name(sender: Sender, flags: int) -> bytes:
    return _TLV.pack(flags, NAME_TLV, _NAME.size) + _NAME.pack(sender.index, sender.gateway.encode("ascii"))


def _decode_name(packet: bytes) -> Sender | None:
    """The first name TLV behind the base packet; foreign TLVs are passed over, as RFC 8972 asks."""
    for kind, value in _tlvs(packet):
        if kind == NAME_TLV and len(value) == _NAME.size:
            index, name = _NAME.unpack(value)
            try:
                return Sender(name.rstrip(b"\0").decode("ascii"), index)
            except UnicodeDecodeError:
                return None
    return None


def _tlvs(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each TLV behind the base packet, up to one that is cut off."""
    offset = BASE_LENGTH
    while offset + _TLV.size <= len(packet):
        _, kind, length = _TLV.unpack_from(packet, offset)
        offset += _TLV.size
        if offset + length > len(packet):
            return
        yield kind, packet[offset : offset + length]
        offset += length
