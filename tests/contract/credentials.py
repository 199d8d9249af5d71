"""Certificates and connections for charon, real or not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ikeorch.core.charon_state import Connection
from ikeorch.core.ids import TunnelId
from ikeorch.core.secret import Secret
from ikeorch.core.units import Seconds
from pki.issue import create_ca, issue_gateway, new_key, new_serial
from pki.profiles import CaProfile, GatewayProfile


@dataclass(frozen=True, slots=True)
class Identity:
    """What one gateway needs to authenticate."""

    name: str
    certificate: str
    key: Secret
    key_id: str
    ca: str


@cache
def identities() -> tuple[Identity, Identity]:
    """Two gateways of one CA."""
    now = datetime.now(UTC)
    signer = create_ca(CaProfile(name="test"), new_key(), serial=new_serial(), now=now)
    ca = signer.certificate.public_bytes(Encoding.PEM).decode()
    found = []
    for name in ("gw-a.example", "gw-b.example"):
        key = new_key()
        profile = GatewayProfile(identity=name, lifetime=timedelta(days=1))
        certificate = issue_gateway(profile, key.public_key(), signer, serial=new_serial(), now=now)
        found.append(
            Identity(
                name=name,
                certificate=certificate.public_bytes(Encoding.PEM).decode(),
                key=Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())),
                key_id=x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest.hex(),
                ca=ca,
            )
        )
    return found[0], found[1]


def connection(
    tunnel: TunnelId,
    ours: Identity,
    theirs: Identity,
    *,
    addresses: tuple[str, str] = ("127.0.0.1", "127.0.0.2"),
    if_id: int = 16,
    esp: str = "aes256gcm16-ecp384-esn",
) -> Connection:
    """A connection as the core would ask for it."""
    return Connection(
        tunnel=tunnel,
        local_address=ip_address(addresses[0]),
        remote_address=ip_address(addresses[1]),
        local_id=f"t{tunnel.index}.{ours.name}",
        remote_id=f"t{tunnel.index}.{theirs.name}",
        certificate=ours.certificate,
        ca=ours.ca,
        ike_proposals=("aes256gcm16-prfsha384-ecp384",),
        esp_proposals=(esp,),
        if_id=if_id,
        rekey_time=Seconds(14400),
        child_rekey_time=Seconds(3600),
        dpd_delay=Seconds(30),
        replay_window=1024,
    )
