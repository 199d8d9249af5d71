"""ICMP and ICMPv6 echoes (RFC 792, RFC 4443 section 4). No I/O.

The peer's kernel answers them, whatever its prober does.
"""

from __future__ import annotations

import struct

MARK = b"ikeorch-probe\0\0\0"
"""Payload of our requests; an answer without it is somebody else's."""
_HEADER = struct.Struct("!B B H H H")
_TYPES = {4: (8, 0), 6: (128, 129)}
"""Request and reply, by IP version."""


def reply_type(version: int) -> int:
    """The ICMP type of an echo reply, for an IP version (4 or 6)."""
    return _TYPES[version][1]


def encode_request(version: int, identifier: int, sequence: int) -> bytes:
    """An echo request; the checksum of ICMPv6 is the kernel's work (RFC 3542 section 3.1).

    Args:
        version: 4 or 6.
        identifier: 0 to 65535.
        sequence: 0 to 65535.
    """
    kind = _TYPES[version][0]
    checksum = _checksum(_HEADER.pack(kind, 0, 0, identifier, sequence) + MARK) if version == 4 else 0
    return _HEADER.pack(kind, 0, checksum, identifier, sequence) + MARK


def decode_reply(version: int, packet: bytes, identifier: int) -> int | None:
    """Read what a raw socket delivered: with the IP header for version 4, without for 6.

    Returns:
        The sequence number; None for anything that is no answer to our request.
    """
    if version == 4:
        if not packet:
            return None
        packet = packet[(packet[0] & 0x0F) * 4 :]
    if len(packet) < _HEADER.size + len(MARK):
        return None
    sequence: int
    kind, code, _, found, sequence = _HEADER.unpack_from(packet)
    ours = (kind, code, found) == (reply_type(version), 0, identifier) and packet.startswith(MARK, _HEADER.size)
    return sequence if ours else None


def _checksum(data: bytes) -> int:
    """RFC 1071, over an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
