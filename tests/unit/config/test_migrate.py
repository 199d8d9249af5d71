"""An older file is read as the current version, a newer one is refused, and neither loses its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ikeorch.config.edit import remove_peer
from ikeorch.config.loader import load_config
from ikeorch.config.migrate import CURRENT, MIGRATIONS, VersionError, migrate
from ikeorch.config.place import edit_peer
from ikeorch.config.problems import InvalidConfigError
from ikeorch.config.show import render_effective
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.errors import ConfigError
from tests.examples import GATEWAY_A

OLD = GATEWAY_A.replace("schema_version: 1", "schema_version: 0").replace("rekey_time: 4h", "rekey: 4h")


def rename_rekey(data: dict[str, Any]) -> dict[str, Any]:
    """An invented version 0 wrote ``rekey`` for ``rekey_time``."""

    def renamed(peer: Any) -> Any:
        tunnels = peer.get("tunnels") if isinstance(peer, dict) else None
        if not isinstance(tunnels, dict):
            return peer
        return {**peer, "tunnels": {"rekey_time" if key == "rekey" else key: each for key, each in tunnels.items()}}

    peers = data.get("peers")
    return {**data, "peers": [renamed(peer) for peer in peers]} if isinstance(peers, list) else data


@pytest.fixture
def version_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration from version 0 is known."""
    monkeypatch.setitem(MIGRATIONS, 0, rename_rekey)


@pytest.mark.usefixtures("version_0")
def test_an_old_file_is_read_as_the_current_version() -> None:
    """It means what it meant; a warning says how to write it anew."""
    loaded = load_config(OLD, "gw.yaml")
    assert loaded.spec == load_config(GATEWAY_A, "gw.yaml").spec
    assert loaded.tree.version == 0
    assert loaded.warnings[0].render("gw.yaml") == (
        "gw.yaml:1:1: schema_version: written for schema_version 0, read as 1; "
        "`ikeorch config show --effective` prints it as this version writes it"
    )
    assert load_config(render_effective(loaded), "new").tree.version == CURRENT


@pytest.mark.usefixtures("version_0")
def test_an_error_in_an_old_file_names_its_line() -> None:
    """The migration leaves every value where it was."""
    with pytest.raises(InvalidConfigError) as caught:
        load_config(OLD.replace("asn: 65020", "asn: none").replace("rekey: 4h", "rekey: 4"), "gw.yaml")
    assert [problem.line for problem in caught.value.problems] == [18, 22]


@pytest.mark.usefixtures("version_0")
def test_a_migration_survives_rubbish() -> None:
    """The shape is checked after it."""
    for text in (
        "schema_version: 0\n",
        "schema_version: 0\npeers: 3\n",
        "schema_version: 0\npeers: [3, {tunnels: 4}]\n",
    ):
        with pytest.raises(InvalidConfigError, match="is missing"):
            load_config(text, "gw.yaml")


@pytest.mark.usefixtures("version_0")
async def test_commands_do_not_edit_an_old_file(tmp_path: Path) -> None:
    """They write the current version's words."""
    path = tmp_path / "gw.yaml"
    path.write_text(OLD)
    config = ConfigFile(path, lambda _: None)
    with pytest.raises(
        ConfigError, match=r"is written for schema_version 0, commands write 1; replace it by the output"
    ):
        await config.edit(lambda sources: edit_peer(sources, "gw-b", remove_peer))
    assert path.read_text() == OLD


def test_steps_follow_one_another() -> None:
    """A chain of pure functions; the given data stays as it was."""
    given = {"schema_version": CURRENT, "gateway": {}}
    assert migrate(given) == (given, CURRENT)
    assert given == {"schema_version": CURRENT, "gateway": {}}


def test_two_steps_run_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """From -1 over 0 to 1."""
    monkeypatch.setitem(MIGRATIONS, -1, lambda data: {**data, "steps": [*data["steps"], "first"]})
    monkeypatch.setitem(MIGRATIONS, 0, lambda data: {**data, "steps": [*data["steps"], "second"]})
    data: dict[str, Any] = {"schema_version": -1, "steps": []}
    assert migrate(data) == ({"schema_version": 1, "steps": ["first", "second"]}, -1)
    assert data["steps"] == []


def test_a_newer_file_asks_for_an_upgrade() -> None:
    """Nothing else is said of it, for the rest may be in words that came later."""
    with pytest.raises(InvalidConfigError) as caught:
        load_config(GATEWAY_A.replace("schema_version: 1", "schema_version: 2").replace("asn", "ASN"), "gw.yaml")
    assert str(caught.value) == (
        "gw.yaml:1:1: schema_version: written for schema_version 2, this ikeorch knows 1; upgrade ikeorch"
    )


def test_an_unknown_older_version_is_refused() -> None:
    """It says what is known."""
    with pytest.raises(VersionError, match="version 0 is none that this ikeorch reads; it knows 1"):
        migrate({"schema_version": 0})


@pytest.mark.parametrize("version", ["'1'", "1.0", "true", "[1]", "one", ""])
def test_a_version_that_is_no_number_is_refused(version: str) -> None:
    """Python holds true and 1.0 for 1."""
    with pytest.raises(InvalidConfigError, match=r"gw\.yaml:1:1: schema_version: "):
        load_config(GATEWAY_A.replace("schema_version: 1", f"schema_version: {version}"), "gw.yaml")
