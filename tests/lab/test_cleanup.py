"""Nothing of a lab stays behind, however its runner ends. Runs on the host's own kernel, for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.control import LabError
from lab.kernel.find import find_kernel
from lab.runner import REPO
from lab.waiting import wait_until

TOPOLOGY = """
name: tiny
topology:
  defaults: {kind: linux, image: any, labels: {ikeorch.role: host}}
  nodes:
    left: {exec: ["ip address add 10.99.0.1/24 dev eth1"]}
    right: {exec: ["ip address add 10.99.0.2/24 dev eth1"]}
  links:
    - endpoints: ["left:eth1", "right:eth1"]
"""
HOLD = """
import sys
from pathlib import Path
from lab.daemons import DaemonSpec
from lab.runner import Lab
with Lab.start(Path(sys.argv[1])) as lab:
    node = lab.node("left")
    node.start_daemon(DaemonSpec(name="idle", argv=("sleep", sys.argv[2]), socket="/none"), ready=None)
    with node.popen(["sh", "-c", f"setsid sleep {sys.argv[2]} & exec sleep {sys.argv[2]}"]):
        node.run(["ping", "-c", "1", "-W", "2", "10.99.0.2"])
        print("up", flush=True)
        if sys.argv[3] == "crash":
            raise RuntimeError("on purpose")
        sys.stdin.read()
"""


def _namespaces_work() -> bool:
    return subprocess.run(["unshare", "-npmiu", "--fork", "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not _namespaces_work(), reason="this user may not make namespaces")


class World:
    """What a lab could leave on the host, seen from outside of it."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self._before = self._mounts_and_links()

    @staticmethod
    def _mounts_and_links() -> tuple[str, str]:
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        mounts = Path("/proc/self/mountinfo").read_text()
        return mounts, "\n".join(line.split()[1] for line in links.splitlines())

    def processes(self) -> list[str]:
        """Command lines that carry this test's mark, or this test's folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if (self.mark in line or str(self.folder) in line) and path.parent.name != str(os.getpid()):
                found.append(line)
        return found

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("ikeorch-*"))

    def unchanged(self) -> bool:
        return self._before == self._mounts_and_links()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    # A mark that no other process has: seconds to sleep.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="iktest-") as folder:
        yield World(Path(folder), f"{os.getpid()}.{tmp_path.stat().st_ino}")


def start(world: World, how: str = "hold") -> subprocess.Popen[str]:
    topology = world.folder / "tiny.clab.yml"
    topology.write_text(TOPOLOGY)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(topology), world.mark, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPO,
        env={**os.environ, "TMPDIR": str(world.folder), "PYTHONPATH": str(REPO)},
        start_new_session=True,
    )
    assert process.stdout is not None
    if (line := process.stdout.readline()) != "up\n":
        pytest.fail(f"the lab did not start: {line}{process.communicate(timeout=10)[1]}")
    return process


@needs_namespaces
@pytest.mark.parametrize("how", ["end", "crash", "SIGINT", "SIGTERM", "SIGKILL"])
def test_nothing_stays_behind(world: World, how: str) -> None:
    """No process, mount, interface or folder; after SIGKILL the folder goes when the next lab starts."""
    process = start(world, "crash" if how == "crash" else "hold")
    if how != "crash":
        assert len(world.processes()) >= 4, "the test must see what it says is gone later"
        assert world.folders(), "the test must see the folder"
    if how.startswith("SIG"):
        process.send_signal(getattr(signal, how))
    process.communicate(timeout=20)
    wait_until(lambda: not world.processes(), "all processes are gone", 5)
    assert world.unchanged()
    if how in {"SIGKILL", "SIGTERM"}:  # Python dies of both without a word
        assert len(world.folders()) == 1
        start(world).communicate(timeout=20)
    assert not world.folders()


@needs_namespaces
def test_labs_do_not_sweep_each_other_away(world: World) -> None:
    """A running lab keeps its folder while another starts and ends."""
    first = start(world)
    kept = world.folders()
    start(world).communicate(timeout=20)
    assert kept == world.folders()
    first.communicate(timeout=20)
    assert first.returncode == 0
    assert not world.folders()


@pytest.fixture
def kernel() -> None:
    try:
        find_kernel()
    except LabError as error:
        pytest.skip(str(error))


def run_in_guest(world: World, *command: str, timeout: str = "60") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(str(Path(sys.executable).parent / "ikeorch"), "lab", "run", "--on", "guest", "--memory", "512"),
            *("--timeout", timeout, "--share", str(world.folder / "share"), "--", *command),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPO,
        env={**os.environ, "TMPDIR": str(world.folder)},
    )


@pytest.mark.usefixtures("kernel")
def test_guest_passes_streams_and_code_and_writes_its_share_only(world: World) -> None:
    """Output and exit code come through; a write outside the share reaches nobody."""
    share, outside = world.folder / "share" / "file", REPO / f"not-written-{world.mark}"
    script = f"echo out; echo err >&2; echo kept >{share}; echo lost >{outside}; exit 9"
    process = run_in_guest(world, "sh", "-c", script)
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out, err) == (9, "out\n", "err\n")
    assert share.read_text() == "kept\n"
    assert not outside.exists()
    assert not world.folders()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("how", ["timeout", "SIGINT", "SIGKILL"])
def test_nothing_of_a_guest_stays_behind(world: World, how: str) -> None:
    """A guest that hangs, or whose runner is interrupted or killed, ends with all its processes."""
    process = run_in_guest(world, "sh", "-c", "echo up; exec sleep 1000", timeout="5" if how == "timeout" else "60")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    assert world.processes()
    if how != "timeout":
        process.send_signal(getattr(signal, how))
    process.communicate(timeout=60)
    assert {"timeout": 1, "SIGINT": 130, "SIGKILL": -9}[how] == process.returncode
    wait_until(lambda: not world.processes(), "all processes of the guest are gone", 5)
    if how == "SIGKILL":
        assert len(world.folders()) == 1
        run_in_guest(world, "true").communicate(timeout=90)
    assert not world.folders()
