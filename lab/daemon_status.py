"""Prints the daemons of nodes as JSON; `ikeorch lab status` runs it on the lab's kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lab.control import LabError, request


def main() -> None:
    """Ask the node behind each control socket of the command line."""
    answers = {}
    for name in sys.argv[1:]:
        path = Path(name)
        try:
            answers[path.stem] = request(path, {"op": "daemons"}, timeout=5)["daemons"]
        except LabError:
            answers[path.stem] = None
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
