"""Four tunnels on one address pair, from a fresh start: are all right, and did IKE never stumble?

Prints one line of JSON; the exit code says only whether the start itself succeeded.
"""

from __future__ import annotations

import json
import sys

from lab.control import LabError
from lab.node import Node
from lab.runner import ONE_PAIR, Lab
from lab.scenarios.observe import children, list_sas, xfrm_interfaces
from lab.scenarios.sites import GATEWAYS, bring_up
from lab.scenarios.tunnels import send_into_each_tunnel


def examine(node: Node) -> dict[str, object]:
    """What one gateway looks like from outside, and what its charon's log counts."""
    log = node.log("charon")
    return {
        "ike_sas": len(list_sas(node)),
        "tunnels": [child.tunnel for child in children(node)],
        "child_if_ids": sorted(child.if_id for child in children(node)),
        "interface_if_ids": sorted(interface.if_id for interface in xfrm_interfaces(node).values()),
        "cookies": log.count("COOKIE"),
        "retransmissions": log.count("retransmit"),
        "log_lines": log.count("\n"),
    }


def main() -> int:
    """Start once and report."""
    try:
        with Lab.start(ONE_PAIR) as lab:
            bring_up(lab)
            report: dict[str, object] = {name: examine(lab.node(name)) for name in GATEWAYS}
            report["arrivals"] = send_into_each_tunnel(lab, count=3)
    except (LabError, AssertionError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
