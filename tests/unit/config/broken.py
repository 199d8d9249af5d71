"""A good configuration that uses every key, and broken ones made from it."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from ikeorch.config.problems import Location, path_text
from tests.examples import GATEWAY_A

GOOD = (
    GATEWAY_A.replace("schema_version: 1\n", "schema_version: 1\ninclude: [conf.d/*.yaml]\n")
    .replace("peers:\n", "suites: {fast: aes128gcm16-prfsha256-ecp256}\npeers:\n", 1)
    .replace("  credentials: {", "  vici_socket: /run/charon.vici\n  credentials: {")
    .replace(
        "    tunnels: {count: 4,",
        "    initiate: auto\n    accept: [10.2.0.0/16]\n    tunnels: {count: 4, mtu: 1400, suite: fast, "
        "dpd_delay: 10s, replay_window: 2048, mobike: no, "
        "identities: [{local: a0, remote: b0}, {local: a1, remote: b1}, {local: a2, remote: b2}, "
        "{local: a3, remote: b3}],",
    )
    + "fabric:\n  gateways_in_site: 1\n  when_unreachable: keep\n  bandwidth_scale: 1/8\n"
    "  neighbors: [{address: 10.0.0.254, asn: 65001, transitive: no}]\n"
)
OPTIONAL = {
    "include",
    "suites",
    "peers",
    "fabric",
    "prefixes",
    "vici_socket",
    "initiate",
    "accept",
    "tunnels",
    "transitive",
}
"""Keys below which a deletion leaves a good file; everything in ``tunnels`` and ``fabric`` too."""
WRONG: dict[str, object] = {
    "a section": {"x": 1},
    "nested lists": [[["y"]]],
    "a huge number": 10**30,
    "NUL": "\0",
    "a tab": "\t",
    "a word": "\N{SNOWMAN} no such thing",
    "a negative number": -7,
    "a fraction": 0.25,
}


PLACED = {
    "an impossible date",
    "a number of 5000 digits",
    "a NUL byte",
    "deep brackets",
    "deep dashes",
    "a recursive alias",
}
"""Faults that the parser itself does not place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A configuration that must be refused.

    Attributes:
        name: how it was broken.
        text: the file.
        line: where the complaint must be, or one below; 0 if any line will do.
    """

    name: str
    text: str
    line: int = 0


def load(text: str) -> Any:
    """Text as plain data."""
    return YAML(typ="safe", pure=True).load(text)


def dump(tree: Any) -> str:
    """Plain data as text, in block style throughout."""
    buffer = io.StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    yaml.width = 4096
    yaml.dump(tree, buffer)
    return buffer.getvalue()


def all_broken() -> Iterator[Broken]:
    """Hundreds of them, always the same ones."""
    yield from wrong_values()
    yield from deleted_keys()
    yield from unknown_keys()
    yield from broken_lines()
    yield from cut_short()


def _locations(node: Any, location: Location = ()) -> Iterator[Location]:
    """Every place; of a list its first entry stands for all."""
    if location:
        yield location
    entries = node.items() if isinstance(node, dict) else enumerate(node[:1]) if isinstance(node, list) else ()
    for key, value in entries:
        yield from _locations(value, (*location, key))


def _parent(tree: Any, location: Location) -> Any:
    for part in location[:-1]:
        tree = tree[part]
    return tree


def wrong_values() -> Iterator[Broken]:
    """Every value of the file, sections too, replaced by what it cannot be; neighbours get different halves of it."""
    tree = load(GOOD)
    for number, location in enumerate(_locations(tree)):
        for name, value in list(WRONG.items())[number % 2 :: 2]:
            if name == "a word" and location[0] == "include":
                continue  # any word may be a pattern
            changed = copy.deepcopy(tree)
            _parent(changed, location)[location[-1]] = copy.deepcopy(value)
            yield Broken(name=f"{path_text(location)} is {name}", text=dump(changed), line=tree_line(changed, location))


def tree_line(tree: Any, location: Location) -> int:
    """The line on which a value will stand."""
    again = YAML(typ="rt", pure=True).load(dump(tree))
    parent = _parent(again, location)
    where = parent.lc.key(location[-1]) if isinstance(parent, CommentedMap) else parent.lc.item(location[-1])
    return int(where[0]) + 1


def deleted_keys() -> Iterator[Broken]:
    """Every required key taken away."""
    tree = load(GOOD)
    for location in _locations(tree):
        key = location[-1]
        optional = key in OPTIONAL or location[0] == "fabric" or "tunnels" in location or location[0] == "suites"
        if isinstance(key, str) and (not optional or (location[-3:-2] == ("neighbors",) and key != "transitive")):
            changed = copy.deepcopy(tree)
            del _parent(changed, location)[key]
            yield Broken(name=f"{path_text(location)} deleted", text=dump(changed))


def unknown_keys() -> Iterator[Broken]:
    """In every section one key that nobody knows."""
    tree = load(GOOD)
    sections: list[Location] = [(), *_locations(tree)]
    for location in sections:
        changed = copy.deepcopy(tree)
        node = changed
        for part in location:
            node = node[part]
        if isinstance(node, dict) and location != ("suites",):
            node["no-such-key"] = 1
            name = path_text(location) or "the file"
            line = tree_line(changed, (*location, "no-such-key"))
            yield Broken(
                name=f"{name} has an unknown key",
                text=dump(changed),
                line=line,
            )


def broken_lines() -> Iterator[Broken]:
    """Every line of the file twice, and every indented one with a tab; a few classics of YAML."""
    lines = dump(load(GOOD)).splitlines()
    for at, line in enumerate(lines):
        key = line.strip().removeprefix("- ")
        if ": " in key or key.endswith(":"):
            indent = " " * (len(line) - len(key))
            doubled = [*lines[: at + 1], f"{indent}{key.partition(':')[0]}: 1", *lines[at + 1 :]]
            yield Broken(name=f"line {at + 1} twice", text="\n".join(doubled) + "\n")
        if line.startswith(" "):
            tabbed = [*lines[:at], "\t" + line.lstrip(), *lines[at + 1 :]]
            yield Broken(name=f"line {at + 1} with a tab", text="\n".join(tabbed) + "\n")
    for name, old, new in (
        ("a bare tab", "gateway:", "gateway:\n\t"),
        ("an unknown alias", "site: dc-a", "site: *nothing"),
        ("an unknown tag", "site: dc-a", "site: !python/object:x [1]"),
        ("an open quote", "site: dc-a", 'site: "dc-a'),
        ("an open bracket", "[10.2.0.0/16, ", "[[10.2.0.0/16, "),
        ("a colon too many", "site: dc-a", "site: dc: a"),
        ("an impossible date", "site: dc-a", "site: 2001-99-99"),
        ("a number of 5000 digits", "count: 4", f"count: {'9' * 5000}"),
        ("a NUL byte", "site: dc-a", "site: dc\0a"),
        ("deep brackets", "site: dc-a", f"site: {'[' * 3000}"),
        ("deep dashes", "site: dc-a", f"site:\n    {'- ' * 3000}x"),
        ("deep question marks", "site: dc-a", f"site:\n    {'? ' * 3000}x"),
        ("deep indents", "site: dc-a", "site:\n" + "\n".join(f"{' ' * (4 + at)}k:" for at in range(2000))),
        ("deep but short", "site: dc-a", f"site: {'[' * 20}{']' * 20}"),
        ("a recursive alias", "site: dc-a", "site: &a [*a]"),
        ("swapped units", "rekey_time: 4h", "rekey_time: 4G"),
        ("a unit of another kind", "capacity: 50G", "capacity: 50s"),
        ("an unknown unit", "capacity: 50G", "capacity: 50Q"),
        ("a bare zero", "rekey_time: 4h", "rekey_time: 0"),
        ("a rekey time too short", "rekey_time: 4h", "rekey_time: 9s"),
        ("a rekey time too long", "rekey_time: 4h", "rekey_time: 400d"),
        ("a delay below a second", "dpd_delay: 10s", "dpd_delay: 300ms"),
        ("an address with a zone", "198.51.101.1", '"2001:db8::1%eth0"'),
        ("a prefix without length", "[10.2.0.0/16, ", "[10.2.0.1, "),
        ("a prefix with a netmask", "[10.2.0.0/16, ", "[10.2.0.0/255.255.0.0, "),
        ("a prefix too long", "[10.2.0.0/16, ", "[10.2.0.0/33, "),
        ("a prefix of multicast", "[10.2.0.0/16, ", "[224.0.0.0/8, "),
        ("a prefix of loopback", "[10.2.0.0/16, ", "[127.0.0.0/8, "),
        ("a prefix twice", "[10.2.0.0/16, ", "[10.2.0.0/16, 10.2.0.0/16, "),
        ("the network's own address", "192.0.2.1/24", "192.0.2.0/24"),
        ("the broadcast address", "192.0.2.1/24", "192.0.2.255/24"),
        ("an interface of ours", "interface: eth1", "interface: ikx7"),
        ("no router id", "router_id: 10.0.255.1", "router_id: 0.0.0.0"),
        ("a router id of IPv6", "router_id: 10.0.255.1", 'router_id: "::1"'),
        ("an include that leads upwards", "conf.d/*.yaml", "../*.yaml"),
        ("an absolute include", "conf.d/*.yaml", "/etc/passwd"),
        ("a newer version", "schema_version: 1", "schema_version: 2"),
        ("an older version", "schema_version: 1", "schema_version: 0"),
        ("yes as a version", "schema_version: 1", "schema_version: true"),
        ("two documents", "peers:", "---\npeers:"),
    ):
        assert old in GOOD, old
        place = GOOD[: GOOD.index(old)].count("\n") + 1 if name in PLACED else 0
        yield Broken(name=name, text=GOOD.replace(old, new, 1), line=place)


def cut_short() -> Iterator[Broken]:
    """The file ends in the middle of each of the lines that open something."""
    for at, character in enumerate(GOOD):
        if character in "{[" and GOOD[: at + 1].count("#") == 0:
            yield Broken(name=f"cut at {at}", text=GOOD[: at + 1])
