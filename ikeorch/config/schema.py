"""The shape of the file: pydantic models with the rules that concern one value alone.

Rules between values stand in `ikeorch.config.check`. Keys that exist in swanctl.conf keep swanctl's names. An unknown
key is refused: a misspelt option must never be silently nothing.
"""

from __future__ import annotations

import re
from fractions import Fraction
from ipaddress import IPv4Address, ip_address, ip_interface, ip_network
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from ikeorch.core.ids import MAX_TUNNELS_PER_BUNDLE, NAME_PATTERN
from ikeorch.core.kernel_state import IPAddress, IPInterface, IPNetwork
from ikeorch.core.suites import Suite, parse_suite
from ikeorch.core.units import parse_duration, parse_rate


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text; put it in quotes")  # noqa: TRY004 - pydantic turns ValueError into a report
    return value


def _address(value: object) -> IPAddress:
    try:
        return ip_address(_text(value))
    except ValueError:
        raise ValueError(f"{value!r} is no IP address; write one like 192.0.2.1 or 2001:db8::1") from None


def _interface_address(value: object) -> IPInterface:
    text = _text(value)
    refusal = f"{text!r} is no address with its prefix length; write one like 192.0.2.1/24"
    if "/" not in text:
        raise ValueError(refusal)
    try:
        return ip_interface(text)
    except ValueError:
        raise ValueError(refusal) from None


def _network(value: object) -> IPNetwork:
    text = _text(value)
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        better = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"{text!r} is no prefix; write one like 10.2.0.0/16 or 2001:db8::/48") from None
    raise ValueError(f"{text!r} has bits set beyond its prefix length; did you mean {better}?")


def _switch(value: object) -> bool:
    """YAML 1.2 reads yes and no as text."""
    words = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError(f"{value!r} is neither yes nor no")


def _scale(value: object) -> Fraction:
    match = re.fullmatch(r"1(?:/([1-9][0-9]{0,8}))?", str(value)) if isinstance(value, str | int) else None
    if match is None:
        raise ValueError(f"{value!r} is no scale; write 1, or a fraction like 1/8")
    return Fraction(1, int(match[1] or 1))


Name = Annotated[StrictStr, Field(pattern=f"^{NAME_PATTERN}$", description="a DNS label, lower case, at most 32")]
DnsName = Annotated[
    StrictStr,
    Field(max_length=180, pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)+$"),
]
Identity = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9@._:-]{1,253}$")]
Device = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}$")]
Address = Annotated[IPAddress, BeforeValidator(_address)]
InterfaceAddress = Annotated[IPInterface, BeforeValidator(_interface_address)]
Network = Annotated[IPNetwork, BeforeValidator(_network)]
Rate = Annotated[int, BeforeValidator(parse_rate)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Switch = Annotated[bool, BeforeValidator(_switch)]
SuiteText = Annotated[Suite, BeforeValidator(lambda value: parse_suite(_text(value)))]
Scale = Annotated[Fraction, BeforeValidator(_scale)]
Asn = Annotated[StrictInt, Field(ge=1, le=4294967294)]
AbsolutePath = Annotated[StrictStr, Field(pattern=r"^/[^\x00-\x1f]{1,254}$")]


class Section(BaseModel):
    """Base of all sections: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def _one_or_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


class UplinkSection(Section):
    """``gateway.uplinks[]``."""

    name: Name
    interface: Device
    addresses: Annotated[list[InterfaceAddress], Field(min_length=1, max_length=64)]
    gateway: Annotated[list[Address], BeforeValidator(_one_or_list), Field(min_length=1, max_length=2)]
    capacity: Rate


class CredentialsSection(Section):
    """``gateway.credentials``: PEM files."""

    certificate: AbsolutePath
    key: AbsolutePath
    ca: AbsolutePath


class GatewaySection(Section):
    """``gateway``."""

    name: Name
    site: Name
    identity: DnsName
    asn: Asn
    router_id: Annotated[IPv4Address, BeforeValidator(_address)]
    uplinks: Annotated[list[UplinkSection], Field(min_length=1, max_length=16)]
    prefixes: Annotated[list[Network], Field(max_length=1000)] = []
    credentials: CredentialsSection
    vici_socket: AbsolutePath = "/run/charon.vici"


class PeerUplinkSection(Section):
    """``peers[].uplinks[]``."""

    name: Name
    addresses: Annotated[list[Address], Field(min_length=1, max_length=64)]


class IdentityPair(Section):
    """``peers[].tunnels.identities[]``: the two ends' IKE identities of one tunnel to a foreign peer."""

    local: Identity
    remote: Identity


class TunnelsSection(Section):
    """``peers[].tunnels``."""

    count: Annotated[StrictInt, Field(ge=0, le=MAX_TUNNELS_PER_BUNDLE)] = 0
    mtu: Literal["auto"] | Annotated[StrictInt, Field(ge=1280, le=65000)] = "auto"
    capacity: Rate = 10**10
    suite: StrictStr = "default"
    rekey_time: Annotated[Duration, Field(ge=10)] = 4 * 3600.0
    dpd_delay: Annotated[Duration, Field(ge=0)] = 30.0
    replay_window: Annotated[StrictInt, Field(ge=64, le=4096)] = 1024
    mobike: Switch = False
    identities: Literal["auto"] | list[IdentityPair] = "auto"


class PeerSection(Section):
    """``peers[]``."""

    name: Name
    site: Name
    identity: DnsName
    asn: Asn
    uplinks: Annotated[list[PeerUplinkSection], Field(min_length=1, max_length=16)]
    inner: Annotated[list[Network], Field(min_length=1, max_length=2)]
    initiate: Literal["auto", "us", "peer"] = "auto"
    prefixes: Annotated[list[Network], Field(max_length=1000)] = []
    accept: Annotated[list[Network], Field(max_length=1000)] | None = None
    tunnels: TunnelsSection = TunnelsSection()


class NeighborSection(Section):
    """``fabric.neighbors[]``: a leaf router."""

    address: Address
    asn: Asn
    transitive: Switch = False


class FabricSection(Section):
    """``fabric``."""

    neighbors: Annotated[list[NeighborSection], Field(max_length=64)] = []
    gateways_in_site: Annotated[StrictInt, Field(ge=1, le=64)] = 1
    when_unreachable: Literal["keep", "withdraw"] | None = None
    bandwidth_scale: Scale = Fraction(1)


class File(Section):
    """The whole file."""

    schema_version: Literal[1]
    gateway: GatewaySection
    suites: dict[Name, SuiteText] = {}
    peers: Annotated[list[PeerSection], Field(max_length=256)] = []
    fabric: FabricSection = FabricSection()
