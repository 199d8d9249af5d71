"""The two sites over IPv6 alone, and over several addresses of both families an uplink."""

from __future__ import annotations

import re

from lab.node import Node
from lab.runner import Lab
from lab.scenarios.sites import GATEWAYS, Direction

CONFIG = "/etc/ikeorch/ikeorch.yaml"
UNDERLAY = {
    "192.0.2": "2001:db8:a1:",
    "203.0.113": "2001:db8:a2:",
    "198.51.100": "2001:db8:b1:",
    "198.51.101": "2001:db8:b2:",
}
"""The IPv4 networks of two-dc's uplinks, and the IPv6 ones of the same links."""
LINK_LOCAL = "fe80::fe"
BACKWARD_6 = Direction("B to A, IPv6", "host-b1", "host-a1", "fd00:a:0:1::10")
_OUTER = re.compile(r"(?P<network>192\.0\.2|203\.0\.113|198\.51\.10[01])\.(?P<host>[0-9]+)(?P<length>/24)?")


def ipv6_alone(lab: Lab) -> None:
    """No IPv4 address in the gateways' configuration, nor at their uplinks; before the daemons start.

    A's router at isp2 is written by its link-local address, as router advertisements give it.
    """
    lab.node("isp2").run(["ip", "address", "add", f"{LINK_LOCAL}/64", "dev", "eth1", "nodad"])
    for name in GATEWAYS:
        node = lab.node(name)
        text = _OUTER.sub(_as_ipv6, node.path(CONFIG).read_text())
        text = re.sub(r"10\.[0-9.]+/[0-9]+, ", "", text)
        text = re.sub(r" *- \{address: 10\..*\n", "", text)
        node.path(CONFIG).write_text(text.replace("2001:db8:a2::fe", LINK_LOCAL))
        for interface in ("eth1", "eth2"):
            node.run(["ip", "-4", "address", "flush", "dev", interface])


def _as_ipv6(match: re.Match[str]) -> str:
    host = "fe" if match["host"] == "254" else match["host"]
    return f'"{UNDERLAY[match["network"]]}:{host}{"/64" if match["length"] else ""}"'


def both_families(lab: Lab) -> None:
    """Two IPv4 addresses and one IPv6 address at each end of each uplink; before the daemons start."""
    for name in GATEWAYS:
        node = lab.node(name)
        text = _OUTER.sub(_as_both, node.path(CONFIG).read_text())
        node.path(CONFIG).write_text(
            text.replace("capacity: 50G", "capacity: 10G")
        )  # more tunnels, one bandwidth_scale
        _add_second(node)


def _as_both(match: re.Match[str]) -> str:
    network, host = match["network"], match["host"]
    if host == "254":
        return f'[{network}.254, "{UNDERLAY[network]}:fe"]'
    four, six = ("/24", "/64") if match["length"] else ("", "")
    return f'"{UNDERLAY[network]}:1{six}", {network}.2{four}, {network}.1{four}'


def _add_second(node: Node) -> None:
    """The second IPv4 address of each uplink."""
    for interface in ("eth1", "eth2"):
        shown = node.json(["ip", "-j", "-4", "address", "show", "dev", interface])
        first = shown[0]["addr_info"][0]["local"]
        node.run(["ip", "address", "add", f"{first.rpartition('.')[0]}.2/24", "dev", interface])
