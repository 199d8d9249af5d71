"""ExaBGP's configuration file, from templates/exabgp.conf. No routes stand in it. No I/O but the template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from bgp.advertisement import Neighbor
from bgp.grammar import NeighborInForce

_WORD = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
"""What may stand in the API process's command: ExaBGP's tokeniser gives spaces, quotes, `;`, `{` and `#` a meaning."""


def render_configuration(neighbors: Iterable[Neighbor], shim: Sequence[str]) -> str:
    """The whole file, in the order of the neighbours' addresses.

    Args:
        neighbors: whom ExaBGP has sessions with.
        shim: command line of the API process, its program by absolute path.

    Raises:
        ValueError: a word of the command that ExaBGP's tokeniser would split, or two neighbours at one address.
    """
    for word in shim:
        if not _WORD.fullmatch(word):
            raise ValueError(f"{word!r} cannot stand in ExaBGP's configuration")
    if not shim or not shim[0].startswith("/"):
        raise ValueError("ExaBGP needs the API process by an absolute path")
    ordered = sorted(neighbors, key=lambda neighbor: (neighbor.address.version, int(neighbor.address)))
    if len({neighbor.address for neighbor in ordered}) != len(ordered):
        raise ValueError("two neighbours have one address")
    head = _template("exabgp.conf").replace("@RUN@", " ".join(shim))
    return head.replace("@NEIGHBORS@\n", "".join(_render_neighbor(neighbor) for neighbor in ordered))


def _render_neighbor(neighbor: Neighbor) -> str:
    restart = neighbor.graceful_restart
    values = {
        "ADDRESS": neighbor.address,
        "ROUTER_ID": neighbor.router_id,
        "LOCAL_ADDRESS": neighbor.local_address or "auto",
        "LOCAL_ASN": neighbor.local_asn,
        "ASN": neighbor.asn,
        "HOLD_TIME": neighbor.hold_time,
        "VERSION": neighbor.address.version,
        # Without it ExaBGP sends the End-of-RIB before we have replayed, and the peer drops what it kept for us.
        "MANUAL_EOR": "true" if restart else "false",
        "GRACEFUL_RESTART": restart or "disable",
    }
    return re.sub(r"@([A-Z_]+)@", lambda match: str(values[match[1]]), _template("exabgp-neighbor.conf"))


@cache
def _template(name: str) -> str:
    return (files("templates") / name).read_text(encoding="ascii")


def is_in_force(neighbors: Iterable[Neighbor], shown: Iterable[NeighborInForce]) -> bool:
    """Whether ExaBGP runs with these neighbours, as far as it shows."""
    wanted = sorted(
        (str(n.address), n.asn, n.local_asn, n.router_id, n.hold_time, n.graceful_restart is not None)
        for n in neighbors
    )
    return wanted == sorted(
        (str(n.address), n.asn, n.local_asn, n.router_id, n.hold_time, n.graceful_restart) for n in shown
    )
