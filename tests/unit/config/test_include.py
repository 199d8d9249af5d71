"""Several files are one configuration: every error names the right one, and every edit changes the right one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ikeorch.cli.main import run
from ikeorch.config.edit import remove_peer, set_tunnel_count
from ikeorch.config.files import read_sources
from ikeorch.config.loader import LoadedConfig, load_config, read_config
from ikeorch.config.place import append_peer, edit_peer, pack_sources, unpack_sources
from ikeorch.config.problems import InvalidConfigError
from ikeorch.config.sources import Source
from ikeorch.daemon.config_file import ConfigFile
from ikeorch.errors import ConfigError, UsageError
from tests.examples import GATEWAY_A

MAIN = GATEWAY_A.replace("schema_version: 1\n", "schema_version: 1\ninclude: conf.d/*.yaml\n")
PEER_C = """\
# the third site
peers:
  - name: gw-c
    site: dc-c
    identity: gw-c.dc.example
    asn: 65030
    uplinks: [{name: isp1, addresses: [203.0.114.1]}]
    inner: [10.255.2.0/27]
    prefixes: [10.3.0.0/16]
    tunnels: {count: 1, suite: fast}   # grows later
"""
SUITES = "suites:\n  fast: aes128gcm16-prfsha256-ecp256\n"


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A main file with one peer, and two included ones with another peer and a suite."""
    folder = tmp_path / "conf.d"
    folder.mkdir(mode=0o755)
    path = tmp_path / "ikeorch.yaml"
    for file, text in ((path, MAIN), (folder / "20-gw-c.yaml", PEER_C), (folder / "10-suites.yaml", SUITES)):
        write(file, text)
    return path


def write(path: Path, text: str) -> None:
    """A file that only its owner may write."""
    path.write_text(text)
    path.chmod(0o644)


def problems(path: Path) -> list[str]:
    """What is wrong, with the folder taken off."""
    with pytest.raises(InvalidConfigError) as caught:
        read_config(path)
    return [line.replace(f"{path.parent}/", "") for line in str(caught.value).splitlines()]


def test_included_peers_and_suites_count_like_those_of_the_main_file(main: Path) -> None:
    """The main file's first, then the others' in the order of their names."""
    loaded = read_config(main)
    assert [peer.name for peer in loaded.spec.peers] == ["gw-b", "gw-c"]
    assert loaded.spec.peers[1].tunnels.suite.aead == "aes128gcm16"
    assert [Path(source.name).name for source in loaded.sources] == ["ikeorch.yaml", "10-suites.yaml", "20-gw-c.yaml"]
    assert loaded.sources[0].text == MAIN


def test_an_error_names_the_included_file_and_its_line(main: Path) -> None:
    """Path and line are those of the file; the main file's errors come first."""
    write(main.parent / "conf.d/20-gw-c.yaml", PEER_C.replace("asn: 65030", "asm: 65030").replace("10.3.0.0/16", "x"))
    write(main, MAIN.replace("asn: 65020", "asn: zero"))
    assert [line.split(" ")[:2] for line in problems(main)] == [
        ["ikeorch.yaml:19:5:", "peers[0].asn:"],
        ["conf.d/20-gw-c.yaml:3:5:", "peers[0].asn:"],
        ["conf.d/20-gw-c.yaml:6:5:", "peers[0].asm:"],
        ["conf.d/20-gw-c.yaml:9:16:", "peers[0].prefixes[0]:"],
    ]


def test_broken_yaml_in_several_files_is_reported_at_once(main: Path) -> None:
    """One line a file."""
    write(main.parent / "conf.d/20-gw-c.yaml", "peers: [\n")
    write(main.parent / "conf.d/10-suites.yaml", "suites:\n\tfast: x\n")
    assert [line.split(":")[0] for line in problems(main)] == ["conf.d/10-suites.yaml", "conf.d/20-gw-c.yaml"]


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            "20-gw-c.yaml",
            "name: gw-c",
            "name: gw-b",
            "conf.d/20-gw-c.yaml:3:5: peers[0].name: the peer name 'gw-b' stands already at "
            "peers[0].name (ikeorch.yaml:16); names must be unique",
        ),
        (
            "20-gw-c.yaml",
            "203.0.114.1",
            "198.51.100.1",
            "conf.d/20-gw-c.yaml:7:40: peers[0].uplinks[0].addresses[0]: the address 198.51.100.1 stands already at "
            "peers[0].uplinks[0].addresses[0] (ikeorch.yaml:20); "
            "an underlay address belongs to one uplink of one gateway",
        ),
        (
            "20-gw-c.yaml",
            "10.3.0.0/16",
            "10.1.3.0/24",
            "conf.d/20-gw-c.yaml:9:16: peers[0].prefixes[0]: 10.1.3.0/24 of site 'dc-c' overlaps 10.1.0.0/16 of site "
            "'dc-a' at gateway.prefixes[0] (ikeorch.yaml:12); a prefix belongs to one site",
        ),
    ],
)
def test_what_stands_in_two_files_is_refused_with_both_places(
    main: Path, file: str, old: str, new: str, expected: str
) -> None:
    """Nothing is overridden."""
    path = main.parent / "conf.d" / file
    write(path, path.read_text().replace(old, new))
    assert expected in [line.replace(f"{main.parent}/", "") for line in problems(main)]


def test_a_suite_of_two_files_is_refused_with_both_places(main: Path) -> None:
    """Also when both say the same."""
    write(main.parent / "conf.d/30-more.yaml", SUITES)
    assert problems(main) == [
        "conf.d/30-more.yaml:2:3: suites.fast: the suite 'fast' stands already at conf.d/10-suites.yaml:2; "
        "name each suite once"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gateway: {name: x}\n", "gateway: belongs into the main file"),
        ("fabric: {}\n", "fabric: belongs into the main file"),
        ("schema_version: 1\n", "schema_version: belongs into the main file"),
        ("include: more.yaml\n", "include: an included file includes no others"),
        ("peers: {name: x}\n", "peers: is no list of peers"),
        ("suites: [x]\n", "suites: is no map of suites"),
    ],
)
def test_an_included_file_holds_peers_and_suites_only(main: Path, text: str, words: str) -> None:
    """With file and line."""
    write(main.parent / "conf.d/30-more.yaml", text)
    (line,) = problems(main)
    assert line.startswith(f"conf.d/30-more.yaml:1:1: {words}; ")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "peers:\n", "peers: []\nsuites: {}\n"])
def test_an_included_file_may_be_empty(main: Path, text: str) -> None:
    """An operator who comments all out means it."""
    write(main.parent / "conf.d/30-more.yaml", text)
    assert len(read_config(main).spec.peers) == 2


def loose_file(path: Path) -> None:
    """Others may write the file."""
    path.chmod(0o646)


def group_file(path: Path) -> None:
    """Its group may write the file."""
    path.chmod(0o664)


def loose_folder(path: Path) -> None:
    """Others may put files beside it."""
    path.parent.chmod(0o777)


def loose_target(path: Path) -> None:
    """A link leads to a file that others may write."""
    target = path.parent.parent / "elsewhere.yaml"
    path.rename(target)
    target.chmod(0o666)
    path.symlink_to(target)


def pipe(path: Path) -> None:
    """A pipe, which would hold the reader for ever."""
    path.unlink()
    os.mkfifo(path, 0o644)


def folder(path: Path) -> None:
    """A folder that matches the pattern."""
    path.unlink()
    path.mkdir()


def gone(path: Path) -> None:
    """A link to nothing."""
    path.unlink()
    path.symlink_to("nowhere.yaml")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (loose_file, "group or others may write the file"),
        (group_file, "group or others may write the file"),
        (loose_folder, "group or others may write its folder"),
        (loose_target, "group or others may write the file"),
        (pipe, "is no plain file"),
        (folder, "is no plain file"),
        (gone, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_others_may_change_is_refused(main: Path, damage: Callable[[Path], None], words: str) -> None:
    """It would decide which tunnels exist; the complaint stands at the include."""
    damage(main.parent / "conf.d/20-gw-c.yaml")
    found = problems(main)
    assert any(line.startswith(f"ikeorch.yaml:2:1: include: conf.d/20-gw-c.yaml: {words}; ") for line in found), found


def test_the_included_text_is_bounded(main: Path) -> None:
    """64 files, 4 MiB in all, UTF-8."""
    for number in range(63):
        write(main.parent / f"conf.d/a{number}.yaml", "")
    assert problems(main) == [
        "ikeorch.yaml:2:1: include: 65 files are included, at most 64 are read; join some of them"
    ]
    (main.parent / "conf.d/a0.yaml").unlink()
    assert len(read_sources(main)) == 65
    write(main.parent / "conf.d/a1.yaml", "#" * 3_000_000)
    write(main.parent / "conf.d/a2.yaml", "#" * 3_000_000)
    assert "conf.d/a2.yaml: the included files are larger than" in problems(main)[0]
    write(main.parent / "conf.d/a1.yaml", "")
    (main.parent / "conf.d/a2.yaml").write_bytes(b"peers: []\n# \xff\n")
    assert problems(main) == ["conf.d/a2.yaml:2:3: is not UTF-8 text at byte 12; save the file as UTF-8"]


def test_patterns_are_a_list_too_and_each_file_counts_once(main: Path) -> None:
    """Hidden files, such as those of editors, do not match; a name without pattern must exist."""
    write(main.parent / "conf.d/.20-gw-c.yaml", "rubbish: [\n")
    write(main, MAIN.replace("conf.d/*.yaml", "[conf.d/20-gw-c.yaml, conf.d/*.yaml]"))
    names = [Path(source.name).name for source in read_config(main).sources]
    assert names == ["ikeorch.yaml", "10-suites.yaml", "20-gw-c.yaml"]
    write(main, MAIN.replace("conf.d/*.yaml", "[conf.d/*.yaml, conf.d/x.yaml]"))
    (line,) = problems(main)
    assert line.startswith("ikeorch.yaml:2:26: include[1]: there is no file 'conf.d/x.yaml'; ")


def test_included_files_may_be_none(main: Path) -> None:
    """A pattern that matches nothing is fine."""
    write(main, MAIN.replace("conf.d/*.yaml", "none.d/*.yaml"))
    assert [peer.name for peer in read_config(main).spec.peers] == ["gw-b"]


def texts(main: Path) -> dict[str, str]:
    """Every file below the folder."""
    return {path.name: path.read_text() for path in main.parent.rglob("*") if path.is_file()}


async def test_an_edit_changes_the_file_in_which_the_peer_stands(main: Path) -> None:
    """One file, one line, comments kept; its mode stays."""
    enforced: list[LoadedConfig] = []
    before = texts(main)
    config = ConfigFile(main, enforced.append)
    loaded, changed = await config.edit(
        lambda sources: edit_peer(sources, "gw-c", lambda text, peer, source: set_tunnel_count(text, peer, 3, source))
    )
    assert changed
    assert loaded.spec.peers[1].tunnels.count == 3
    assert texts(main) == {**before, "20-gw-c.yaml": PEER_C.replace("count: 1", "count: 3")}
    assert enforced == [loaded]
    assert config.in_force is loaded
    assert read_config(main) == loaded


async def test_a_new_peer_goes_to_the_main_file_and_leaves_from_there(main: Path) -> None:
    """Adding and removing it touches no other file."""
    before = texts(main)
    config = ConfigFile(main, lambda _: None)
    block = PEER_C.replace("gw-c", "gw-d").replace("dc-c", "dc-d").replace("203.0.114", "203.0.115")
    block = block.replace("10.255.2.0", "10.255.3.0").replace("10.3.0.0", "10.4.0.0")
    await config.edit(lambda sources: append_peer(sources, block, "block")[0])
    after = texts(main)
    assert {name for name, text in after.items() if text != before.get(name)} == {"ikeorch.yaml"}
    assert [peer.name for peer in read_config(main).spec.peers] == ["gw-b", "gw-d", "gw-c"]
    await config.edit(lambda sources: edit_peer(sources, "gw-c", remove_peer))
    assert {name for name, text in texts(main).items() if text != after[name]} == {"20-gw-c.yaml"}
    assert [peer.name for peer in read_config(main).spec.peers] == ["gw-b", "gw-d"]


async def test_an_edit_that_does_not_fit_the_other_files_is_not_written(main: Path) -> None:
    """All files are checked as one before any is written."""
    before = texts(main)
    enforced: list[LoadedConfig] = []
    config = ConfigFile(main, enforced.append)
    with pytest.raises(InvalidConfigError, match="has room for 16 tunnels, 17 are asked for"):
        await config.edit(
            lambda sources: edit_peer(
                sources, "gw-c", lambda text, peer, source: set_tunnel_count(text, peer, 17, source)
            )
        )
    assert texts(main) == before
    assert not enforced


def test_a_peer_of_any_file_is_known_by_name() -> None:
    """An equal block changes nothing, another one is refused with its place, an unknown name lists all."""
    sources = (Source("main.yaml", MAIN), Source("c.yaml", PEER_C))
    assert append_peer(sources, PEER_C, "block") == (sources, "gw-c")
    with pytest.raises(UsageError, match=r"c\.yaml:3: another peer 'gw-c' is configured already"):
        append_peer(sources, PEER_C.replace("65030", "65031"), "block")
    with pytest.raises(UsageError, match=r"main\.yaml: there is no peer 'gw-x'; configured peers: gw-b, gw-c;"):
        edit_peer(sources, "gw-x", remove_peer)


async def test_a_file_that_cannot_be_written_is_named(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The included one; the old text stays."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    config = ConfigFile(main, lambda _: None)
    with pytest.raises(ConfigError, match=r"20-gw-c\.yaml: cannot be written: No space left on device"):
        await config.edit(lambda sources: edit_peer(sources, "gw-c", remove_peer))
    assert texts(main) == {"ikeorch.yaml": MAIN, "20-gw-c.yaml": PEER_C, "10-suites.yaml": SUITES}


def test_check_names_the_file_in_json(main: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program must not guess it."""
    included = main.parent / "conf.d/20-gw-c.yaml"
    write(included, PEER_C.replace("65030", "0"))
    assert run(["config", "check", str(main), "--output", "json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["file"], problem["line"], problem["path"]) == (str(included), 6, "peers[0].asn")


def test_several_files_are_kept_as_one_text(main: Path) -> None:
    """The history's form."""
    sources = read_config(main).sources
    assert unpack_sources(pack_sources(sources)) == sources


async def test_all_files_are_put_back_as_they_were(main: Path) -> None:
    """Changed, deleted and broken ones; what is replaced or came later is kept where no pattern finds it."""
    loaded, before = read_config(main), texts(main)
    write(main, "rubbish: [")
    (main.parent / "conf.d/10-suites.yaml").unlink()
    write(main.parent / "conf.d/20-gw-c.yaml", "peers: 3\n")
    write(main.parent / "conf.d/30-later.yaml", "peers: [\n")
    config = ConfigFile(main, lambda _: None)
    restored = await config.restore(loaded.sources)
    assert restored == loaded == config.in_force
    assert read_config(main) == loaded
    replaced = {"ikeorch": "rubbish: [", "20-gw-c": "peers: 3\n", "30-later": "peers: [\n"}
    assert texts(main) == {**before, **{f".{name}.yaml.before-rollback": text for name, text in replaced.items()}}


def test_text_alone_reads_no_files() -> None:
    """What is to be included is an argument."""
    assert [peer.name for peer in load_config(MAIN, "gw.yaml").spec.peers] == ["gw-b"]
    both = load_config(MAIN, "gw.yaml", [Source("c", PEER_C), Source("s", SUITES)])
    assert [peer.name for peer in both.spec.peers] == ["gw-b", "gw-c"]
