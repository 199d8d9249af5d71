"""The command line without a daemon: quick, lazy, and every fault with its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ikeorch.cli.main import run
from tests.examples import GATEWAY_A

DAEMON_LIBRARIES = (
    "aiohttp",
    "pydantic",
    "pyroute2",
    "cryptography",
    "asyncssh",
    "structlog",
    "vici",
    "ruamel",
    "asyncio",
)


@pytest.mark.parametrize(
    "arguments", [["--help"], *([group, "--help"] for group in ("config", "tunnel", "status", "lab"))]
)
def test_help_imports_none_of_the_daemons_libraries(arguments: list[str]) -> None:
    """Help must stay quick: the import list is what decides it."""
    code = f"""
import sys
from ikeorch.cli.main import run
run({arguments!r})
print(",".join(sorted(name for name in sys.modules if name.split(".")[0] in {DAEMON_LIBRARIES!r})), file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: ikeorch" in result.stdout
    assert result.stderr.strip() == ""


def test_help_names_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The names are fixed (DESIGN.md section 7)."""
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("config", "daemon", "lab", "peer", "pki", "plan", "status", "tunnel", "64 usage", "75 try again"):
        assert word in text


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["status", "--nonsense"], ["tunnel", "add"], ["tunnel", "add", "b", "--count", "0"]]
)
def test_wrong_usage_exits_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Never click's own 2, which means "changes pending" here."""
    assert run(arguments) == 64
    assert "Error" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["status"], ["plan"], ["tunnel", "list"], ["tunnel", "add", "gw-b", "--count", "4"], ["peer", "list"]]
)
def test_no_daemon_exits_4_and_says_what_to_do(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The socket is named, and the way to start it."""
    path = tmp_path / "none.sock"
    assert run([*arguments, "--socket", str(path)]) == 4
    assert capsys.readouterr().err == (
        f"ikeorch: {path}: ikeorchd does not answer (No such file or directory); "
        "start it: systemctl start ikeorchd, or name its socket with --socket\n"
    )


def test_check_accepts_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what the file holds."""
    path = tmp_path / "gw.yaml"
    path.write_text(GATEWAY_A)
    assert run(["config", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid; gateway gw-a, 1 peers, 4 tunnels\n"


def test_check_reports_all_faults_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line a fault for people, one object a fault for programs; exit code 1."""
    path = tmp_path / "gw.yaml"
    path.write_text(GATEWAY_A.replace("50G", "50").replace("asn: 65020", "asm: 65020"))
    assert run(["config", "check", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert run(["config", "check", str(path), "--output", "json"]) == 1
    view = json.loads(capsys.readouterr().out)
    assert view["format_version"] == 1
    assert [problem["line"] for problem in view["problems"]] == [15, 18, 22]
    assert view["problems"][2]["path"] == "peers[0].tunnels.capacity"


def test_a_missing_configuration_stops_the_daemon_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is touched."""
    missing = tmp_path / "gw.yaml"
    assert run(["daemon", "--config", str(missing), "--state", str(tmp_path), "--socket", str(tmp_path / "s")]) == 1
    assert "no such file; name it with --config" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_broken_configuration_stops_the_daemon_with_every_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same report as `config check`."""
    path = tmp_path / "gw.yaml"
    path.write_text(GATEWAY_A.replace("50G", "50"))
    assert run(["daemon", "--config", str(path), "--state", str(tmp_path / "st"), "--socket", str(tmp_path / "s")]) == 1
    assert f"{path}:22:25: peers[0].tunnels.capacity: 50 is not a rate" in capsys.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == ["gw.yaml"]


def test_pki_makes_a_ca_and_issues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From nothing to a gateway's three files; a second init changes nothing."""
    ca, out = tmp_path / "ca", tmp_path / "out"
    assert run(["pki", "init", "--ca-dir", str(ca)]) == 0
    assert run(["pki", "init", "--ca-dir", str(ca)]) == 1
    assert "holds a CA already; nothing was changed" in capsys.readouterr().err
    arguments = ["pki", "issue", "gw-a.dc.example", "--ca-dir", str(ca), "--out-dir", str(out), "--output", "json"]
    assert run(arguments) == 0
    view = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in out.iterdir()) == ["ca.pem", "gw-a.key", "gw-a.pem"]
    assert view["names"][:2] == ["gw-a.dc.example", "t0.gw-a.dc.example"]
    assert run(["pki", "issue", "not a name", "--ca-dir", str(ca), "--out-dir", str(out)]) == 1
    assert run(["pki", "issue", "gw-a.dc.example", "--ca-dir", str(tmp_path / "none"), "--out-dir", str(out)]) == 1
    assert "is missing; ikeorch pki init" in capsys.readouterr().err


def test_a_block_that_is_no_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the first bad byte, before the daemon is asked."""
    block = tmp_path / "block"
    block.write_bytes(b"name: \xff\n")
    assert run(["peer", "add", "-f", str(block), "--socket", str(tmp_path / "s")]) == 1
    assert "the peer block is not UTF-8 text at byte 6" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "[]", '{"config_digest": 1}', "\0", ""])
def test_a_plan_file_that_is_none_is_refused_before_anybody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Nested without end, of another kind, empty: what it is not, where, and how to get one."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert run(["apply", "--socket", str(tmp_path / "none"), str(path)]) == 64
    assert f"{path}: is no plan; make one with `ikeorch plan --out FILE`" in capsys.readouterr().err
