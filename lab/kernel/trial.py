"""Tries a lab kernel: boots a guest and checks that it can do all that a lab needs."""

from __future__ import annotations

import sys

from lab.channel import Streams, run_command
from lab.control import LabError
from lab.guest import Guest, GuestOptions
from lab.kernel.find import PROBE
from lab.wire import Start


def main() -> int:
    """Boot a guest and run the probe in it; say what fails."""
    try:
        with Guest(GuestOptions(memory=512)) as guest:
            start = Start(id=1, argv=("unshare", "--net", "sh", "-ec", PROBE))
            return run_command(guest.channel, start, Streams(), timeout=30)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
