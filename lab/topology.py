"""A topology file in containerlab's format, as values.

Only the part of the format is read that the published topologies use: nodes of kind linux with binds, exec, sysctls,
cmd and labels, and links between two endpoints. Anything else is refused, so that a topology cannot mean one thing here
and another under containerlab.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lab.control import LabError
from lab.daemons import DAEMONS

ROLE_LABEL = "ikeorch.role"
ROLES = ("gateway", "router", "host")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_INTERFACE = re.compile(r"eth[1-9][0-9]?")
_NODE_KEYS = {"kind", "image", "network-mode", "labels", "binds", "exec", "sysctls", "cmd"}
_PROGRAMS = {"ip", "tc"}


class TopologyError(LabError):
    """A topology file is wrong; the text says where and what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or folder beside the topology that a node sees.

    Attributes:
        source: Where it lies.
        target: Its absolute path in the node.
    """

    source: Path
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One node of a topology.

    Attributes:
        name: Its name and host name.
        role: gateway, router or host.
        binds: What it sees of the topology's folder.
        exec: Commands that are run in it once its links are there, without a shell.
        sysctls: Kernel settings by dotted name.
        daemons: Names of the daemons that run in it, in the order of their start: the words of `cmd`, which under
            containerlab the image's entrypoint (lab/container.py) gets.
    """

    name: str
    role: str
    binds: tuple[Bind, ...]
    exec: tuple[tuple[str, ...], ...]
    sysctls: tuple[tuple[str, str], ...]
    daemons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One end of a link: a node and its interface."""

    node: str
    interface: str

    def __str__(self) -> str:
        return f"{self.node}:{self.interface}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A whole topology.

    Attributes:
        name: The lab's name.
        path: The file that it was read from.
        nodes: Its nodes, in the file's order.
        links: Its links, each as two endpoints.
    """

    name: str
    path: Path
    nodes: tuple[NodeSpec, ...]
    links: tuple[tuple[Endpoint, Endpoint], ...]

    def node(self, name: str) -> NodeSpec:
        """Return a node.

        Raises:
            TopologyError: There is none of that name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise TopologyError(f"{self.name} has no node {name!r}; it has {', '.join(n.name for n in self.nodes)}")

    def interfaces(self, node: str) -> tuple[str, ...]:
        """Return the names of a node's interfaces, in the order of the links."""
        return tuple(end.interface for link in self.links for end in link if end.node == node)


def load_topology(path: Path) -> Topology:
    """Read a topology file.

    Args:
        path: The file.

    Returns:
        What it says.

    Raises:
        TopologyError: It cannot be read, or something in it is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from error
    return parse_topology(text, path)


def parse_topology(text: str, path: Path) -> Topology:
    """Read a topology from text.

    Args:
        text: YAML.
        path: The file that it comes from; binds are relative to its folder.

    Returns:
        What it says.

    Raises:
        TopologyError: Something in it is wrong.
    """
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise TopologyError(f"{path}: {error}") from error
    root = _mapping(data, path, "the file", {"name", "topology"})
    body = _mapping(root.get("topology"), path, "topology", {"defaults", "nodes", "links"})
    defaults = _mapping(body.get("defaults") or {}, path, "topology.defaults", _NODE_KEYS)
    nodes = tuple(
        _node(str(name), {**defaults, **_mapping(value or {}, path, f"node {name}", _NODE_KEYS)}, path)
        for name, value in _mapping(body.get("nodes"), path, "topology.nodes", None).items()
    )
    listed = body.get("links") or []
    if not isinstance(listed, list):
        raise TopologyError(f"{path}: topology.links: a list is needed")
    links = tuple(_link(value, path, {node.name for node in nodes}) for value in listed)
    for endpoint, count in Counter(end for link in links for end in link).items():
        if count > 1:
            raise TopologyError(f"{path}: {endpoint} is an end of {count} links")
    return Topology(name=str(root.get("name")), path=path, nodes=nodes, links=links)


def _mapping(value: object, path: Path, where: str, keys: set[str] | None) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TopologyError(f"{path}: {where}: a mapping is needed")
    unknown = sorted(str(key) for key in value if keys is not None and key not in keys)
    if unknown:
        raise TopologyError(f"{path}: {where}: the lab's runner does not know {', '.join(unknown)}")
    return {str(key): item for key, item in value.items()}


def _strings(value: object, path: Path, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TopologyError(f"{path}: {where}: a list of strings is needed")
    return value


def _node(name: str, body: dict[str, object], path: Path) -> NodeSpec:
    where = f"node {name}"
    if not _NAME.fullmatch(name):
        raise TopologyError(f"{path}: {where}: a name has lower-case letters, digits and hyphens")
    if body.get("kind") != "linux":
        raise TopologyError(f"{path}: {where}: kind must be linux")
    labels = _mapping(body.get("labels") or {}, path, f"{where}: labels", None)
    role = labels.get(ROLE_LABEL)
    if role not in ROLES:
        raise TopologyError(f"{path}: {where}: the label {ROLE_LABEL} must be one of {', '.join(ROLES)}")
    commands = tuple(tuple(shlex.split(line)) for line in _strings(body.get("exec") or [], path, f"{where}: exec"))
    for command in commands:
        if command[:1] == () or command[0] not in _PROGRAMS:
            raise TopologyError(f"{path}: {where}: exec takes commands of {' and '.join(sorted(_PROGRAMS))} only")
    daemons = tuple(shlex.split(str(body.get("cmd") or "")))
    if unknown := [daemon for daemon in daemons if daemon not in DAEMONS]:
        raise TopologyError(f"{path}: {where}: cmd: no such daemon: {', '.join(unknown)}; known: {', '.join(DAEMONS)}")
    sysctls = _mapping(body.get("sysctls") or {}, path, f"{where}: sysctls", None)
    return NodeSpec(
        name=name,
        role=str(role),
        binds=tuple(_bind(text, path, where) for text in _strings(body.get("binds") or [], path, f"{where}: binds")),
        exec=commands,
        sysctls=tuple((key, str(value)) for key, value in sysctls.items()),
        daemons=daemons,
    )


def _bind(text: str, path: Path, where: str) -> Bind:
    source, separator, target = text.partition(":")
    target = target.removesuffix(":ro")
    if not separator or not target.startswith("/") or ":" in target:
        raise TopologyError(f"{path}: {where}: bind {text!r} is not source:/absolute/target")
    place = (path.parent / source).resolve()
    if not place.exists():
        raise TopologyError(f"{path}: {where}: bind {text!r}: there is no {place}")
    return Bind(source=place, target=target)


def _link(value: object, path: Path, nodes: set[str]) -> tuple[Endpoint, Endpoint]:
    ends = _strings(_mapping(value, path, "link", {"endpoints"}).get("endpoints"), path, "link: endpoints")
    if len(ends) != 2:
        raise TopologyError(f"{path}: a link has two endpoints, not {len(ends)}")
    parsed = []
    for text in ends:
        node, _, interface = text.partition(":")
        if node not in nodes:
            raise TopologyError(f"{path}: link to {text}: there is no node {node!r}")
        if not _INTERFACE.fullmatch(interface):
            raise TopologyError(f"{path}: link to {text}: an interface is called eth1 to eth99")
        parsed.append(Endpoint(node=node, interface=interface))
    return parsed[0], parsed[1]
