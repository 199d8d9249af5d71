"""Holds a lab up on a lab kernel until its standard input closes; `ikeorch lab up` runs it.

Says each step on standard error, and on standard output one line of JSON once everything stands.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from lab.control import LabError
from lab.runner import Lab
from lab.scenarios import sites


def main() -> int:
    """Build the topology of the command line and keep it."""
    parser = argparse.ArgumentParser(prog="lab.hold")
    parser.add_argument("topology", type=Path)
    parser.add_argument("--bare", action="store_true", help="no certificates and no daemons")
    parser.add_argument("--tunnels", type=int, default=0, help="tunnels to bring up between gw-a and gw-b")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        _say(f"building {options.topology.name}")
        with Lab.start(options.topology) as lab:
            if not options.bare:
                _say("issuing certificates")
                sites.issue_certificates(lab)
                _say("starting FRR on the leafs, charon and ikeorchd on the gateways")
                sites.start_daemons(lab)
            if options.tunnels:
                _say(f"bringing up {options.tunnels} tunnels")
                sites.add_tunnels(lab, options.tunnels)
            nodes = [
                {"name": n.name, "socket": str(n.control), "role": lab.topology.node(n.name).role}
                for n in lab.nodes.values()
            ]
            print(json.dumps({"name": lab.topology.name, "nodes": nodes}), flush=True)
            sys.stdin.read()
    except LabError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
