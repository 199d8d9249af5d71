"""What `plan --explain` prints for charon, given to the real swanctl, says what the adapter says over VICI."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ikeorch.adapters.vici.adapter import CharonAdapter
from ikeorch.core.ids import TunnelId
from ikeorch.core.spec import CredentialsSpec
from ikeorch.core.units import Seconds
from ikeorch.daemon.explain_charon import (
    authority_lines,
    connection_lines,
    initiate_lines,
    key_lines,
    section_name,
    terminate_lines,
    unload_lines,
)
from tests.contract.credentials import connection, identities
from tests.contract.real_charon import RealCharon, why_not
from tests.fakes.fake_charon import FakeCharon

US, PEER = identities()
PLAIN = connection(TunnelId("gw-b", 0), US, PEER)
ODD = replace(
    connection(TunnelId("gw-b", 11), US, PEER, addresses=("2001:db8::1", "2001:db8::2"), if_id=4294967293),
    local_id="@us_0.example",
    remote_id="them:0@example",
    esp_proposals=("aes256gcm16-ecp384-esn", "aes128gcm16-ecp256-esn"),
    dpd_delay=Seconds(0),
    replay_window=64,
    mobike=True,
)


@pytest.fixture
def files(tmp_path: Path) -> CredentialsSpec:
    """The PEM files, in a folder whose name must be quoted."""
    folder = tmp_path / 'a "folder" # with spaces'
    folder.mkdir()
    files = CredentialsSpec(certificate=folder / "c.pem", key=folder / "k.pem", ca=folder / "ca.pem")
    files.certificate.write_text(US.certificate)
    files.key.write_bytes(US.key.reveal())
    files.ca.write_text(US.ca)
    return files


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[FakeCharon]:
    """A charon that keeps what it was told, word for word."""
    async with FakeCharon(tmp_path / "fake.vici") as running:
        yield running


async def swanctl(charon: FakeCharon | RealCharon, *words: str) -> str:
    """The real program; its output."""
    command = ["swanctl", *words, "--uri", f"unix://{charon.path}"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


async def load(charon: FakeCharon | RealCharon, kind: str, lines: list[str], folder: Path) -> str:
    """Have swanctl load lines of swanctl.conf."""
    path = folder / "lines.conf"
    path.write_text("\n".join(lines) + "\n")
    return await swanctl(charon, f"--load-{kind}", "--file", str(path))


def by_section(body: Any, name: str) -> Any:
    """The connection with its child under the name that swanctl.conf can write."""
    return {**body, "children": {section_name(name): body["children"][name]}}


@pytest.mark.parametrize("wanted", [PLAIN, ODD], ids=["plain", "odd"])
async def test_swanctl_says_word_for_word_what_we_say(
    fake: FakeCharon, files: CredentialsSpec, tmp_path: Path, wanted: Any
) -> None:
    """Every key, list and certificate of the load-conn message is the same."""
    adapter = CharonAdapter(fake.path, deadline=5)
    await adapter.load_connection(wanted)
    await adapter.close()
    ours = by_section(fake.connections[wanted.name], wanted.name)
    assert ours["local"]["certs"] == [US.certificate.encode()]
    await load(fake, "conns", connection_lines(wanted, files), tmp_path)
    assert list(fake.connections) == [section_name(wanted.name)]
    assert ours == fake.connections[section_name(wanted.name)]


@pytest.mark.charon
async def test_a_real_charon_takes_all_of_it(files: CredentialsSpec, tmp_path: Path) -> None:
    """Connections, the trust anchor, the beginning and the end of an IKE_SA; nothing waits for a silent peer."""
    if reason := why_not():
        pytest.skip(reason)
    async with RealCharon(tmp_path / "charon") as charon:
        adapter = CharonAdapter(charon.path, deadline=5)
        await load(charon, "authorities", authority_lines("ikeorch-ca-1", files), tmp_path)
        await load(charon, "conns", connection_lines(PLAIN, files), tmp_path)
        state = await adapter.snapshot()
        assert (state.connections, state.authorities) == (
            frozenset({section_name(PLAIN.name)}),
            frozenset({"ikeorch-ca-1"}),
        )
        await adapter.load_connection(PLAIN)
        await adapter.load_key(US.key)
        for number, force in ((1, False), (2, True)):
            await run_lines(initiate_lines(PLAIN.name, charon.path))
            (sa,) = (await adapter.snapshot()).sas
            assert (sa.connection, sa.connecting, sa.unique_id) == (PLAIN.name, True, number)
            await run_lines(terminate_lines(sa.unique_id, charon.path, force=force))
            assert (await adapter.snapshot()).sas == ()
        await adapter.close()


async def run_lines(lines: list[str]) -> None:
    """As an operator pastes them; within a second, since charon is not to be held."""
    for line in lines:
        done = await asyncio.to_thread(
            subprocess.run, ["sh", "-c", line], capture_output=True, text=True, timeout=3, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"


def test_nothing_secret_is_shown(files: CredentialsSpec) -> None:
    """Keys and certificates are named by their files, also where a shell or swanctl.conf wants them quoted."""
    lines = [*connection_lines(PLAIN, files), *authority_lines("x", files), *key_lines(files), *unload_lines("y")]
    text = "\n".join(lines)
    assert "-----" not in text
    assert "PRIVATE" not in text
    assert all(line for line in lines)
    assert str(files.key) in text
