"""The shape of the file: pydantic models with the rules that concern one value alone.

Rules between values stand in `ikeorch.config.check`. Keys that exist in swanctl.conf keep swanctl's names. An unknown
key is refused: a misspelt option must never be silently nothing.

The descriptions here are the only ones: the JSON Schema, `ikeorch config explain` and the table of
docs/configuration.md are made from them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer

from ikeorch.config.schema_fabric import FabricSection
from ikeorch.config.schema_peer import PeerSection
from ikeorch.config.section import Section, described
from ikeorch.config.values import (
    AbsolutePath,
    Address,
    Asn,
    Device,
    DnsName,
    IncludePattern,
    InterfaceAddress,
    Name,
    Network,
    Rate,
    RouterId,
    SuiteText,
    one_or_list,
    whole,
)

MAX_INCLUDES = 64
"""Patterns, and files that they may match in all."""


class UplinkSection(Section):
    """``gateway.uplinks[]``."""

    name: Annotated[Name, described("pairs this uplink with the peer's of the same name", example="isp1")]
    interface: Annotated[
        Device, described("the network device of the uplink", example="eth1", limits="at most 15 characters")
    ]
    addresses: Annotated[
        list[Annotated[InterfaceAddress, described("one local address", example="192.0.2.1/24")]],
        described(
            "our addresses on the uplink with their prefix length; its tunnels use them in turn",
            example=["192.0.2.1/24"],
            stands_for="swanctl: local_addrs",
            min_length=1,
            max_length=64,
        ),
    ]
    gateway: Annotated[
        list[Annotated[Address, described("a provider's router", example="192.0.2.254")]],
        BeforeValidator(one_or_list),
        PlainSerializer(lambda gateways: gateways[0] if len(gateways) == 1 else gateways),
        described(
            "the provider's router, one a family that the uplink has addresses of; alone or as a list",
            example="192.0.2.254",
            stands_for="the default route in the uplink's own table (D3)",
            one_or_list=True,
            min_length=1,
            max_length=2,
        ),
    ]
    capacity: Annotated[
        Rate, described("what the provider carries", example="100G", unit="bit/s", limits="1 bit/s to 1000T")
    ]


class CredentialsSection(Section):
    """``gateway.credentials``: PEM files."""

    certificate: Annotated[
        AbsolutePath,
        described(
            "PEM file of the gateway's certificate", example="/etc/ikeorch/pki/gw-a.pem", stands_for="swanctl: certs"
        ),
    ]
    key: Annotated[
        AbsolutePath,
        described("PEM file of its private key", example="/etc/ikeorch/pki/gw-a.key", stands_for="swanctl: private"),
    ]
    ca: Annotated[
        AbsolutePath,
        described(
            "PEM file of the CA that the peers' certificates come from",
            example="/etc/ikeorch/pki/ca.pem",
            stands_for="swanctl: cacerts",
        ),
    ]


class GatewaySection(Section):
    """``gateway``."""

    name: Annotated[
        Name,
        described(
            "this gateway's name; probes carry it, and the lower of two names initiates",
            example="gw-a",
            stands_for="D1",
        ),
    ]
    site: Annotated[
        Name,
        described("where it stands; prefixes may overlap inside a site, never between sites", example="dc-a"),
    ]
    identity: Annotated[
        DnsName,
        described(
            "DNS name of its certificate; tunnel i uses t<i>.<identity>",
            example="gw-a.dc.example",
            stands_for="swanctl: local.id (D1)",
        ),
    ]
    asn: Annotated[Asn, described("our autonomous system, for the sessions with the leafs", example=65010)]
    router_id: Annotated[RouterId, described("our BGP identifier, written like an IPv4 address", example="10.0.255.1")]
    uplinks: Annotated[
        list[Annotated[UplinkSection, described("one uplink", example={"name": "isp1"})]],
        described(
            "the providers' links; tunnel i takes uplink i mod n, by name",
            example=[
                {
                    "name": "isp1",
                    "interface": "eth1",
                    "addresses": ["192.0.2.1/24"],
                    "gateway": "192.0.2.254",
                    "capacity": "100G",
                }
            ],
            min_length=1,
            max_length=16,
        ),
    ]
    prefixes: Annotated[
        list[Annotated[Network, described("one prefix", example="10.1.0.0/16")]],
        described("what this site offers to its peers", example=["10.1.0.0/16", "fd00:a::/48"], max_length=1000),
    ] = []
    credentials: Annotated[
        CredentialsSection,
        described("the PEM files that charon is given", example={"ca": "/etc/ikeorch/pki/ca.pem"}),
    ]
    vici_socket: Annotated[
        AbsolutePath,
        described(
            "charon's control socket; a change needs a restart of ikeorchd",
            example="/run/charon.vici",
            stands_for="strongswan.conf: charon.plugins.vici.socket",
        ),
    ] = "/run/charon.vici"


class File(Section):
    """The whole file."""

    schema_version: Annotated[Literal[1], BeforeValidator(whole), described("the version of this format", example=1)]
    include: Annotated[
        list[Annotated[IncludePattern, described("one pattern", example="conf.d/*.yaml")]],
        BeforeValidator(one_or_list),
        described(
            "more files, as patterns relative to this one, read in the order of their names; each may hold peers and "
            "suites and nothing else",
            example="conf.d/*.yaml",
            one_or_list=True,
            max_length=MAX_INCLUDES,
        ),
    ] = []
    gateway: Annotated[GatewaySection, described("this gateway", example={"name": "gw-a", "site": "dc-a"})]
    suites: Annotated[
        dict[Name, Annotated[SuiteText, described("a suite of that name", example="aes256gcm16-prfsha384-ecp384")]],
        described(
            "suites by name, written CIPHER-PRF-GROUP; ESP takes cipher and group, with ESN; default may be replaced",
            example={"default": "aes256gcm16-prfsha384-ecp384"},
            stands_for="swanctl: proposals, esp_proposals",
            max_length=256,
        ),
    ] = {}
    peers: Annotated[
        list[Annotated[PeerSection, described("one remote gateway", example={"name": "gw-b", "site": "dc-b"})]],
        described(
            "the remote gateways, each with its bundle of tunnels",
            example=[{"name": "gw-b", "site": "dc-b"}],
            max_length=256,
        ),
    ] = []
    fabric: Annotated[
        FabricSection,
        described("the leafs of this site, and what they are told", example={"gateways_in_site": 1}),
    ] = FabricSection()
