"""The shape of ``peers[]``: a remote gateway and the bundle to it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, StrictInt

from ikeorch.config.section import Section, described
from ikeorch.config.values import (
    Address,
    Asn,
    Delay,
    DnsName,
    Duration,
    Identity,
    Mtu,
    Name,
    Network,
    Rate,
    Switch,
    auto_is_none,
)
from ikeorch.core.ids import MAX_TUNNELS_PER_BUNDLE


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
        Name,
        described(
            "name of a suite, see suites",
            example="default",
            stands_for="swanctl: proposals, esp_proposals",
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
        Annotated[
            list[Annotated[IdentityPair, described("the pair of one tunnel", example={"local": "us0.example"})]],
            Field(max_length=MAX_TUNNELS_PER_BUNDLE),
        ]
        | None,
        BeforeValidator(auto_is_none),
        PlainSerializer(lambda pairs: "auto" if pairs is None else [pair.model_dump() for pair in pairs]),
        described(
            "auto is t<i>.<identity> on both ends; one pair a tunnel for a peer that is no ikeorch",
            example=[{"local": "us0.example", "remote": "them0.example"}],
            stands_for="swanctl: local.id, remote.id (D1)",
            auto=True,
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
