"""Take paths away silently, at the providers: no link goes down and no ICMP error says that something is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from lab.node import Node
from lab.scenarios.observe import Child, counters

TABLE = "lab_outage"
BEFORE_ALL = -300


def of_tunnel(child: Child, *, both_ways: bool) -> str:
    """The data of one tunnel: what carries its SPIs. Its IKE_SA is left alone.

    Args:
        child: the CHILD_SA, as the end sees it whose outgoing direction is lost in any case.
        both_ways: whether the other direction is lost as well.

    Returns:
        The rule's match, for `outage`.
    """
    spis = (child.spi_out, child.spi_in) if both_ways else (child.spi_out,)
    return f"esp spi {{ {', '.join(f'0x{spi}' for spi in spis)} }}"


OF_PROVIDER = ""
"""Everything that a provider forwards, also what another one would send through it; the match, for `outage`."""


def render_outage(match: str) -> str:
    """The nftables table that loses what a router forwards and what matches."""
    lines = (
        f"table inet {TABLE} {{",
        "counter lost { }",
        "chain forward {",
        f"type filter hook forward priority {BEFORE_ALL}; policy accept;",
        f"{match} counter name lost drop".lstrip(),
        "}",
        "}",
    )
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def outage(routers: Iterable[Node], match: str) -> Iterator[None]:
    """Lose what matches at all these routers, from the moment that the body begins until its end."""
    lossy = []
    try:
        for router in routers:
            router.run(["nft", "-f", "-"], input=render_outage(match))
            lossy.append(router)
        yield
    finally:
        for router in lossy:
            router.run(["nft", "delete", "table", "inet", TABLE])


def lost_in_outage(router: Node) -> int:
    """Packets that the running outage has taken at a router."""
    return counters(router, TABLE)["lost"]
