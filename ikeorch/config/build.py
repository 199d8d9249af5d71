"""From the checked shape of the file to the core's spec; defaults that need another field are filled in here."""

from __future__ import annotations

from pathlib import Path

from ikeorch.config.schema import File
from ikeorch.config.schema_fabric import FabricSection
from ikeorch.config.schema_peer import PeerSection, TunnelsSection
from ikeorch.core.spec import (
    CredentialsSpec,
    FabricNeighbor,
    FabricSpec,
    GatewaySpec,
    Initiate,
    PeerSpec,
    PeerUplinkSpec,
    TunnelsSpec,
    UplinkSpec,
    WhenUnreachable,
)
from ikeorch.core.suites import DEFAULT_SUITE, Suite
from ikeorch.core.units import BitsPerSecond, Seconds


def known_suites(file: File) -> dict[str, Suite]:
    """The suites that a bundle may name: the file's, and the default unless it is replaced."""
    return {"default": DEFAULT_SUITE, **file.suites}


def build_spec(file: File) -> GatewaySpec:
    """The spec of a file whose bundles name known suites."""
    gateway = file.gateway
    suites = known_suites(file)
    return GatewaySpec(
        name=gateway.name,
        site=gateway.site,
        identity=gateway.identity,
        asn=gateway.asn,
        router_id=str(gateway.router_id),
        uplinks=tuple(
            UplinkSpec(
                name=uplink.name,
                interface=uplink.interface,
                addresses=tuple(uplink.addresses),
                gateways=tuple(uplink.gateway),
                capacity=BitsPerSecond(uplink.capacity),
            )
            for uplink in gateway.uplinks
        ),
        prefixes=tuple(gateway.prefixes),
        credentials=CredentialsSpec(
            certificate=Path(gateway.credentials.certificate),
            key=Path(gateway.credentials.key),
            ca=Path(gateway.credentials.ca),
        ),
        vici_socket=Path(gateway.vici_socket),
        peers=tuple(_build_peer(peer, suites[peer.tunnels.suite]) for peer in file.peers),
        fabric=_build_fabric(file.fabric),
    )


def when_unreachable(fabric: FabricSection) -> WhenUnreachable:
    """As written, or what the number of gateways asks for (D6)."""
    alone = WhenUnreachable.KEEP if fabric.gateways_in_site == 1 else WhenUnreachable.WITHDRAW
    return WhenUnreachable(fabric.when_unreachable) if fabric.when_unreachable else alone


def _build_fabric(fabric: FabricSection) -> FabricSpec:
    return FabricSpec(
        neighbors=tuple(
            FabricNeighbor(address=neighbor.address, asn=neighbor.asn, transitive=neighbor.transitive)
            for neighbor in fabric.neighbors
        ),
        gateways_in_site=fabric.gateways_in_site,
        when_unreachable=when_unreachable(fabric),
        bandwidth_scale=fabric.bandwidth_scale,
    )


def _build_peer(peer: PeerSection, suite: Suite) -> PeerSpec:
    return PeerSpec(
        name=peer.name,
        site=peer.site,
        identity=peer.identity,
        asn=peer.asn,
        uplinks=tuple(PeerUplinkSpec(name=uplink.name, addresses=tuple(uplink.addresses)) for uplink in peer.uplinks),
        inner=tuple(peer.inner),
        initiate=Initiate(peer.initiate),
        prefixes=tuple(peer.prefixes),
        accept=tuple(peer.prefixes if peer.accept is None else peer.accept),
        tunnels=_build_tunnels(peer.tunnels, suite),
    )


def _build_tunnels(tunnels: TunnelsSection, suite: Suite) -> TunnelsSpec:
    identities = tuple((pair.local, pair.remote) for pair in tunnels.identities or ())
    return TunnelsSpec(
        count=tunnels.count,
        mtu=tunnels.mtu,
        capacity=BitsPerSecond(tunnels.capacity),
        suite=suite,
        rekey_time=Seconds(tunnels.rekey_time),
        dpd_delay=Seconds(tunnels.dpd_delay),
        replay_window=tunnels.replay_window,
        mobike=tunnels.mobike,
        identities=identities,
    )
