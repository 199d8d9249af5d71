"""Where keys and certificates lie: folders 0700, keys 0600, every file whole or not there.

A CA's folder holds ``ca.pem``, ``ca.key`` and ``issued/<serial>.pem``. A gateway's folder holds ``<name>.pem``,
``<name>.key`` and ``ca.pem``.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pki.errors import StoreError
from pki.issue import GatewayCredentials
from pki.signer import KeySigner

CA_CERTIFICATE = "ca.pem"
CA_KEY = "ca.key"
ISSUED = "issued"


def write_file(path: Path, content: bytes, *, mode: int, replace: bool) -> None:
    """Write a file so that at any moment the old, the new or no file is there, never a part of one.

    Raises:
        StoreError: it exists and may not be replaced, or the operating system refuses.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.replace(path)
            else:
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        raise StoreError("exists already", where=str(path), hint="name another folder") from None
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", where=str(path), hint="try as root") from None


def make_folder(path: Path) -> None:
    """Create a folder that only its owner may enter.

    Raises:
        StoreError: the operating system refuses.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot be made: {error.strerror}", where=str(path), hint="try as root") from None


def save_ca(folder: Path, signer: KeySigner, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a new CA's folder.

    Raises:
        StoreError: a CA is there already; nothing of it is touched.
    """
    if (folder / CA_KEY).exists() or (folder / CA_CERTIFICATE).exists():
        raise StoreError("holds a CA already", where=str(folder), hint="nothing was changed; name another folder")
    make_folder(folder)
    make_folder(folder / ISSUED)
    write_file(folder / CA_KEY, _key_pem(key), mode=0o600, replace=False)
    write_file(folder / CA_CERTIFICATE, certificate_pem(signer.certificate), mode=0o644, replace=False)


def open_ca(folder: Path) -> KeySigner:
    """Read a CA's folder.

    Raises:
        StoreError: there is none, it may not be read, its key is open to others, or the two do not belong together.
    """
    certificate = load_certificate(folder / CA_CERTIFICATE)
    key = load_key(folder / CA_KEY)
    if certificate.public_key() != key.public_key():
        raise StoreError(f"{CA_KEY} does not belong to {CA_CERTIFICATE}", where=str(folder))
    return KeySigner(certificate, key)


def save_gateway(folder: Path, name: str, credentials: GatewayCredentials, ca: x509.Certificate) -> dict[str, Path]:
    """Write a gateway's key, certificate and trust anchor; the key first, so that no certificate lacks its key.

    Returns:
        Paths of ``key``, ``certificate`` and ``ca``.

    Raises:
        StoreError: the operating system refuses.
    """
    make_folder(folder)
    paths = {"key": folder / f"{name}.key", "certificate": folder / f"{name}.pem", "ca": folder / CA_CERTIFICATE}
    write_file(paths["key"], _key_pem(credentials.key), mode=0o600, replace=True)
    write_file(paths["certificate"], certificate_pem(credentials.certificate), mode=0o644, replace=True)
    write_file(paths["ca"], certificate_pem(ca), mode=0o644, replace=True)
    return paths


def record_issued(folder: Path, certificate: x509.Certificate) -> None:
    """Keep a copy of what was signed.

    Raises:
        StoreError: the operating system refuses.
    """
    make_folder(folder / ISSUED)
    path = folder / ISSUED / f"{certificate.serial_number:040x}.pem"
    write_file(path, certificate_pem(certificate), mode=0o644, replace=False)


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def load_certificate(path: Path) -> x509.Certificate:
    """Read one PEM certificate.

    Raises:
        StoreError: missing, not readable, or no certificate.
    """
    content = _read(path)
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError:
        raise StoreError("holds no PEM certificate", where=str(path)) from None


def load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a PEM private key.

    Raises:
        StoreError: missing, not readable, open to others, encrypted, or not an EC key.
    """
    content = _read(path)
    if path.stat().st_mode & 0o077:
        raise StoreError("is open to others", where=str(path), hint=f"chmod 600 {path}")
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError):
        raise StoreError("holds no unencrypted PEM private key", where=str(path)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StoreError("holds a key that is not EC", where=str(path), hint="use a P-384 key")
    return key


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(1024 * 1024)
    except FileNotFoundError:
        raise StoreError("is missing", where=str(path), hint="ikeorch pki init or issue makes it") from None
    except OSError as error:
        raise StoreError(f"cannot be read: {error.strerror}", where=str(path), hint="try as root") from None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
