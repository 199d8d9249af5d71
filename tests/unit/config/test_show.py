"""What is in force: as written, or with all defaults, which loads again as the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ikeorch.cli.main import run
from ikeorch.config.block import render_peer_block
from ikeorch.config.edit import add_peer, set_tunnel_count
from ikeorch.config.loader import load_config, read_config
from ikeorch.config.show import effective, render_effective, render_written
from ikeorch.config.sources import Source
from ikeorch.core.paths import underlay_paths
from tests.examples import GATEWAY_A, GATEWAY_B
from tests.unit.config.broken import GOOD
from tests.unit.config.test_include import MAIN, PEER_C, SUITES


def write(path: Path, text: str) -> Path:
    """A file that only its owner may write."""
    path.write_text(text)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("text", [GATEWAY_A, GATEWAY_B, GOOD, GATEWAY_A.replace("gw-b\n", '"123"\n', 1)])
def test_the_effective_configuration_means_the_same(text: str) -> None:
    """Loaded again it gives the same spec, and shows itself again letter by letter."""
    loaded = load_config(text, "gw.yaml")
    again = load_config(render_effective(loaded), "effective")
    assert again.spec == loaded.spec
    assert render_effective(again) == render_effective(loaded)


def test_every_default_is_filled_in_with_its_unit() -> None:
    """Also those that follow from other fields."""
    loaded = load_config(GATEWAY_A.replace("peers:\n", "fabric: {gateways_in_site: 2}\npeers:\n"), "gw.yaml")
    written = effective(loaded)
    assert written["peers"][0]["tunnels"] == {
        "count": 4,
        "mtu": "auto",
        "capacity": "50G",
        "suite": "default",
        "rekey_time": "4h",
        "dpd_delay": "30s",
        "replay_window": 1024,
        "mobike": "no",
        "identities": "auto",
    }
    assert written["peers"][0]["accept"] == ["10.2.0.0/16", "fd00:b::/48"]
    assert written["gateway"]["uplinks"][0]["gateway"] == "192.0.2.254"
    assert written["gateway"]["vici_socket"] == "/run/charon.vici"
    assert written["suites"] == {"default": "aes256gcm16-prfsha384-ecp384"}
    assert written["fabric"]["when_unreachable"] == "withdraw"
    assert "include" not in written


def test_several_files_become_one() -> None:
    """The effective one holds the included peers; the written one shows each file under its name."""
    loaded = load_config(MAIN, "gw.yaml", [Source("c.yaml", PEER_C), Source("s.yaml", SUITES)])
    assert load_config(render_effective(loaded), "effective").spec == loaded.spec
    written = render_written(loaded)
    assert written.startswith("# gw.yaml\nschema_version: 1\n")
    assert "\n# c.yaml\n# the third site\n" in written


def test_the_command_shows_a_file_without_the_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As written to the letter; effective as YAML and as JSON."""
    path = write(tmp_path / "gw.yaml", GATEWAY_A)
    assert run(["config", "show", "--config", str(path)]) == 0
    assert capsys.readouterr().out == GATEWAY_A
    assert run(["config", "show", "--config", str(path), "--effective"]) == 0
    assert capsys.readouterr().out == render_effective(read_config(path))
    assert run(["config", "show", "--config", str(path), "--effective", "--output", "json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["format_version"] == 1
    assert view["sources"] == [str(path)]
    assert view["configuration"]["peers"][0]["tunnels"]["dpd_delay"] == "30s"
    assert run(["config", "show", "--config", str(path), "--output", "json"]) == 0
    assert "dpd_delay" not in json.loads(capsys.readouterr().out)["configuration"]["peers"][0]["tunnels"]


def test_a_gateway_introduces_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The block that B prints is a valid peer of A; A's own block comes back to B, and both have the same bundle."""
    path = write(tmp_path / "gw.yaml", GATEWAY_B)
    command = ["config", "show", "--config", str(path), "--as-peer", "--capacity", "50G"]
    command += ["--inner", "10.255.1.0/27", "--inner", "fd00:1::/123"]
    assert run(command) == 0
    block = capsys.readouterr().out
    alone = GATEWAY_A[: GATEWAY_A.index("peers:")]
    text, name = add_peer(alone, block, "a", "block")
    assert name == "gw-b"
    a = load_config(set_tunnel_count(text, "gw-b", 4, "a"), "a").spec
    known = load_config(GATEWAY_A, "a").spec
    assert a.peers == (replace(known.peers[0], uplinks=known.peers[0].uplinks[::-1]),)
    assert underlay_paths(a, a.peers[0]) == underlay_paths(known, known.peers[0])
    assert load_config(add_peer(GATEWAY_B, render_peer_block(a, a.peers[0]), "b", "block")[0], "b").spec.peers
    assert run([*command, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["peer_block"] == block


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--as-peer"], "one or two inner networks are needed"),
        (["--as-peer", "--inner", "10.255.1.0/27"], "this gateway's fd00:a::/48 needs an inner IPv6 network"),
        (["--as-peer", "--inner", "10.255.9.0/27", "--inner", "10.255.8.0/27"], "one or two inner networks"),
        (["--as-peer", "--inner", "10.255.9.1/27"], "did you mean 10.255.9.0/27?"),
        (["--as-peer", "--inner", "10.255.0.0/16", "--inner", "fd00:9::/64"], "overlaps 10.255.1.0/27 of gw-b"),
        (["--as-peer", "--inner", "10.1.2.0/24", "--inner", "fd00:9::/64"], "overlaps this gateway's 10.1.0.0/16"),
        (["--as-peer", "--inner", "10.255.9.0/27", "--inner", "fd00:9::/64", "--capacity", "5"], "'5' is not a rate"),
        (["--inner", "10.255.9.0/27"], "--as-peer goes with --inner"),
    ],
)
def test_what_makes_no_block_is_refused(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 64, nothing on stdout, and what to write instead."""
    path = write(tmp_path / "gw.yaml", GATEWAY_A)
    assert run(["config", "show", "--config", str(path), *arguments]) == 64
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err


def test_no_key_file_is_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its path is shown, never what stands in it."""
    write(tmp_path / "gw-a.key", "-----BEGIN PRIVATE KEY-----\n")
    path = write(tmp_path / "gw.yaml", GATEWAY_A.replace("/etc/ikeorch/pki", str(tmp_path)))
    for more in ([], ["--effective"], ["--output", "json"], ["--effective", "--output", "json"]):
        assert run(["config", "show", "--config", str(path), *more]) == 0
        captured = capsys.readouterr()
        assert str(tmp_path / "gw-a.key") in captured.out
        assert "PRIVATE KEY" not in captured.out + captured.err


def test_a_broken_file_is_reported_as_by_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its line, and nothing of it is shown."""
    path = write(tmp_path / "gw.yaml", GATEWAY_A.replace("50G", "50"))
    assert run(["config", "show", "--config", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{path}:22:25: " in captured.err


def test_without_daemon_and_file_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 4, as every command."""
    assert run(["config", "show", "--socket", str(tmp_path / "s")]) == 4
    assert "ikeorchd does not answer" in capsys.readouterr().err
