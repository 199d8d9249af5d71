"""Read the gateway's certificate, key and trust anchor from their files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from ikeorch.core.desired import CredentialBundle
from ikeorch.core.secret import Secret
from ikeorch.core.spec import CredentialsSpec
from ikeorch.core.units import Seconds
from ikeorch.errors import IkeorchError

MAX_PEM = 1024 * 1024


class CredentialsError(IkeorchError):
    """A credential file is missing, unreadable, or does not belong to the others."""

    code = "credentials-unreadable"


@dataclass(frozen=True, slots=True)
class LoadedCredentials:
    """What the files hold: the public part for the plan, the key for charon."""

    bundle: CredentialBundle
    key: Secret


def load_credentials(spec: CredentialsSpec) -> LoadedCredentials:
    """Read and check the three files.

    Raises:
        CredentialsError: naming the file and what to do.
    """
    certificate = _certificate(spec.certificate)
    ca = _certificate(spec.ca)
    key_pem = _read(spec.key)
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError):
        raise CredentialsError("holds no unencrypted PEM private key", where=str(spec.key)) from None
    spki = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    key_spki = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    if spki != key_spki:
        raise CredentialsError(
            f"does not belong to {spec.certificate}",
            where=str(spec.key),
            hint="issue both anew with `ikeorch pki issue`",
        )
    if certificate.issuer != ca.subject:
        raise CredentialsError(f"was not issued by {spec.ca}", where=str(spec.certificate), hint="use the issuing CA")
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        dns_names = frozenset(name.lower() for name in names.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        dns_names = frozenset()
    ca_pem = ca.public_bytes(serialization.Encoding.PEM)
    bundle = CredentialBundle(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        ca=ca_pem.decode(),
        key_id=x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest.hex(),
        ca_id="ikeorch-ca-" + hashlib.sha256(ca_pem).hexdigest()[:12],
        names=dns_names,
        expires=Seconds(min(each.not_valid_after_utc.timestamp() for each in (certificate, ca))),
    )
    return LoadedCredentials(bundle, Secret(key_pem))


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise CredentialsError("holds no PEM certificate", where=str(path)) from None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PEM)
    except OSError as error:
        hint = "make it with `ikeorch pki issue`, or correct gateway.credentials"
        raise CredentialsError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from None
