"""The link bandwidth extended community, built by us from its eight bytes.

Layout: type 0x40 (non-transitive) or 0x00 (transitive), sub-type 0x04, a two-byte AS number, a float32 in bytes per
second (draft-ietf-idr-link-bandwidth). ExaBGP's own keyword takes whole numbers up to 34 Gbit/s and two-byte AS numbers
only, and FRR truncates above 2^32 bytes/s: such values are refused here.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

SIZE = 8
NON_TRANSITIVE = 0x4004
TRANSITIVE = 0x0004
AS_TRANS = 23456
"""Stands for an AS number that does not fit two bytes (RFC 6793)."""
LIMIT = 2**32
"""Bytes/s that FRR can no longer hold."""
_WIRE = struct.Struct("!HHf")
_FLOAT = struct.Struct("!f")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBandwidth:
    """What the community says.

    Attributes:
        asn: the sender's AS number, 23456 for one of four bytes.
        bandwidth: bytes/s.
        transitive: survives an AS boundary.
    """

    asn: int
    bandwidth: float
    transitive: bool


def round_bandwidth(bandwidth: float) -> float:
    """The nearest float32, which is what a peer reads.

    Args:
        bandwidth: bytes/s.

    Raises:
        ValueError: not a number, infinite, negative, or 2^32 and more after rounding.
    """
    if math.isfinite(bandwidth) and 0 <= bandwidth < LIMIT:
        (rounded,) = _FLOAT.unpack(_FLOAT.pack(bandwidth))
        if rounded < LIMIT:
            return abs(float(rounded))
    raise ValueError(f"a link bandwidth of {bandwidth!r} bytes/s is not within 0 to 2^32")


def encode_link_bandwidth(bandwidth: float, *, asn: int, transitive: bool = False) -> bytes:
    """The community's eight bytes.

    Args:
        bandwidth: bytes/s.
        asn: ours; 23456 is written for one above 65535.
        transitive: type 0x00 instead of 0x40.

    Raises:
        ValueError: a bandwidth or an AS number out of range.
    """
    if not 0 < asn < 2**32:
        raise ValueError(f"{asn} is no AS number")
    short = asn if asn <= 0xFFFF else AS_TRANS
    return _WIRE.pack(TRANSITIVE if transitive else NON_TRANSITIVE, short, round_bandwidth(bandwidth))


def decode_link_bandwidth(raw: bytes) -> LinkBandwidth | None:
    """Read a community; None when it is another one or says no usable number."""
    if len(raw) != SIZE:
        return None
    kind, asn, bandwidth = _WIRE.unpack(raw)
    if kind not in (NON_TRANSITIVE, TRANSITIVE) or not math.isfinite(bandwidth) or bandwidth < 0:
        return None
    return LinkBandwidth(asn=asn, bandwidth=abs(bandwidth), transitive=kind == TRANSITIVE)
