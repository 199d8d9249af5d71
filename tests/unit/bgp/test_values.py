"""What may be wished for, and the community's eight bytes."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgp.advertisement import Advertisement, Neighbor
from bgp.link_bandwidth import (
    LinkBandwidth,
    decode_link_bandwidth,
    encode_link_bandwidth,
    round_bandwidth,
)

NEIGHBOR = Neighbor(address=ip_address("10.0.0.254"), asn=65001, local_asn=65010, router_id=IPv4Address("10.0.255.1"))
OFFER = Advertisement(prefix=ip_network("10.2.0.0/16"), link_bandwidth=1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"address": ip_address("0.0.0.0")},
        {"address": ip_address("255.255.255.255")},
        {"address": ip_address("224.0.0.1")},
        {"address": ip_address("fe80::1")},
        {"address": ip_address("fe80::1%eth0")},
        {"address": ip_address("::ffff:10.0.0.1")},
        {"address": "10.0.0.1"},
        {"asn": 0},
        {"asn": 2**32},
        {"asn": 23456},
        {"local_asn": -1},
        {"router_id": IPv4Address(0)},
        {"router_id": ip_address("::1")},
        {"local_address": ip_address("fd00::1")},
        {"local_address": ip_address("10.0.0.254")},
        {"graceful_restart": 0},
        {"graceful_restart": 4096},
        {"hold_time": 8},
        {"hold_time": 181},
    ],
)
def test_a_neighbor_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    """Before anything is written into ExaBGP's configuration."""
    with pytest.raises(ValueError, match=r".+"):
        replace(NEIGHBOR, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"link_bandwidth": -1.0},
        {"link_bandwidth": math.nan},
        {"link_bandwidth": math.inf},
        {"link_bandwidth": 2.0**32},
        {"link_bandwidth": 2.0**32 - 1},
        {"prefix": "10.0.0.0/8"},
        {"prefix": ip_network("224.0.0.0/8")},
        {"next_hop": ip_address("fd00::1")},
        {"next_hop": ip_address("0.0.0.0")},
    ],
)
def test_an_offer_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    """2^32 - 1 rounds to 2^32, which FRR truncates."""
    with pytest.raises(ValueError, match=r".+"):
        replace(OFFER, **change)


@pytest.mark.parametrize(
    ("bandwidth", "asn", "transitive", "raw"),
    [
        (0.0, 65010, False, "4004fdf200000000"),
        (-0.0, 65010, False, "4004fdf200000000"),
        (1.0, 65010, True, "0004fdf23f800000"),
        (1_250_000_000.0, 1, False, "400400014e9502f9"),
        (4_294_967_040.0, 65535, False, "4004ffff4f7fffff"),
        (1.0, 4_200_000_000, False, "40045ba03f800000"),
    ],
)
def test_the_bytes(bandwidth: float, asn: int, transitive: bool, raw: str) -> None:
    """Big-endian, the AS number of four bytes replaced by AS_TRANS."""
    assert raw == encode_link_bandwidth(bandwidth, asn=asn, transitive=transitive).hex()


@pytest.mark.parametrize("asn", [0, -1, 2**32])
def test_an_as_number_out_of_range_is_refused(asn: int) -> None:
    """0 is reserved."""
    with pytest.raises(ValueError, match="AS number"):
        encode_link_bandwidth(1.0, asn=asn)


@given(st.floats(min_value=0, max_value=4_294_967_040.0), st.integers(1, 2**32 - 1), st.booleans())
def test_what_is_encoded_is_decoded(bandwidth: float, asn: int, transitive: bool) -> None:
    """With the nearest float32: no other is nearer."""
    decoded = decode_link_bandwidth(encode_link_bandwidth(bandwidth, asn=asn, transitive=transitive))
    assert decoded == LinkBandwidth(
        asn=asn if asn < 65536 else 23456, bandwidth=round_bandwidth(bandwidth), transitive=transitive
    )
    (bits,) = struct.unpack("!I", struct.pack("!f", decoded.bandwidth))
    for other in (bits - 1, bits + 1):
        if other >= 0:
            (near,) = struct.unpack("!f", struct.pack("!I", other))
            assert abs(decoded.bandwidth - bandwidth) <= abs(near - bandwidth)


@given(st.binary(max_size=12))
def test_no_bytes_make_the_decoder_fail(raw: bytes) -> None:
    """Other communities are None, and so are numbers that are none."""
    decoded = decode_link_bandwidth(raw)
    assert decoded is None or (math.isfinite(decoded.bandwidth) and decoded.bandwidth >= 0)


@pytest.mark.parametrize("raw", ["4004fdf27fc00000", "4004fdf27f800000", "4004fdf2bf800000", "0002fdf23f800000", "40"])
def test_what_is_no_link_bandwidth(raw: str) -> None:
    """NaN, infinity, negative, another type, too short."""
    assert decode_link_bandwidth(bytes.fromhex(raw)) is None
