"""Which kernel a lab can run on, and where the user-mode Linux one lies.

Search order: IKEORCH_LAB_KERNEL, then `linux` in the cache folder. Building one is lab/setup/kernel.sh's task.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lab.control import LabError

KERNEL_VARIABLE = "IKEORCH_LAB_KERNEL"

PROBE = """
ip link add ikeprobe0 type xfrm dev lo if_id 1 &&
ip link add ikeprobe1 type dummy && ip link set ikeprobe1 up &&
tc qdisc add dev ikeprobe1 root netem delay 1ms &&
ip nexthop add id 1 dev ikeprobe1 && ip nexthop add id 2 group 1 &&
ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 1 reqid 1 mode tunnel \
    aead 'rfc4106(gcm(aes))' 0x000102030405060708090a0b0c0d0e0f10111213 128 if_id 1 &&
nft add table inet ikeprobe
"""


def cache_folder() -> Path:
    """Return the folder in which lab kernels are cached."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ikeorch"


def find_kernel() -> Path:
    """Return the user-mode Linux kernel of this user.

    Returns:
        An executable file.

    Raises:
        LabError: There is none.
    """
    named = os.environ.get(KERNEL_VARIABLE)
    path = Path(named) if named else cache_folder() / "linux"
    if os.access(path, os.X_OK) and path.is_file():
        return path.resolve()
    if named:
        raise LabError(f"{KERNEL_VARIABLE}={named} is no executable file: correct or unset it")
    raise LabError(f"no lab kernel at {path}: `make setup` builds one")


def host_can() -> bool:
    """Return whether this host's own kernel, and this user, can do everything that a lab needs.

    The probe runs in a network namespace of its own, which ends with it.
    """
    if os.environ.get("LAB_GUEST"):
        return True
    try:
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def main() -> int:
    """Say which kernel a lab would run on; exit code 1 when there is none."""
    try:
        find_kernel()
    except LabError as error:
        if host_can():
            return 0
        if os.environ.get(KERNEL_VARIABLE):
            print(f"setup: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
