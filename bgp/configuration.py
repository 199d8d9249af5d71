"""ExaBGP's configuration file, from templates/exabgp.conf. No routes stand in it. No I/O but the template.

Each neighbour's description is a fingerprint of all that stands there about it. ExaBGP shows it when asked, and so we
see whether it has read the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from bgp.advertisement import IPAddress, Neighbor
from bgp.grammar import FINGERPRINT, parse_fingerprints

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
    return head.replace("@NEIGHBORS@\n", "".join(render_neighbor(neighbor) for neighbor in ordered))


def render_neighbor(neighbor: Neighbor) -> str:
    """One neighbour's block."""
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
        "FINGERPRINT": "",
    }
    values["FINGERPRINT"] = FINGERPRINT + sha256(_fill(values).encode("ascii")).hexdigest()[:16]
    return _fill(values)


def _fill(values: Mapping[str, object]) -> str:
    return re.sub(r"@([A-Z_]+)@", lambda match: str(values[match[1]]), _template("exabgp-neighbor.conf"))


@cache
def _template(name: str) -> str:
    return (files("templates") / name).read_text(encoding="ascii")


def is_in_force(neighbors: Iterable[Neighbor], fingerprints: Mapping[IPAddress, str]) -> bool:
    """Whether ExaBGP runs with exactly these neighbours.

    Args:
        neighbors: whom it should run with.
        fingerprints: each neighbour's description, as ExaBGP shows it.
    """
    wanted = {}
    for neighbor in neighbors:
        wanted.update(parse_fingerprints(render_neighbor(neighbor).splitlines()))
    return wanted == fingerprints
