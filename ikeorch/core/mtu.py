"""How large an inner packet may be, so that the encrypted one fits the underlay."""

from __future__ import annotations

ESP_HEADER = 8
"""SPI and sequence number (RFC 4303 section 2)."""
UDP_HEADER = 8
GCM_IV = 8
"""RFC 4106 section 3.1; chacha20poly1305 the same (RFC 7634 section 2)."""
ICV = 16
TRAILER = 2
"""Pad length and next header (RFC 4303 sections 2.5 and 2.6)."""
ALIGNMENT = 4
IPV6_MINIMUM = 1280
"""RFC 8200 section 5; the kernel takes IPv6 off an interface below it."""


def inner_mtu(underlay_mtu: int, *, ipv6_underlay: bool, udp_encapsulation: bool = False) -> int:
    """The largest inner packet whose ESP packet fits the underlay unfragmented (tunnel mode, AEAD with 16-byte ICV).

    Args:
        underlay_mtu: bytes, of the uplink's device.
        ipv6_underlay: the outer header is 40 bytes instead of 20.
        udp_encapsulation: NAT traversal (RFC 3948).

    Returns:
        Bytes, never below 1280: under that ESP is fragmented outside rather than IPv6 lost inside.
    """
    outer = 40 if ipv6_underlay else 20
    udp = UDP_HEADER if udp_encapsulation else 0
    encrypted = underlay_mtu - outer - udp - ESP_HEADER - GCM_IV - ICV
    return max(encrypted - encrypted % ALIGNMENT - TRAILER, IPV6_MINIMUM)
