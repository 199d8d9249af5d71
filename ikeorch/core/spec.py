"""What the operator wants: one gateway, its uplinks, its peers and their bundles.

A `GatewaySpec` is complete and checked: config/ builds it from YAML and refuses what does not fit. Nothing here has
been allocated yet (if_ids, tables and next-hop ids come from the store) and nothing is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path

from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress, IPInterface, IPNetwork
from ikeorch.core.suites import Suite
from ikeorch.core.units import BitsPerSecond, Seconds


class Initiate(Enum):
    """Which end initiates a bundle's tunnels; exactly one does (D1)."""

    AUTO = "auto"
    US = "us"
    PEER = "peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkSpec:
    """One of the gateway's own uplinks.

    Attributes:
        name: pairs with the peer's uplink of the same name.
        interface: network device.
        addresses: local addresses with their networks; tunnels use them in turn.
        gateways: the provider's router, at most one a family.
        capacity: bits/s.
    """

    name: str
    interface: str
    addresses: tuple[IPInterface, ...]
    gateways: tuple[IPAddress, ...]
    capacity: BitsPerSecond


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerUplinkSpec:
    """An uplink of the peer: its addresses under the name that pairs it with ours."""

    name: str
    addresses: tuple[IPAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsSpec:
    """Where the gateway's certificate, its key and the trust anchor lie (PEM)."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelsSpec:
    """The tunnels of one bundle.

    Attributes:
        count: 0 to 256.
        mtu: bytes of the inner packet, None to compute it from the uplink.
        capacity: of one tunnel, bits/s; its weight in the group.
        suite: crypto for IKE and ESP.
        rekey_time: of IKE_SA and CHILD_SA.
        dpd_delay: 0 switches dead peer detection off.
        replay_window: packets, 64 to 4096.
        mobike: IKE mobility.
        identities: (local, remote) IKE identity of each tunnel where the peer is foreign; empty for
            ``t<i>.<identity>``.
    """

    count: int = 0
    mtu: int | None = None
    capacity: BitsPerSecond = BitsPerSecond(10**10)
    suite: Suite
    rekey_time: Seconds = Seconds(4 * 3600)
    dpd_delay: Seconds = Seconds(30)
    replay_window: int = 1024
    mobike: bool = False
    identities: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSpec:
    """A remote gateway and the bundle to it.

    Attributes:
        name: our name for it; its own `gateway.name` when it runs ikeorch (the probes carry that name).
        site: peers of one site may offer the same prefix.
        identity: IKE identity under which its certificate was issued.
        asn: its autonomous system.
        uplinks: paired with ours by name.
        inner: at most one network a family; tunnel i has its i-th /31 (/127).
        initiate: who initiates.
        prefixes: what lies behind it.
        accept: source prefixes that its tunnels may deliver.
        tunnels: the bundle.
    """

    name: str
    site: str
    identity: str
    asn: int
    uplinks: tuple[PeerUplinkSpec, ...]
    inner: tuple[IPNetwork, ...]
    initiate: Initiate = Initiate.AUTO
    prefixes: tuple[IPNetwork, ...] = ()
    accept: tuple[IPNetwork, ...] = ()
    tunnels: TunnelsSpec

    @property
    def tunnel_ids(self) -> tuple[TunnelId, ...]:
        """The bundle's tunnels, in order."""
        return tuple(TunnelId(self.name, index) for index in range(self.tunnels.count))


class WhenUnreachable(Enum):
    """What the fabric hears when every tunnel to a site looks dead (D6)."""

    KEEP = "keep"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricNeighbor:
    """A leaf router.

    Attributes:
        address: its address; its family is the session's.
        asn: its autonomous system.
        transitive: send the link bandwidth in its transitive form, which FRR 10.3 to 10.5.1 needs.
    """

    address: IPAddress
    asn: int
    transitive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSpec:
    """What the site's fabric is told, and who it is.

    Attributes:
        neighbors: the leafs.
        gateways_in_site: with one, graceful restart keeps our routes while ExaBGP is started anew.
        when_unreachable: see there.
        bandwidth_scale: of the real bytes/s in link bandwidth, the same on all gateways.
    """

    neighbors: tuple[FabricNeighbor, ...] = ()
    gateways_in_site: int = 1
    when_unreachable: WhenUnreachable = WhenUnreachable.KEEP
    bandwidth_scale: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySpec:
    """The whole configuration of one gateway.

    Attributes:
        name: this gateway's name, carried by its probes.
        site: where it stands.
        identity: DNS name of its certificate.
        asn: its autonomous system.
        router_id: BGP identifier.
        uplinks: in the file's order; tunnels take them in turn.
        prefixes: what this site offers to peers.
        credentials: files of the certificate, key and CA.
        vici_socket: charon's control socket.
        peers: sorted as in the file.
        fabric: the leafs, and what they are told.
    """

    name: str
    site: str
    identity: str
    asn: int
    router_id: str
    uplinks: tuple[UplinkSpec, ...]
    prefixes: tuple[IPNetwork, ...]
    credentials: CredentialsSpec
    vici_socket: Path
    peers: tuple[PeerSpec, ...] = field(default=())
    fabric: FabricSpec = field(default=FabricSpec())

    def peer(self, name: str) -> PeerSpec | None:
        """The peer of that name."""
        return next((peer for peer in self.peers if peer.name == name), None)

    def initiates(self, peer: PeerSpec) -> bool:
        """Whether this end initiates (and rekeys, D10) the tunnels to a peer: the lower name, unless it is set."""
        match peer.initiate:
            case Initiate.US:
                return True
            case Initiate.PEER:
                return False
            case Initiate.AUTO:
                return self.name < peer.name
