"""Site C joins A and B of three-dc.clab.yml, and leaves again, by the commands that docs/third-site.md tells."""

from __future__ import annotations

from lab.runner import Lab
from lab.scenarios.sites import GATEWAYS, TUNNELS, ikeorch, issue_certificate

THIRD = "gw-c"
INNER = {"gw-a": ("10.255.2.0/27", "fd00:2::/123"), "gw-b": ("10.255.3.0/27", "fd00:3::/123")}
"""The inner networks of the bundle to C; A and B have 10.255.1.0/27 and fd00:1::/123 between them."""
REMOTE_PREFIXES = {
    "leaf-a": ("10.2.0.0/16", "fd00:b::/48", "10.3.0.0/16", "fd00:c::/48"),
    "leaf-b": ("10.1.0.0/16", "fd00:a::/48", "10.3.0.0/16", "fd00:c::/48"),
    "leaf-c": ("10.1.0.0/16", "fd00:a::/48", "10.2.0.0/16", "fd00:b::/48"),
}
"""What each leaf learns by BGP once all three sites are joined."""


def join(lab: Lab) -> None:
    """A certificate, then for each of the two: C's block there, its tunnels, and the block that it prints back to C.

    Returns when every tunnel of the three carries.
    """
    issue_certificate(lab, THIRD)
    c = lab.node(THIRD)
    for name in GATEWAYS:
        gateway = lab.node(name)
        networks = (part for network in INNER[name] for part in ("--inner", network))
        block = ikeorch(c, "config", "show", "--as-peer", *networks, "--capacity", "50G").stdout
        ikeorch(gateway, "peer", "add", "-f", "-", text=block)
        added = ikeorch(gateway, "tunnel", "add", THIRD, "--count", str(TUNNELS), "--no-wait")
        ikeorch(c, "peer", "add", "-f", "-", "--no-wait", text=added.stdout)
    for name in (*GATEWAYS, THIRD):
        ikeorch(lab.node(name), "tunnel", "wait", "--timeout", "20s")


def leave(lab: Lab) -> None:
    """Both ends of each bundle forget the other."""
    for name in GATEWAYS:
        for node, peer in ((name, THIRD), (THIRD, name)):
            ikeorch(lab.node(node), "peer", "remove", peer, "--accept-risk=withdraw-last-path")
