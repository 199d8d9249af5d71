"""The shape of ``fabric``: the leafs, and what they are told."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import StrictInt

from ikeorch.config.section import Section, described
from ikeorch.config.values import (
    Address,
    Asn,
    Scale,
    Switch,
)


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
            limits="N at most 999999999",
            stands_for="D4",
        ),
    ] = Fraction(1)
