"""The image for containerlab, which cannot be built here: what it copies, installs and starts must be there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import lab.container
from lab.daemons import DAEMONS
from lab.runner import ONE_PAIR, REPO, THREE_DC, TWO_DC
from lab.topology import load_topology

DOCKERFILE = REPO / "lab" / "images" / "Dockerfile"
GUIDE = REPO / "docs" / "lab.md"
SUITE = "debian:bookworm-slim"
TOOLS_OF_THE_HOST = {"util-linux", "xz-utils"}
"""What the set-up installs for the host alone: the guest's boot and its kernel's archive."""
PACKAGE_OF = {"charon-systemd": "charon-systemd", "/usr/lib/frr": "frr"}
"""Which package brings a daemon's program."""


def instructions(text: str) -> list[tuple[str, str]]:
    """A Dockerfile as pairs of instruction and argument, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in joined.splitlines()]


def complaints(text: str, context: Path) -> list[str]:
    """What is wrong with a Dockerfile, whose build context is a folder."""
    found = []
    steps = instructions(text)
    names = [name for name, _ in steps]
    ignored = [line for line in (context / ".dockerignore").read_text().splitlines() if line[:1] not in {"", "#"}]
    if [argument for name, argument in steps if name == "FROM"] != [SUITE]:
        found.append(f"FROM is not {SUITE}")
    if "ADD" in names:
        found.append("ADD fetches and unpacks; COPY does not")
    for name, argument in steps:
        if name == "COPY":
            for source in argument.split()[:-1]:
                if not (context / source).exists():
                    found.append(f"COPY {source}: there is no such file")
                if source.split("/")[0] in ignored:
                    found.append(f"COPY {source}: .dockerignore leaves it out")
        if name == "RUN" and "apt-get install" in argument:
            if not argument.startswith("apt-get update"):
                found.append("apt-get install without an update in the same layer")
            if "--no-install-recommends" not in argument:
                found.append("apt-get install with recommended packages")
            if not argument.endswith("rm -rf /var/lib/apt/lists/*"):
                found.append("the package lists stay in the layer")
        if (
            name == "RUN"
            and "pip install" in argument
            and not ("--require-hashes" in argument or "--no-index" in argument)
        ):
            found.append("pip installs what no hash pins")
        if name == "RUN" and re.search(r"\b(curl|wget)\b", argument):
            found.append("something is fetched that nothing pins")
    if names.count("ENTRYPOINT") != 1:
        found.append("there is not exactly one ENTRYPOINT")
    return found


def packages(text: str) -> set[str]:
    """The Debian packages that a Dockerfile installs."""
    found: set[str] = set()
    for name, argument in instructions(text):
        if name == "RUN":
            for command in argument.split("&&"):
                if "apt-get install" in command:
                    found |= {word for word in command.split()[2:] if not word.startswith("-")}
    return found


def test_dockerfile_is_sound() -> None:
    """Pinned suite, nothing unpinned, no lists left, and all that is copied exists."""
    assert complaints(DOCKERFILE.read_text(), REPO) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("bookworm-slim", "latest", "FROM is not"),
        ("COPY templates", "COPY templatez", "COPY templatez: there is no such file"),
        ("COPY templates ./templates", "COPY docs ./docs", "COPY docs: .dockerignore leaves it out"),
        (" \\\n    && rm -rf /var/lib/apt/lists/*", "", "the package lists stay"),
        ("--no-install-recommends", "--yes", "recommended"),
        ("apt-get update \\\n    && ", "", "without an update"),
        ("--require-hashes", "--pre", "no hash pins"),
        ("ENTRYPOINT", "CMD", "not exactly one ENTRYPOINT"),
        ("WORKDIR", "ADD x y\nWORKDIR", "ADD fetches"),
        ("WORKDIR", "RUN wget x\nWORKDIR", "nothing pins"),
    ],
)
def test_unsound_dockerfile_is_found(old: str, new: str, complaint: str) -> None:
    """The lint can fail: every rule sees its own mistake."""
    text = DOCKERFILE.read_text()
    assert old in text
    assert any(complaint in found for found in complaints(text.replace(old, new, 1), REPO))


def test_image_has_the_packages_of_the_set_up() -> None:
    """What `make setup` installs for the nodes is in the image too, under the same names."""
    text = (REPO / "lab" / "setup" / "setup.sh").read_text()
    line = re.search(r"packages\.sh\" ((?:.*\\\n)*.*)\n", text)
    assert line is not None
    wanted = set(line[1].replace("\\\n", " ").split())
    assert "frr" in wanted
    assert wanted - TOOLS_OF_THE_HOST <= packages(DOCKERFILE.read_text())


def test_entrypoint_is_the_labs_own_first_process() -> None:
    """It runs this checkout's lab.container with the virtual environment that the image makes."""
    steps = dict(instructions(DOCKERFILE.read_text()))
    program, *arguments = json.loads(steps["ENTRYPOINT"])
    assert arguments == ["-m", lab.container.__name__]
    assert program == f"{steps['WORKDIR']}/.venv/bin/python"
    assert str(Path(program).parent) in steps["ENV"]


@pytest.mark.parametrize("name", sorted(DAEMONS))
def test_image_brings_the_program_of_every_daemon(name: str) -> None:
    """By one of its packages, or by a locked dependency or script of ours beside the Python that starts it."""
    program = Path(DAEMONS[name].argv[0])
    if program.parent == Path(sys.executable).parent:
        project = (REPO / "pyproject.toml").read_text()
        locked = (REPO / "requirements.lock").read_text()
        assert f'\n{program.name} = "' in project or f"\n{program.name}==" in locked
    else:
        package = PACKAGE_OF.get(str(program)) or PACKAGE_OF[str(program.parent)]
        assert package in packages(DOCKERFILE.read_text())


@pytest.mark.parametrize("path", [TWO_DC, THREE_DC, ONE_PAIR], ids=lambda path: path.name)
def test_topology_uses_the_image_and_names_what_runs(path: Path) -> None:
    """All nodes are of the image that the guide builds; gateways and leafs have their daemons, nobody else has any."""
    body = YAML(typ="safe").load(path.read_text())["topology"]
    tag = re.search(r"^docker build --tag (\S+)", GUIDE.read_text(), re.MULTILINE)
    assert tag is not None
    assert body["defaults"]["image"] == tag[1]
    assert not any("image" in node for node in body["nodes"].values())
    for node in load_topology(path).nodes:
        if node.role == "gateway":
            assert node.daemons[:3] == ("charon", "prober", "ikeorchd")
        elif node.name.startswith("leaf"):
            assert node.daemons == ("zebra", "bgpd")
        else:
            assert node.daemons == ()


def test_guide_names_only_what_there_is() -> None:
    """Containers are nodes of the topology, files exist, and the documented socket is the entrypoint's."""
    text = GUIDE.read_text()
    nodes = {node.name for node in load_topology(TWO_DC).nodes}
    named = set(re.findall(r"clab-two-dc-([a-z0-9-]+)", text))
    assert {"gw-a", "gw-b", "leaf-a", "host-a1"} <= named <= nodes
    paths = set(re.findall(r"\b(?:tests/)?lab/[a-z0-9./_-]+\.(?:py|yml|sh)\b|lab/images/Dockerfile", text))
    assert paths
    assert [path for path in sorted(paths) if not (REPO / path).exists()] == []
    assert lab.container.CONTROL in text
