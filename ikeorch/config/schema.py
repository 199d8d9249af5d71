"""The shape of the file: pydantic models with the rules that concern one value alone.

Rules between values stand in `ikeorch.config.check`. Keys that exist in swanctl.conf keep swanctl's names. An unknown
key is refused: a misspelt option must never be silently nothing.

The descriptions here are the only ones: the JSON Schema, `ikeorch config explain` and the table of
docs/configuration.md are made from them.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StrictInt, StrictStr

from ikeorch.config.values import (
    AbsolutePath,
    Address,
    Asn,
    Delay,
    Device,
    DnsName,
    Duration,
    Identity,
    IncludePattern,
    InterfaceAddress,
    Mtu,
    Name,
    Network,
    Rate,
    RouterId,
    Scale,
    SuiteText,
    Switch,
    auto_is_none,
    described,
    one_or_list,
)
from ikeorch.core.ids import MAX_TUNNELS_PER_BUNDLE

MAX_INCLUDES = 64
"""Patterns, and files that they may match in all."""


class Section(BaseModel):
    """Base of all sections: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


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


class PeerUplinkSection(Section):
    """``peers[].uplinks[]``."""

    name: Annotated[Name, described("pairs this uplink with ours of the same name", example="isp1")]
    addresses: Annotated[
        list[Annotated[Address, described("one address of the peer", example="198.51.100.1")]],
        described(
            "the peer's addresses on the uplink",
            example=["198.51.100.1"],
            stands_for="swanctl: remote_addrs",
            min_length=1,
            max_length=64,
        ),
    ]


class IdentityPair(Section):
    """``peers[].tunnels.identities[]``: the two ends' IKE identities of one tunnel to a foreign peer."""

    local: Annotated[Identity, described("our identity", example="us0.example", stands_for="swanctl: local.id")]
    remote: Annotated[
        Identity, described("the peer's identity", example="them0.example", stands_for="swanctl: remote.id")
    ]


class TunnelsSection(Section):
    """``peers[].tunnels``."""

    count: Annotated[
        StrictInt,
        described(
            "how many parallel tunnels the bundle has",
            example=4,
            unit="tunnels",
            stands_for="one connection ikeorch.<peer>.<i> each (D1)",
            ge=0,
            le=MAX_TUNNELS_PER_BUNDLE,
        ),
    ] = 0
    mtu: Annotated[
        Mtu,
        described(
            "size of the inner packet; auto computes it from the uplink's so that ESP is never fragmented",
            example="auto",
            unit="bytes",
            stands_for="the XFRM interface's MTU",
            auto=True,
        ),
    ] = None
    capacity: Annotated[
        Rate,
        described(
            "of one tunnel: its weight in the next-hop group, its share of the link bandwidth",
            example="50G",
            unit="bit/s",
            limits="1 bit/s to 1000T",
        ),
    ] = 10**10
    suite: Annotated[
        StrictStr,
        described(
            "name of a suite, see suites",
            example="default",
            stands_for="swanctl: proposals, esp_proposals",
            min_length=1,
            max_length=32,
        ),
    ] = "default"
    rekey_time: Annotated[
        Duration,
        described(
            "how long IKE_SA and CHILD_SA live before a rekey; the end that does not initiate waits 20 % longer",
            example="4h",
            unit="seconds",
            limits="10s to 366d",
            stands_for="swanctl: rekey_time of connection and child; life_time is 1.5 times it (D10)",
            ge=10,
        ),
    ] = 4 * 3600.0
    dpd_delay: Annotated[
        Delay,
        described(
            "how long the peer may be silent before charon asks it; 0s switches that off (the probes detect)",
            example="30s",
            unit="seconds",
            limits="0s, or 1s to 366d",
            stands_for="swanctl: dpd_delay",
        ),
    ] = 30.0
    replay_window: Annotated[
        StrictInt,
        described(
            "how far ESP packets may be reordered; sequence numbers are always extended (ESN)",
            example=1024,
            unit="packets",
            stands_for="swanctl: replay_window",
            ge=64,
            le=4096,
        ),
    ] = 1024
    mobike: Annotated[
        Switch,
        described("whether IKE may move to other addresses", example="no", stands_for="swanctl: mobike (D12)"),
    ] = False
    identities: Annotated[
        list[Annotated[IdentityPair, described("the pair of one tunnel", example={"local": "us0.example"})]] | None,
        BeforeValidator(auto_is_none),
        PlainSerializer(lambda pairs: "auto" if pairs is None else [pair.model_dump() for pair in pairs]),
        described(
            "auto is t<i>.<identity> on both ends; one pair a tunnel for a peer that is no ikeorch",
            example=[{"local": "us0.example", "remote": "them0.example"}],
            stands_for="swanctl: local.id, remote.id (D1)",
            auto=True,
            max_length=MAX_TUNNELS_PER_BUNDLE,
        ),
    ] = None


class PeerSection(Section):
    """``peers[]``."""

    name: Annotated[
        Name, described("our name for the remote gateway; its own gateway.name if it runs ikeorch", example="gw-b")
    ]
    site: Annotated[Name, described("where it stands; peers of one site may offer the same prefix", example="dc-b")]
    identity: Annotated[
        DnsName,
        described(
            "DNS name of the peer's certificate; tunnel i expects t<i>.<identity>",
            example="gw-b.dc.example",
            stands_for="swanctl: remote.id (D1)",
        ),
    ]
    asn: Annotated[Asn, described("the peer's autonomous system", example=65020)]
    uplinks: Annotated[
        list[Annotated[PeerUplinkSection, described("one uplink of the peer", example={"name": "isp1"})]],
        described(
            "the peer's uplinks; those of the same name as ours form the underlay paths",
            example=[{"name": "isp1", "addresses": ["198.51.100.1"]}],
            min_length=1,
            max_length=16,
        ),
    ]
    inner: Annotated[
        list[Annotated[Network, described("one network", example="10.255.1.0/27")]],
        described(
            "one network a family; tunnel i has its i-th /31 or /127, the lower name the even address",
            example=["10.255.1.0/27", "fd00:1::/123"],
            min_length=1,
            max_length=2,
        ),
    ]
    initiate: Annotated[
        Literal["auto", "us", "peer"],
        described("which end initiates and rekeys; auto is the lower name", example="auto", stands_for="D1, D10"),
    ] = "auto"
    prefixes: Annotated[
        list[Annotated[Network, described("one prefix", example="10.2.0.0/16")]],
        described(
            "what lies behind the peer; routed into its tunnels and told to the fabric",
            example=["10.2.0.0/16", "fd00:b::/48"],
            max_length=1000,
        ),
    ] = []
    accept: Annotated[
        Annotated[list[Annotated[Network, described("one prefix", example="10.2.0.0/16")]], Field(max_length=1000)]
        | None,
        described(
            "source prefixes that its tunnels may deliver; its prefixes if left out",
            example=["10.2.0.0/16"],
            stands_for="the guard's set of sources (D11)",
        ),
    ] = None
    tunnels: Annotated[
        TunnelsSection, described("the bundle to this peer", example={"count": 4, "capacity": "50G"})
    ] = TunnelsSection()


class NeighborSection(Section):
    """``fabric.neighbors[]``: a leaf router."""

    address: Annotated[Address, described("the leaf's address; its family is the session's", example="10.0.0.254")]
    asn: Annotated[Asn, described("the leaf's autonomous system", example=65001)]
    transitive: Annotated[
        Switch,
        described(
            "send the link bandwidth in its transitive form, which FRR 10.3 to 10.5.1 needs",
            example="no",
            stands_for="extended community 0x0004 instead of 0x4004 (D4)",
        ),
    ] = False


class FabricSection(Section):
    """``fabric``."""

    neighbors: Annotated[
        list[Annotated[NeighborSection, described("one leaf", example={"address": "10.0.0.254", "asn": 65001})]],
        described(
            "the leafs that hear the peers' prefixes; without any no BGP is spoken",
            example=[{"address": "10.0.0.254", "asn": 65001}],
            max_length=64,
        ),
    ] = []
    gateways_in_site: Annotated[
        StrictInt,
        described(
            "how many gateways of this site speak to these leafs; with one, graceful restart is on",
            example=1,
            unit="gateways",
            stands_for="D4",
            ge=1,
            le=64,
        ),
    ] = 1
    when_unreachable: Annotated[
        Literal["keep", "withdraw"] | None,
        described(
            "what the leafs hear of a dark site; if left out, keep with one gateway in the site, else withdraw",
            example="keep",
            stands_for="D6",
        ),
    ] = None
    bandwidth_scale: Annotated[
        Scale,
        described(
            "of the real bytes/s in link bandwidth, the same on all gateways",
            example="1/8",
            limits="1, or 1/N with N to 999999999",
            stands_for="D4",
        ),
    ] = Fraction(1)


class File(Section):
    """The whole file."""

    schema_version: Annotated[Literal[1], described("the version of this format", example=1)]
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
