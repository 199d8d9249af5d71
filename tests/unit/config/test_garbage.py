"""Whatever stands in the file: an error that names a line, never a traceback, and nothing is changed."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeorch.cli.main import run
from ikeorch.config.edit import set_tunnel_count
from ikeorch.config.loader import LoadedConfig, load_config
from ikeorch.config.place import edit_peer
from ikeorch.config.problems import InvalidConfigError
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.errors import IkeorchError
from tests.unit.config.broken import GOOD, Broken, all_broken

BROKEN = list(all_broken())
PYDANTICS = re.compile(
    r"recursion|[Ii]nput should|should be a valid|[Vv]alue error|type=|[Ff]ield required|at most \d+ items"
)


def test_the_base_is_good() -> None:
    """Else the cases below would prove nothing; and there are enough of them."""
    assert load_config(GOOD, "gw.yaml").spec.peers[0].tunnels.count == 4
    assert len(BROKEN) >= 200
    assert len({case.text for case in BROKEN}) == len(BROKEN)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: str(case.name))
def test_every_broken_file_is_refused_with_a_line(case: Broken) -> None:
    """Each complaint has line, column and a hint, on one line, in our words; one is where the fault is."""
    with pytest.raises(InvalidConfigError) as caught:
        load_config(case.text, "gw.yaml")
    problems = caught.value.problems
    assert problems
    for problem in problems:
        text = problem.render("gw.yaml")
        assert problem.line >= 1, text
        assert problem.column >= 1, text
        assert problem.line <= case.text.count("\n") + 1, text
        assert problem.hint, text
        assert text.isprintable(), text
        assert len(text) < 1000, text
        assert not PYDANTICS.search(text), text
    lines = {problem.line for problem in problems}
    assert not case.line or lines & {case.line, case.line + 1}, str(caught.value)


def names(folder: Path) -> list[str]:
    """What lies there."""
    return sorted(entry.name for entry in folder.iterdir())


async def test_no_broken_file_is_put_in_force_or_changed(tmp_path: Path) -> None:
    """Neither a reload nor an edit by a command."""
    path = tmp_path / "ikeorch.yaml"
    enforced: list[LoadedConfig] = []
    config = ConfigFile(path, enforced.append)
    for case in random.Random(1).sample(BROKEN, 60):
        path.write_text(case.text)
        before = path.read_bytes()
        with pytest.raises(IkeorchError):
            config.enforce(await config.read())
        with pytest.raises(IkeorchError):
            await config.edit(lambda sources: edit_peer(sources, "gw-b", lambda t, p, s: set_tunnel_count(t, p, 2, s)))
        assert path.read_bytes() == before
        assert names(tmp_path) == ["ikeorch.yaml"]
    assert not enforced


def test_the_command_says_it_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """File, line and column begin each line."""
    path = tmp_path / "ikeorch.yaml"
    for case in random.Random(2).sample(BROKEN, 20):
        path.write_text(case.text)
        assert run(["config", "check", str(path)]) == 1
        output = capsys.readouterr().err
        assert re.match(rf"ikeorch: {re.escape(str(path))}:\d+:\d+: ", output), output
        assert "Traceback" not in output


LINES = GOOD.splitlines(keepends=True)


@settings(max_examples=150, deadline=None)
@given(st.permutations(range(len(LINES))), st.integers(0, len(LINES)))
def test_swapped_and_lost_lines_never_give_a_traceback(order: list[int], kept: int) -> None:
    """The result is good or refused with a line."""
    text = "".join(LINES[at] for at in order[:kept])
    with contextlib.suppress(InvalidConfigError):
        load_config(text, "gw.yaml")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 12), st.text(max_size=6))
def test_damage_anywhere_is_good_or_refused_with_a_line(at: int, length: int, insert: str) -> None:
    """Any cut and paste."""
    try:
        load_config(GOOD[:at] + insert + GOOD[at + length :], "gw.yaml")
    except InvalidConfigError as error:
        assert all(problem.line >= 1 for problem in error.problems), str(error)


def large_file(peers: int, tunnels: int) -> str:
    """Many peers that share the tunnels evenly, each with a site and an inner network of its own."""
    head = GOOD[: GOOD.index("include:")] + GOOD[GOOD.index("gateway:") : GOOD.index("suites:")]
    blocks = []
    for number in range(peers):
        count = tunnels // peers + (number < tunnels % peers)
        blocks.append(
            f"  - name: gw-{number}-x\n    site: dc-{number}-x\n    identity: gw-{number}.dc.example\n    asn: 65020\n"
            f"    uplinks: [{{name: isp1, addresses: [198.51.{number}.1]}}, "
            f"{{name: isp2, addresses: [198.51.{number}.2]}}]\n"
            f"    inner: [10.255.{number}.0/24]\n    prefixes: [10.{number + 100}.0.0/16]\n"
            f"    tunnels: {{count: {count}, capacity: 1G}}\n"
        )
    return f"{head}peers:\n{''.join(blocks)}"


def test_a_thousand_tunnels_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """64 peers; every bundle's shared pairs are named once."""
    path = tmp_path / "ikeorch.yaml"
    path.write_text(large_file(64, 1000))
    assert run(["config", "check", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{path}: valid; gateway gw-a, 64 peers, 1000 tunnels\n"
    assert captured.err.count("share 2 address pairs") == 64


def test_every_fault_of_a_large_file_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One a peer, each on its own line."""
    path = tmp_path / "ikeorch.yaml"
    path.write_text(large_file(64, 1000).replace("capacity: 1G", "capacity: 1"))
    assert run(["config", "check", str(path)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 64
    assert len({re.findall(r":(\d+):\d+: ", line)[0] for line in lines}) == 64
