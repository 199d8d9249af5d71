"""``python -m lab.bench NAME``."""

from __future__ import annotations

import importlib
import sys

from lab.control import LabError

BENCHMARKS = {"bringup": "lab.bench.bringup", "cli": "lab.bench.cli", "failover": "lab.bench.failover"}


def main() -> int:
    """Run one benchmark; a benchmark that cannot run says why and exits non-zero."""
    if len(sys.argv) != 2 or sys.argv[1] not in BENCHMARKS:
        print(f"usage: make bench NAME=...; benchmarks: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 64
    try:
        importlib.import_module(BENCHMARKS[sys.argv[1]]).main()
    except (LabError, OSError, RuntimeError) as error:
        print(f"bench {sys.argv[1]}: cannot run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
