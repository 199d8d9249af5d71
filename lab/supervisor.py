"""Starts the nodes of a lab, and is each node's first process.

`python -m lab.supervisor` reads the set-ups on its standard input, forks one process a node into namespaces of its
own (PID, network, mount, UTS, IPC) and stays until its standard input closes. Every process here is killed with its
parent (prctl), and a node's PID namespace dies with its first process: however the runner ends, nothing remains.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

from lab import namespaces
from lab.daemons import PRIVATE_FOLDERS
from lab.node_server import NodeServer
from lab.setup_plan import NodeSetup, from_json
from lab.sysctls import write_sysctls

_OWN_PID_NAMESPACE = Path("/proc/self/ns/pid")
_SCRATCH = Path("/run/.lab")


def enter_node(setup: NodeSetup) -> None:
    """Make the calling process, the first of a new PID namespace, a node.

    Args:
        setup: What the node looks like.

    Raises:
        OSError: The kernel refuses a step.
    """
    namespaces.unshare(
        namespaces.CLONE_NEWNET | namespaces.CLONE_NEWNS | namespaces.CLONE_NEWUTS | namespaces.CLONE_NEWIPC
    )
    socket.sethostname(setup.name)
    namespaces.make_mounts_private()
    namespaces.mount("proc", "/proc", "proc")
    namespaces.mount("sysfs", "/sys", "sysfs")
    namespaces.bind(setup.logs, "/var/log")
    namespaces.mount("tmpfs", "/run", "tmpfs", "mode=755")
    for folder in ("/etc", "/var/lib"):
        upper, work = (_SCRATCH / f"{folder.strip('/').replace('/', '-')}-{part}" for part in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        namespaces.mount("overlay", folder, "overlay", f"lowerdir={folder},upperdir={upper},workdir={work}")
    for folder in PRIVATE_FOLDERS:
        Path(folder).mkdir(exist_ok=True)
        namespaces.mount("tmpfs", folder, "tmpfs", "mode=755")
    Path("/var/lib/ikeorch").mkdir(mode=0o700, exist_ok=True)
    Path("/etc/hostname").write_text(f"{setup.name}\n")
    Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {setup.name}\n")
    for source, target in setup.copies:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
            Path(target).chmod(0o644)  # whatever the checkout's umask was: a daemon that is not root reads it
    write_sysctls(setup.sysctls)
    namespaces.set_link_up("lo")


def _run_node(setup: NodeSetup, listener: socket.socket, result: int) -> None:
    """Be a node's first process; never returns."""
    code = 1
    try:
        namespaces.die_with_parent()
        os.setsid()
        enter_node(setup)
        os.write(result, b"ok")
        os.close(result)
        # The lab's pipes belong to the starter: a node that held them would keep the runner from seeing its end.
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        NodeServer(listener).serve()
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(result, f"{type(error).__name__}: {error}".encode())
        print(f"node {setup.name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def start_node(setup: NodeSetup) -> int:
    """Fork one node.

    Args:
        setup: What it looks like.

    Returns:
        The PID of its first process, as seen from here.

    Raises:
        OSError: It cannot be made; the text says which step failed.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(setup.socket)
        listener.listen(64)
        reader, writer = os.pipe()
        namespaces.unshare(namespaces.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _run_node(setup, listener, writer)
        os.close(writer)
        namespaces.setns(_OWN_PID_NAMESPACE, namespaces.CLONE_NEWPID)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    if answer != b"ok":
        raise OSError(f"node {setup.name}: {answer.decode(errors='replace') or 'its first process died'}")
    return pid


def main() -> None:
    """Start the nodes of standard input's first line, say their PIDs, and stay until standard input closes."""
    namespaces.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides; a terminal sends it to both
    pids: dict[str, int] = {}
    try:
        for setup in from_json(sys.stdin.readline()):
            pids[setup.name] = start_node(setup)
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)
    else:
        print(json.dumps({"pids": pids}), flush=True)
        sys.stdin.read()
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for pid in pids.values():
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
