"""What a daemon saw, as a file for ``ikeorch plan --offline``: everything that a plan is made from.

No secret is in it: certificates are public, and of the private key there is only its id. The file comes from anywhere,
so every value is checked, and what it holds can do no more than give a wrong plan: nothing is ever done with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from ikeorch.config.outside import place_text, read_object
from ikeorch.config.place import Sources, pack_sources, unpack_sources
from ikeorch.core.actual import Actual
from ikeorch.core.allocate import Kind
from ikeorch.core.charon_state import CharonState
from ikeorch.core.conditions import Condition
from ikeorch.core.desired import CredentialBundle
from ikeorch.core.establish import Attempt, Memory
from ikeorch.core.fabric_state import FabricState
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import (
    Guard,
    KernelObject,
    KernelState,
    NextHop,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)
from ikeorch.core.planner import World
from ikeorch.core.renew import Renewals, Standing
from ikeorch.core.spec import CredentialsSpec
from ikeorch.core.suites import Suite
from ikeorch.core.units import Seconds
from ikeorch.errors import ConfigError, UsageError

FORMAT_VERSION: Literal[1] = 1
MAX_BYTES = 64 * 1024 * 1024
"""A gateway with 1,000 tunnels needs about 2 MB."""
_HINT = "make one with `ikeorch plan --save-snapshot FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at a gateway.

    Attributes:
        taken: Unix seconds.
        sources: the configuration's files as they were.
        in_force: the files of the one in force, empty where none was.
        files: the credential files that were read.
        world: what a plan is made from.
        unseen: what could not be seen.
    """

    taken: Seconds
    sources: Sources
    in_force: Sources
    files: CredentialsSpec
    world: World
    unseen: tuple[Condition, ...]


def _read_tunnel(value: object) -> object:
    found = TunnelId.parse(value) if isinstance(value, str) else value
    if not isinstance(found, TunnelId):
        raise ValueError("is no tunnel's name such as gw-b/0")  # noqa: TRY004 - what pydantic collects
    return found


_Tunnel = Annotated[TunnelId, BeforeValidator(_read_tunnel), PlainSerializer(str)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Kernel(_Section):
    """Objects by kind, so that none can be taken for another."""

    interfaces: tuple[XfrmInterface, ...]
    rules: tuple[SourceRule, ...]
    underlay_routes: tuple[UnderlayRoute, ...]
    next_hops: tuple[NextHop, ...]
    groups: tuple[NextHopGroup, ...]
    routes: tuple[PrefixRoute, ...]
    sysctls: tuple[Sysctl, ...]
    guards: Annotated[tuple[Guard, ...], Field(max_length=1)]
    resilient: bool
    devices: dict[str, int]


_KINDS: dict[str, type[KernelObject]] = {
    "interfaces": XfrmInterface,
    "rules": SourceRule,
    "underlay_routes": UnderlayRoute,
    "next_hops": NextHop,
    "groups": NextHopGroup,
    "routes": PrefixRoute,
    "sysctls": Sysctl,
    "guards": Guard,
}


class _File(_Section):
    """The file's shape; the same certificate stands in every connection, so texts of PEM are named by their number."""

    format_version: Literal[1]
    taken: float
    now: float
    sources: str
    in_force: str
    files: CredentialsSpec
    certificates: tuple[str, ...]
    numbers: tuple[tuple[Kind, str, int], ...]
    names: tuple[tuple[str, str], ...] = ()
    agreed: tuple[tuple[_Tunnel, Suite], ...] = ()
    credentials: CredentialBundle | None
    verdicts: tuple[tuple[_Tunnel, Verdict], ...]
    kernel: _Kernel | None
    charon: CharonState | None
    fabric: FabricState
    charon_started: str
    attempts: tuple[tuple[_Tunnel, Attempt], ...]
    standings: tuple[tuple[_Tunnel, Standing], ...]
    unseen: tuple[Condition, ...]


def dump_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """The file's JSON."""
    world, charon = snapshot.world, snapshot.world.actual.charon
    texts: dict[str, int] = {}

    def number(pem: str) -> str:
        return str(texts.setdefault(pem, len(texts)))

    return _File(
        format_version=FORMAT_VERSION,
        taken=snapshot.taken,
        now=world.now,
        sources=pack_sources(snapshot.sources),
        in_force=pack_sources(snapshot.in_force),
        files=snapshot.files,
        numbers=tuple((kind, name, value) for (kind, name), value in world.numbers.items()),
        names=tuple(world.names.items()),
        agreed=tuple(world.agreed.items()),
        credentials=world.credentials,
        verdicts=tuple(world.verdicts.items()),
        kernel=None if world.actual.kernel is None else _dump_kernel(world.actual.kernel),
        charon=None if charon is None else _with_certificates(charon, number),
        fabric=world.actual.fabric,
        charon_started=world.memory.charon_started,
        attempts=tuple(world.memory.attempts.items()),
        standings=tuple(world.renewals.standings.items()),
        unseen=snapshot.unseen,
        certificates=tuple(texts),
    ).model_dump(mode="json")


def _dump_kernel(kernel: KernelState) -> _Kernel:
    found: dict[str, Any] = {
        name: tuple(entry for entry in kernel.objects.values() if isinstance(entry, kind))
        for name, kind in _KINDS.items()
    }
    return _Kernel(resilient=kernel.resilient, devices=dict(kernel.devices), **found)


def _with_certificates(charon: CharonState, change: Callable[[str], str]) -> CharonState:
    """The same state with another text for each certificate."""
    loaded = {
        name: replace(connection, certificate=change(connection.certificate), ca=change(connection.ca))
        for name, connection in charon.loaded.items()
    }
    return replace(charon, loaded=loaded)


def read_snapshot(path: Path) -> Snapshot:
    """Read a file of `dump_snapshot`.

    Raises:
        UsageError: it cannot be read, is too large, or is no snapshot; what is wrong where.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path), hint=_HINT) from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"is larger than {MAX_BYTES} bytes", where=str(path), hint=_HINT)
    try:
        return parse_snapshot(raw)
    except ValueError as error:
        raise UsageError(f"is no snapshot: {error}", where=str(path), hint=_HINT) from None


def parse_snapshot(raw: bytes) -> Snapshot:
    """Read the text of a snapshot.

    Raises:
        ValueError: what is wrong, and where in it.
    """
    data = read_object(raw)
    if data.get("format_version") != FORMAT_VERSION:
        raise ValueError(f"format_version is {data.get('format_version')!r}, this version reads {FORMAT_VERSION}")
    try:
        file = _File.model_validate_json(raw, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{place_text(first['loc'])}: {first['msg']}") from None
    return _snapshot(file)


def _snapshot(file: _File) -> Snapshot:
    charon, kernel = file.charon, file.kernel
    if charon is not None:
        charon = _with_certificates(charon, lambda number: _certificate(file.certificates, number))
    actual = Actual(kernel=None if kernel is None else _kernel(kernel), charon=charon, fabric=file.fabric)
    world = World(
        numbers={(kind, name): value for kind, name, value in file.numbers},
        credentials=file.credentials,
        actual=actual,
        verdicts=dict(file.verdicts),
        memory=Memory(charon_started=file.charon_started, attempts=dict(file.attempts)),
        renewals=Renewals(standings=dict(file.standings)),
        now=Seconds(file.now),
        names=dict(file.names),
        agreed=dict(file.agreed),
    )
    for tunnel in _tunnels(actual):
        if TunnelId.parse(str(tunnel)) != tunnel:
            raise ValueError(f"{str(tunnel)[:60]!r} is no tunnel's name")
    if charon is not None and any(name != entry.name for name, entry in charon.loaded.items()):
        raise ValueError("charon.loaded: a connection stands under another one's name")
    return Snapshot(
        taken=Seconds(file.taken),
        sources=_sources(file.sources, "sources"),
        in_force=_sources(file.in_force, "in_force"),
        files=file.files,
        world=world,
        unseen=file.unseen,
    )


def _kernel(kernel: _Kernel) -> KernelState:
    found: list[KernelObject] = [entry for name in _KINDS for entry in getattr(kernel, name)]
    return KernelState(
        objects={entry.key: entry for entry in found}, resilient=kernel.resilient, devices=kernel.devices
    )


def _certificate(certificates: tuple[str, ...], number: str) -> str:
    if not number.isdecimal() or not number.isascii() or len(number) > 6 or int(number) >= len(certificates):
        raise ValueError(f"charon.loaded: there is no certificate {number[:20]!r}")
    return certificates[int(number)]


def _sources(text: str, where: str) -> Sources:
    try:
        return unpack_sources(text)
    except ConfigError:
        raise ValueError(f"{where}: these are no files of a configuration") from None


def _tunnels(value: object) -> Iterator[TunnelId]:
    """Every tunnel that is named anywhere below."""
    if isinstance(value, TunnelId):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tunnels(inner)
    elif isinstance(value, tuple | frozenset | list):
        for inner in value:
            yield from _tunnels(inner)
    elif is_dataclass(value) and not isinstance(value, type):
        for name in _field_names(type(value)):
            yield from _tunnels(getattr(value, name))


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
