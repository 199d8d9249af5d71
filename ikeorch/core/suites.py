"""Crypto suites: how a suite is written, what IKE and ESP derive from it, and which are refused.

A suite is written as swanctl writes an IKE proposal, ``aes256gcm16-prfsha384-ecp384``; the ESP proposal drops the
PRF and asks for extended sequence numbers (without ``-esn`` charon negotiates 32 bit, which wrap in 32 min at
25 Gbit/s). Only algorithms that RFC 8221 and RFC 8247 ask for, or stronger ones, are in the table: what is not in the
table is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

AEAD_ALGORITHMS = frozenset({"aes128gcm16", "aes256gcm16", "chacha20poly1305"})
"""AEADs: RFC 8221 section 5 and RFC 8247 section 2.1 (16-byte ICV)."""

PRF_ALGORITHMS = frozenset({"prfsha256", "prfsha384", "prfsha512"})
"""RFC 8247 section 2.2."""

KEY_EXCHANGES = frozenset({"ecp256", "ecp384", "ecp521", "curve25519", "modp3072", "modp4096"})
"""Groups 19, 20, 21, 31, 15 and 16: RFC 8247 section 2.4 and stronger."""


class SuiteError(ValueError):
    """A suite that is misspelt, incomplete or too weak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A crypto suite.

    Attributes:
        aead: cipher of IKE and ESP.
        prf: pseudo-random function of IKE.
        key_exchange: group of IKE and of each rekey (forward secrecy).
    """

    aead: str
    prf: str
    key_exchange: str

    def __str__(self) -> str:
        """As the configuration writes it."""
        return f"{self.aead}-{self.prf}-{self.key_exchange}"

    @property
    def ike_proposal(self) -> str:
        """The connection's ``proposals`` item."""
        return str(self)

    @property
    def esp_proposal(self) -> str:
        """The child's ``esp_proposals`` item, with extended sequence numbers."""
        return f"{self.aead}-{self.key_exchange}-esn"


_NEGOTIATED = {
    "AES_GCM_16-128": "aes128gcm16",
    "AES_GCM_16-256": "aes256gcm16",
    "CHACHA20_POLY1305": "chacha20poly1305",
    "CHACHA20_POLY1305-256": "chacha20poly1305",
    "PRF_HMAC_SHA2_256": "prfsha256",
    "PRF_HMAC_SHA2_384": "prfsha384",
    "PRF_HMAC_SHA2_512": "prfsha512",
    "ECP_256": "ecp256",
    "ECP_384": "ecp384",
    "ECP_521": "ecp521",
    "CURVE_25519": "curve25519",
    "MODP_3072": "modp3072",
    "MODP_4096": "modp4096",
}
"""What list-sas calls them (libstrongswan: crypter.c, prf.c, key_exchange.c of strongSwan)."""


def from_negotiated(text: str) -> Suite | None:
    """The suite of an IKE_SA as list-sas tells it, ``AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384``; None for others."""
    parts = [_NEGOTIATED.get(part, "") for part in text.split("/")]
    if len(parts) != 3 or not all(parts):
        return None
    return Suite(aead=parts[0], prf=parts[1], key_exchange=parts[2])


DEFAULT_SUITE = Suite(aead="aes256gcm16", prf="prfsha384", key_exchange="ecp384")


def parse_suite(text: str) -> Suite:
    """Read a suite such as ``aes256gcm16-prfsha384-ecp384``.

    Raises:
        SuiteError: not three parts, or a part that is unknown or too weak; the message lists what is allowed.
    """
    parts = text.split("-")
    if len(parts) != 3:
        raise SuiteError(f"{text!r} is not a suite; write CIPHER-PRF-GROUP, such as {DEFAULT_SUITE}")
    for part, allowed, kind in (
        (parts[0], AEAD_ALGORITHMS, "cipher"),
        (parts[1], PRF_ALGORITHMS, "PRF"),
        (parts[2], KEY_EXCHANGES, "group"),
    ):
        if part not in allowed:
            raise SuiteError(
                f"{part!r} is no {kind} that we allow (RFC 8221, RFC 8247); use {', '.join(sorted(allowed))}"
            )
    return Suite(aead=parts[0], prf=parts[1], key_exchange=parts[2])
