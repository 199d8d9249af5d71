"""ExaBGP as ikeorchd looks for it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from ikeorch.daemon.fabric import Fabric, find_exabgp


async def test_news_of_the_fabric_wake_the_loop(tmp_path: Path) -> None:
    """A session that comes or goes, and ExaBGP itself: the loop's resync would be half a minute late."""
    socket = tmp_path / "exabgp.sock"
    fabric = Fabric(socket, tmp_path / "exabgp.conf")
    woken = asyncio.Event()
    running = asyncio.create_task(fabric.run(lambda _: woken.set()))
    fabric._changed("session 10.0.0.254 is down")
    await asyncio.sleep(0)
    fabric._changed("session 10.0.0.254 is down")
    assert woken.is_set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_exabgp_is_found_beside_python_or_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is missing only when it is in neither place; the fabric says so."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_exabgp() is None
    fabric = Fabric(tmp_path / "exabgp.sock", tmp_path / "exabgp.conf")
    assert fabric.state().problem == "the program exabgp is not installed"
    for folder in ("path", "bin"):
        program = tmp_path / folder / "exabgp"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert find_exabgp() == str(program)
    assert fabric.state().problem == "ExaBGP's process is not connected"
