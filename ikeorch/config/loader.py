"""Read a configuration: text, shape, rules, spec."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ikeorch.config.check import find_conflicts, find_warnings
from ikeorch.config.document import MAX_BYTES, Document, parse_document
from ikeorch.config.problems import InvalidConfigError, Location, Problem
from ikeorch.config.schema import FabricSection, File, PeerSection, TunnelsSection
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
from ikeorch.errors import ConfigError, NotPermittedError


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration that was accepted.

    Attributes:
        text: as it stands in the file.
        spec: what it means.
        warnings: what works but is probably not meant.
    """

    text: str
    spec: GatewaySpec
    warnings: tuple[Problem, ...]


def read_config(path: Path) -> LoadedConfig:
    """Read and check a file.

    Raises:
        ConfigError: it is not there or not text; InvalidConfigError with all its problems.
        NotPermittedError: this user may not read it.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode()
    except FileNotFoundError:
        raise ConfigError("no such file", where=str(path), hint="name it with --config, or create it") from None
    except PermissionError:
        raise NotPermittedError("may not be read", where=str(path), hint="try as root") from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text at byte {error.start}", where=str(path)) from None
    return load_config(text, str(path))


def load_config(text: str, source: str) -> LoadedConfig:
    """Check the text of a configuration.

    Args:
        text: YAML.
        source: the file's name, for people.

    Raises:
        InvalidConfigError: with all problems at once.
    """
    document = parse_document(text, source)
    try:
        file = File.model_validate(document.data)
    except ValidationError as error:
        raise InvalidConfigError(source, [_translate(document, item) for item in error.errors()]) from None
    problems = [
        document.problem(("peers", position, "tunnels", "suite"), f"there is no suite {peer.tunnels.suite!r}", hint)
        for position, peer in enumerate(file.peers)
        if peer.tunnels.suite not in _suites(file)
        for hint in (f"name one of {', '.join(sorted(_suites(file)))}, or define it under suites",)
    ]
    if problems:
        raise InvalidConfigError(source, problems)
    spec = _build(file)
    problems = [document.problem(*finding) for finding in find_conflicts(spec)]
    if problems:
        raise InvalidConfigError(source, problems)
    return LoadedConfig(text, spec, tuple(document.problem(*finding) for finding in find_warnings(spec)))


_HINTS = {
    "extra_forbidden": ("unknown key", "remove it or correct its spelling; `ikeorch config check` knows all keys"),
    "missing": ("is missing", "add it"),
}


def _translate(document: Document, item: ErrorDetails) -> Problem:
    """One of pydantic's errors as a problem of the file."""
    location = _real_location(document, item["loc"])
    kind = item["type"]
    if kind in _HINTS:
        reason, hint = _HINTS[kind]
        return document.problem(location, reason, hint)
    if kind == "value_error":
        reason, _, hint = str(item["ctx"]["error"]).partition("; ")
        return document.problem(location, reason, hint)
    given = repr(item["input"])
    shown = given if len(given) <= 60 else f"{given[:57]}..."
    return document.problem(location, f"{shown} is refused: {item['msg'][:1].lower()}{item['msg'][1:]}", "")


def _real_location(document: Document, location: tuple[int | str, ...]) -> Location:
    """Pydantic names the members of a union in its location; only what stands in the file is kept."""
    node: object = document.data
    real: list[int | str] = []
    for position, part in enumerate(location):
        if isinstance(node, dict):
            last = position == len(location) - 1
            if part not in node and not last:
                continue
            real.append(part)
            node = node.get(part) if isinstance(part, str) else None
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            real.append(part)
            node = node[part]
    return tuple(real)


def _suites(file: File) -> dict[str, Suite]:
    return {"default": DEFAULT_SUITE, **file.suites}


def _build(file: File) -> GatewaySpec:
    gateway = file.gateway
    suites = _suites(file)
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


def _build_fabric(fabric: FabricSection) -> FabricSpec:
    alone = WhenUnreachable.KEEP if fabric.gateways_in_site == 1 else WhenUnreachable.WITHDRAW
    return FabricSpec(
        neighbors=tuple(
            FabricNeighbor(address=neighbor.address, asn=neighbor.asn, transitive=neighbor.transitive)
            for neighbor in fabric.neighbors
        ),
        gateways_in_site=fabric.gateways_in_site,
        when_unreachable=WhenUnreachable(fabric.when_unreachable) if fabric.when_unreachable else alone,
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
    identities = () if tunnels.identities == "auto" else tuple((pair.local, pair.remote) for pair in tunnels.identities)
    return TunnelsSpec(
        count=tunnels.count,
        mtu=None if tunnels.mtu == "auto" else tunnels.mtu,
        capacity=BitsPerSecond(tunnels.capacity),
        suite=suite,
        rekey_time=Seconds(tunnels.rekey_time),
        dpd_delay=Seconds(tunnels.dpd_delay),
        replay_window=tunnels.replay_window,
        mobike=tunnels.mobike,
        identities=identities,
    )
