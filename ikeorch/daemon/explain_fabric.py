"""What ExaBGP is told: its configuration's blocks, and the commands of its API."""

from __future__ import annotations

from collections.abc import Iterable

from bgp.advertisement import Advertisement, IPNetwork, Neighbor
from bgp.configuration import render_neighbor
from bgp.grammar import RELOAD, show_change
from bgp.link_bandwidth import encode_link_bandwidth
from ikeorch.core.fabric import FabricWish
from ikeorch.daemon.fabric import to_advertisements


def fabric_lines(before: FabricWish | None, after: FabricWish) -> list[str]:
    """How ExaBGP comes from one wish to the next: neighbours by its file, routes by its API.

    Raises:
        ValueError: a neighbour or a route that BGP does not know.
    """
    old = (
        {neighbor.address: (neighbor, offers) for neighbor, offers in to_advertisements(before).items()}
        if before
        else {}
    )
    new = {neighbor.address: (neighbor, offers) for neighbor, offers in to_advertisements(after).items()}
    lines = [f"# exabgp.conf without neighbor {address}" for address in old if address not in new]
    for address, (neighbor, _) in new.items():
        block = render_neighbor(neighbor)
        if address not in old or render_neighbor(old[address][0]) != block:
            lines.extend(("# exabgp.conf:", *block.splitlines()))
    if lines:
        lines.append(RELOAD.decode().strip())
    for address, (neighbor, offers) in new.items():
        known, had = old.get(address, (neighbor, ()))
        restarted = render_neighbor(known) != render_neighbor(neighbor)
        lines.extend(_route_lines(neighbor, {} if restarted else _routes(known, had), _routes(neighbor, offers)))
    return lines or ["# nothing that ExaBGP is told"]


def _routes(neighbor: Neighbor, offers: Iterable[Advertisement]) -> dict[IPNetwork, bytes]:
    """What one neighbour hears: the prefixes of its session's family, with their communities."""
    return {
        offer.prefix: encode_link_bandwidth(
            offer.link_bandwidth, asn=neighbor.local_asn, transitive=neighbor.transitive
        )
        for offer in offers
        if offer.prefix.version == neighbor.address.version
    }


def _route_lines(neighbor: Neighbor, old: dict[IPNetwork, bytes], new: dict[IPNetwork, bytes]) -> Iterable[str]:
    for prefix, community in new.items():
        if old.get(prefix) != community:
            yield show_change(neighbor.address, prefix, community, announce=True)
    for prefix, community in old.items():
        if prefix not in new:
            yield show_change(neighbor.address, prefix, community, announce=False)
