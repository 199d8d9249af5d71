"""Who holds the CA's key.

Everything else of the CA sees only this port, so that the key can live in another process.
"""

from __future__ import annotations

from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec


class Signer(Protocol):
    """Signs what the CA has decided to sign."""

    @property
    def certificate(self) -> x509.Certificate:
        """The CA's certificate."""

    def sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        """Sign a certificate that is complete but for its signature."""


class KeySigner:
    """A signer whose key is in this process.

    Args:
        certificate: the CA's certificate.
        key: its private key, P-384.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    def __repr__(self) -> str:
        """Never shows the key."""
        return f"KeySigner({self._certificate.subject.rfc4514_string()!r}, key=***)"

    @property
    def certificate(self) -> x509.Certificate:
        """The CA's certificate."""
        return self._certificate

    def sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        """Sign with ECDSA and SHA-384 (RFC 5758 section 3.2)."""
        return builder.sign(self._key, hashes.SHA384())
