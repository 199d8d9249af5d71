"""What charon holds and what it should hold, as values.

Connections are keyed by name, SAs by the name of their connection; unique ids change at each rekey and are
attributes only. `ChildSa` and `IkeSa` are what list-sas tells, typed (strongSwan:
src/libcharon/plugins/vici/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.units import Seconds


class IkeState(Enum):
    """IKE_SA states (libcharon/sa/ike_sa.h), as list-sas spells them."""

    CREATED = "CREATED"
    CONNECTING = "CONNECTING"
    ESTABLISHED = "ESTABLISHED"
    PASSIVE = "PASSIVE"
    REKEYING = "REKEYING"
    REKEYED = "REKEYED"
    DELETING = "DELETING"
    DESTROYING = "DESTROYING"


class ChildState(Enum):
    """CHILD_SA states (libcharon/sa/child_sa.h), as list-sas spells them."""

    CREATED = "CREATED"
    ROUTED = "ROUTED"
    INSTALLING = "INSTALLING"
    INSTALLED = "INSTALLED"
    UPDATING = "UPDATING"
    REKEYING = "REKEYING"
    REKEYED = "REKEYED"
    RETRYING = "RETRYING"
    DELETING = "DELETING"
    DELETED = "DELETED"
    DESTROYING = "DESTROYING"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSa:
    """A CHILD_SA.

    Attributes:
        name: the child's configured name, not the section's key.
        unique_id: charon's number, changes at a rekey.
        state: only INSTALLED, REKEYING and UPDATING forward.
        reqid: the kernel's policy-state link.
        if_id_in: XFRM interface id of the inbound SA (list-sas gives hexadecimal without 0x).
        if_id_out: the same for the outbound SA.
        spi_in: inbound SPI, 0 while not known.
        spi_out: outbound SPI, 0 while not known.
        suite: negotiated ESP suite such as ``AES_GCM_16-256/ECP_384/ESN`` ("" while not known).
        bytes_in: payload bytes, inbound.
        bytes_out: payload bytes, outbound.
        packets_in: packets, inbound.
        packets_out: packets, outbound.
        age: seconds since it was installed.
    """

    name: str
    unique_id: int
    state: ChildState
    reqid: int = 0
    if_id_in: int = 0
    if_id_out: int = 0
    spi_in: int = 0
    spi_out: int = 0
    suite: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    packets_in: int = 0
    packets_out: int = 0
    age: Seconds = Seconds(0)

    @property
    def forwards(self) -> bool:
        """Whether the kernel holds SAs for it that carry packets."""
        return self.state in {ChildState.INSTALLED, ChildState.REKEYING, ChildState.UPDATING}


@dataclass(frozen=True, slots=True, kw_only=True)
class IkeSa:
    """An IKE_SA with its children.

    Attributes:
        connection: the connection's name.
        unique_id: charon's number, changes at a rekey.
        state: see `IkeState`.
        initiator: whether this end initiated it.
        local_address: where it runs, None while not known (``%any``).
        remote_address: the peer's address, None while not known.
        local_id: IKE identity, "" while not known.
        remote_id: the peer's IKE identity, "" while not known.
        suite: negotiated IKE suite such as ``AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384`` ("" while not known).
        age: seconds since it was established, 0 before.
        children: in charon's order; several may share a name during a rekey.
        former: name of the connection that it was established under where its tunnel has another one now, else "".
    """

    connection: str
    unique_id: int
    state: IkeState
    initiator: bool = False
    local_address: IPAddress | None = None
    remote_address: IPAddress | None = None
    local_id: str = ""
    remote_id: str = ""
    suite: str = ""
    age: Seconds = Seconds(0)
    children: tuple[ChildSa, ...] = ()
    former: str = ""

    @property
    def live(self) -> bool:
        """Whether it is established and not on its way out."""
        return self.state in {IkeState.ESTABLISHED, IkeState.REKEYING, IkeState.PASSIVE}

    @property
    def connecting(self) -> bool:
        """Whether it is being set up."""
        return self.state in {IkeState.CREATED, IkeState.CONNECTING}

    @property
    def forwards(self) -> bool:
        """Whether one of its CHILD_SAs carries packets."""
        return any(child.forwards for child in self.children)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection as load-conn takes it: one IKE_SA with one CHILD_SA of the same name (D1).

    Options that never vary are the adapter's: version 2, unique never, start_action none, one selector 0.0.0.0/0 and
    ::/0 each way, mobike per tunnel, no reauthentication.

    Attributes:
        tunnel: names the connection and its child.
        local_address: literal address of the uplink.
        remote_address: literal address of the peer's uplink.
        local_id: IKE identity, must be a SAN of the certificate.
        remote_id: the peer's IKE identity.
        certificate: our certificate, PEM.
        ca: trust anchor, PEM; the only one that may vouch for the peer (remote.cacerts).
        ike_proposals: swanctl's ``proposals``.
        esp_proposals: swanctl's ``esp_proposals``.
        if_id: both ways, 1 to 4294967293.
        rekey_time: of the IKE_SA, seconds.
        child_rekey_time: of the CHILD_SA, seconds.
        dpd_delay: seconds, 0 switches it off.
        replay_window: packets, 0 to 4096.
        mobike: IKE mobility; off by default (D12).
    """

    tunnel: TunnelId
    local_address: IPAddress
    remote_address: IPAddress
    local_id: str
    remote_id: str
    certificate: str
    ca: str
    ike_proposals: tuple[str, ...]
    esp_proposals: tuple[str, ...]
    if_id: int
    rekey_time: Seconds
    child_rekey_time: Seconds
    dpd_delay: Seconds
    replay_window: int
    mobike: bool = False

    @property
    def name(self) -> str:
        """The connection's and the child's name in charon."""
        return self.tunnel.connection


@dataclass(frozen=True, slots=True, kw_only=True)
class CharonState:
    """One snapshot of charon.

    Attributes:
        version: such as ``5.9.8``.
        started: names the charon process (id and start, as text); another text means another process, which
            knows none of the connections and keys that were loaded before.
        connections: names of all loaded connections, ours and foreign.
        loaded: what this adapter loaded into *this* charon process, by connection name; after a reconnect to the
            same process it is empty and everything is loaded again, which does not touch live SAs.
        authorities: names of loaded authorities.
        keys: ids of loaded private keys (hex SHA-1 of the subjectPublicKey, as get-keys tells).
        sas: of our connections only.
    """

    version: str
    started: str
    connections: frozenset[str] = frozenset()
    loaded: dict[str, Connection] = field(default_factory=dict)
    authorities: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    sas: tuple[IkeSa, ...] = ()

    def by_connection(self) -> dict[str, list[IkeSa]]:
        """The IKE_SAs by their connection's name, in charon's order."""
        found: dict[str, list[IkeSa]] = {}
        for sa in self.sas:
            found.setdefault(sa.connection, []).append(sa)
        return found
