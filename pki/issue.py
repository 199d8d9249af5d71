"""Make certificates: the CA's own and the gateways'. Time, serial and keys are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pki.errors import ProfileError
from pki.profiles import BACKDATE, COMMON_NAME_LIMIT, IKE_INTERMEDIATE, CaProfile, GatewayProfile
from pki.signer import KeySigner, Signer


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCredentials:
    """A gateway's certificate and the key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        """Never shows the key."""
        return f"GatewayCredentials(serial={self.certificate.serial_number:x}, key=***)"


def new_key() -> ec.EllipticCurvePrivateKey:
    """A fresh P-384 key."""
    return ec.generate_private_key(ec.SECP384R1())


def new_serial() -> int:
    """A random serial number, positive and at most 159 bits (RFC 5280 section 4.1.2.2)."""
    return x509.random_serial_number()


def create_ca(profile: CaProfile, key: ec.EllipticCurvePrivateKey, *, serial: int, now: datetime) -> KeySigner:
    """Make a self-signed root.

    Args:
        profile: what it holds.
        key: its private key.
        serial: from `new_serial`.
        now: aware UTC time.

    Returns:
        The signer of the new CA.
    """
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, profile.common_name)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + profile.lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA384())
    )
    return KeySigner(certificate, key)


def issue_gateway(
    profile: GatewayProfile, public_key: ec.EllipticCurvePublicKey, signer: Signer, *, serial: int, now: datetime
) -> x509.Certificate:
    """Make a gateway's certificate.

    Args:
        profile: what it holds.
        public_key: the gateway's.
        signer: of the CA.
        serial: from `new_serial`.
        now: aware UTC time.

    Raises:
        ProfileError: the CA's certificate would end before the new one, or is not valid now.
    """
    ca = signer.certificate
    if not ca.not_valid_before_utc <= now <= ca.not_valid_after_utc:
        valid = f"{ca.not_valid_before_utc:%F %T} to {ca.not_valid_after_utc:%F %T} UTC"
        raise ProfileError(
            f"the CA is valid from {valid}, now is {now:%F %T}",
            hint="check the clock, or begin a new generation of the CA",
        )
    if now + profile.lifetime > ca.not_valid_after_utc:
        raise ProfileError(
            f"the CA ends at {ca.not_valid_after_utc:%F %T} UTC, before the new certificate",
            hint="ask for a shorter lifetime, or begin a new generation of the CA",
        )
    # a name that is longer than a common name may be stands in the SAN alone
    fits = len(profile.identity) <= COMMON_NAME_LIMIT
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, profile.identity)] if fits else []
    issuer_key = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(ca.subject)
        .public_key(public_key)
        .serial_number(serial)
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + profile.lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [
                    ExtendedKeyUsageOID.SERVER_AUTH,
                    ExtendedKeyUsageOID.CLIENT_AUTH,
                    x509.ObjectIdentifier(IKE_INTERMEDIATE),
                ]
            ),
            critical=False,
        )
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in profile.names]), critical=not subject
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_key), critical=False)
    )
    return signer.sign(builder)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    """A CA signs certificates and CRLs, a gateway signs IKE_AUTH (RFC 5280 section 4.2.1.3)."""
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
