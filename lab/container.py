"""The entrypoint of the lab's image: what the runner does for a node, done by the node itself under containerlab.

`python -m lab.container DAEMON...` gets the words of the topology's `cmd`. It boots in the runner's order: settings,
guard, links, daemons; then it is the same first process as in the runner's nodes (lab/node_server.py), so the daemons
of lab/daemons.py run, and come back, alike in both. Addresses and routes are `exec`, which containerlab runs later.

Not here: /run, /var/log and the other mounts, which belong to the container's engine.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from lab import namespaces
from lab.control import LabError
from lab.daemons import DAEMONS, GUARD_FILE, LOAD_GUARD
from lab.node_server import NodeServer
from lab.sysctls import own_sysctls, write_sysctls
from lab.waiting import wait_until

CONTROL = "/run/lab.sock"
"""Where the first process answers; `python -m lab.daemon_status /run/lab.sock` asks it."""
LINKS_VARIABLE = "CLAB_INTFS"
"""How many interfaces the node will get; containerlab sets it."""
LINKS_SECONDS = 60.0
READY_SECONDS = 30.0
USAGE = 64
_ENGINES_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def own_files(mountinfo: Path = Path("/proc/self/mountinfo")) -> list[str]:
    """Turn the files that are bound below /etc into the container's own copies, as the runner's nodes have them.

    A bound file cannot be replaced by renaming, which is how ikeorchd saves its configuration, and writing to it would
    change the checkout. When the container starts again the published files are back.

    Args:
        mountinfo: The kernel's list of mounts.

    Returns:
        The files.

    Raises:
        OSError: The container is not privileged.
    """
    files = []
    for line in mountinfo.read_text().splitlines():
        target = line.split(" ")[4]
        if target.startswith("/etc/") and target not in _ENGINES_FILES and Path(target).is_file():
            content = Path(target).read_bytes()
            namespaces.unmount(target)
            Path(target).write_bytes(content)
            Path(target).chmod(0o644)
            files.append(target)
    return files


def wait_for_links(count: int, timeout: float = LINKS_SECONDS) -> None:
    """Wait until the container has its interfaces.

    Args:
        count: How many, without lo.
        timeout: Seconds.

    Raises:
        LabError: They do not come within the time.
    """

    def there() -> bool:
        return sum(name.startswith("eth") for _, name in socket.if_nameindex()) >= count

    wait_until(there, f"{count} interfaces are there", timeout)


def start(server: NodeServer, names: list[str]) -> None:
    """Start daemons one after the other, each when the one before answers.

    Args:
        server: The first process.
        names: Names of the lab's table.

    Raises:
        LabError: One does not answer within READY_SECONDS.
        OSError: One cannot be started.
    """
    for name in names:
        spec = DAEMONS[name]
        server.start_daemon(spec.start_request())
        _say(f"{name} started; what it prints is in /var/log/{name}.out")
        if spec.socket:
            wait_until(lambda path=spec.socket: _answers(path), f"{name} answers", READY_SECONDS)  # type: ignore[misc]


def main(names: list[str]) -> int:
    """Boot, and be the container's first process."""
    if unknown := [name for name in names if name not in DAEMONS]:
        _say(f"no such daemon: {', '.join(unknown)}; known: {', '.join(DAEMONS)}")
        return USAGE
    # Charon ends by SIGTERM with every SA deleted on both ends; the end of the first process is SIGKILL to all.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        own_files()
        write_sysctls(own_sysctls(socket.gethostname()))
        if Path(GUARD_FILE).is_file():
            subprocess.run(LOAD_GUARD, check=True)
            _say("the guard is loaded")
        wait_for_links(int(os.environ.get(LINKS_VARIABLE, "0")))
        Path(CONTROL).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(CONTROL)
            listener.listen(64)
            server = NodeServer(listener)
            start(server, names)
            server.serve()
    except (LabError, OSError, subprocess.SubprocessError) as error:
        _say(f"error: {error}")
        return 1
    return 0


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        return sock.connect_ex(path) == 0


def _say(text: str) -> None:
    print(f"lab: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
