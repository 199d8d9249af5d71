"""What the CA signs, what it refuses, and how it keeps it."""

from __future__ import annotations

import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtensionOID

from pki.errors import ProfileError, StoreError
from pki.issue import GatewayCredentials, create_ca, issue_gateway, new_key, new_serial
from pki.profiles import CaProfile, GatewayProfile
from pki.signer import KeySigner
from pki.store import certificate_pem, load_key, open_ca, record_issued, save_ca, save_gateway

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def ca_key() -> ec.EllipticCurvePrivateKey:
    """The CA's key."""
    return new_key()


@pytest.fixture(scope="module")
def signer(ca_key: ec.EllipticCurvePrivateKey) -> KeySigner:
    """A CA."""
    return create_ca(CaProfile(name="test CA"), ca_key, serial=new_serial(), now=NOW)


def issue(signer: KeySigner, profile: GatewayProfile | None = None, *, now: datetime = NOW) -> x509.Certificate:
    """A gateway's certificate."""
    profile = profile or GatewayProfile(identity="gw-a.dc.example")
    return issue_gateway(profile, new_key().public_key(), signer, serial=new_serial(), now=now)


def test_a_gateway_certificate_names_the_gateway_and_each_tunnel(signer: KeySigner) -> None:
    """A wildcard would not match an IKE identity, so each stands by itself."""
    names = issue(signer).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    expected = ["gw-a.dc.example", *(f"t{index}.gw-a.dc.example" for index in range(16))]
    assert expected == names.get_values_for_type(x509.DNSName)


def test_a_gateway_certificate_has_the_extensions_that_ike_needs(signer: KeySigner) -> None:
    """P-384, digitalSignature, three EKUs, AKI equal to the CA's SKI, and neither AIA nor CDP."""
    certificate = issue(signer)
    extensions = certificate.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    issuer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    subject = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp384r1"
    assert usage.digital_signature
    assert not usage.key_cert_sign
    assert [purpose.dotted_string for purpose in purposes] == [
        "1.3.6.1.5.5.7.3.1",
        "1.3.6.1.5.5.7.3.2",
        "1.3.6.1.5.5.8.2.2",
    ]
    assert issuer.key_identifier == subject.digest
    present = {extension.oid for extension in extensions}
    assert ExtensionOID.AUTHORITY_INFORMATION_ACCESS not in present
    assert ExtensionOID.CRL_DISTRIBUTION_POINTS not in present
    assert AuthorityInformationAccessOID.OCSP not in present


def test_the_ca_certificate_may_sign_certificates_and_crls_only(signer: KeySigner) -> None:
    """CA:TRUE critical with path length 0; a new generation has a new name."""
    extensions = signer.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.crl_sign) == (True, True, True)
    assert not usage.value.digital_signature
    assert CaProfile(name="x", generation=2).common_name == "x G2"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_accepts_what_was_issued(signer: KeySigner, tmp_path: Path) -> None:
    """With -x509_strict, as a TLS client and as a server."""
    now = datetime.now(UTC)
    key = new_key()
    current = create_ca(CaProfile(name="now CA"), key, serial=new_serial(), now=now)
    (tmp_path / "ca.pem").write_bytes(certificate_pem(current.certificate))
    (tmp_path / "gw.pem").write_bytes(certificate_pem(issue(current, now=now)))
    for purpose in ("sslclient", "sslserver"):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", "gw.pem"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.stdout == "gw.pem: OK\n", result.stderr


@pytest.mark.parametrize(
    "identity", ["", "gw", "*.dc.example", "GW.example", "gw_a.example", "a..b", "gw.example\n", "x" * 64 + ".e"]
)
def test_names_that_are_no_dns_names_are_refused(identity: str) -> None:
    """No wildcard, no upper case, no line end."""
    with pytest.raises(ProfileError):
        GatewayProfile(identity=identity)


def test_numbers_out_of_range_are_refused() -> None:
    """Tunnel names, lifetime, CA name and generation."""
    for arguments in (
        {"tunnel_names": 15},
        {"tunnel_names": 257},
        {"lifetime": timedelta(days=399)},
        {"lifetime": timedelta(0)},
    ):
        with pytest.raises(ProfileError):
            GatewayProfile(identity="gw.example", **arguments)
    for profile in ({"name": ""}, {"name": "x\n"}, {"name": "é"}, {"name": "x", "generation": 0}):
        with pytest.raises(ProfileError):
            CaProfile(**profile)


def test_the_ca_signs_nothing_that_outlives_it(signer: KeySigner) -> None:
    """Nor when the clock says that it is not valid."""
    end = signer.certificate.not_valid_after_utc
    for now in (end - timedelta(days=1), end + timedelta(days=1), NOW - timedelta(days=1)):
        with pytest.raises(ProfileError, match="the CA"):
            issue(signer, now=now)


def test_a_long_identity_stands_in_the_san_alone(signer: KeySigner) -> None:
    """A common name holds 64 characters; then the SAN is critical (RFC 5280 section 4.1.2.6)."""
    certificate = issue(signer, GatewayProfile(identity="a" * 60 + ".dc.example"))
    assert certificate.subject.rfc4514_string() == ""
    assert certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).critical


def modes(folder: Path) -> dict[str, int]:
    """Permissions of everything in a folder."""
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_the_store_keeps_keys_to_their_owner(
    signer: KeySigner, ca_key: ec.EllipticCurvePrivateKey, tmp_path: Path
) -> None:
    """Folders 0700, keys 0600, whatever the umask says; no other file is left behind."""
    ca = tmp_path / "ca"
    save_ca(ca, signer, ca_key)
    certificate = issue(signer)
    record_issued(ca, certificate)
    assert stat.S_IMODE(ca.stat().st_mode) == 0o700
    serial = f"{certificate.serial_number:040x}"
    assert modes(ca) == {"ca.key": 0o600, "ca.pem": 0o644, "issued": 0o700, f"issued/{serial}.pem": 0o644}
    assert open_ca(ca).certificate == signer.certificate
    key = new_key()
    save_gateway(tmp_path / "gw", "gw-a", GatewayCredentials(certificate=certificate, key=key), signer.certificate)
    assert modes(tmp_path / "gw") == {"gw-a.key": 0o600, "gw-a.pem": 0o644, "ca.pem": 0o644}


def test_a_key_that_is_open_to_others_is_refused(
    signer: KeySigner, ca_key: ec.EllipticCurvePrivateKey, tmp_path: Path
) -> None:
    """With the command that closes it."""
    save_ca(tmp_path / "ca", signer, ca_key)
    (tmp_path / "ca" / "ca.key").chmod(0o640)
    with pytest.raises(StoreError, match="is open to others; chmod 600"):
        open_ca(tmp_path / "ca")


def test_a_second_ca_never_overwrites_the_first(
    signer: KeySigner, ca_key: ec.EllipticCurvePrivateKey, tmp_path: Path
) -> None:
    """Its key would be lost for ever."""
    save_ca(tmp_path, signer, ca_key)
    before = (tmp_path / "ca.key").read_bytes()
    with pytest.raises(StoreError, match="holds a CA already"):
        save_ca(tmp_path, signer, new_key())
    assert (tmp_path / "ca.key").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"", b"rubbish", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_rubbish_is_no_key(content: bytes, tmp_path: Path) -> None:
    """A clear error with the file's name."""
    path = tmp_path / "x.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StoreError, match=r"x\.key: holds no unencrypted PEM private key"):
        load_key(path)


def test_no_repr_shows_a_key(signer: KeySigner) -> None:
    """Logs and tracebacks print reprs."""
    credentials = GatewayCredentials(certificate=issue(signer), key=new_key())
    assert "key=***" in repr(signer)
    assert "key=***" in repr(credentials)
