"""Look at a gateway from outside the daemon: ``ip -j``, raw VICI, counters of our own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import vici

from lab.node import Node

COUNTING_TABLE = "lab_count"


@dataclass(frozen=True, slots=True)
class Interface:
    """An XFRM interface, as ``ip -j -d`` shows it."""

    name: str
    if_id: int
    alias: str
    inner: str


def xfrm_interfaces(node: Node) -> dict[str, Interface]:
    """All XFRM interfaces by tunnel name (the alias without its prefix)."""
    found = {}
    for entry in node.json(["ip", "-j", "-d", "address", "show", "type", "xfrm"]):
        inner = [address["local"] for address in entry["addr_info"] if address["family"] == "inet"]
        interface = Interface(
            name=entry["ifname"],
            if_id=int(str(entry["linkinfo"]["info_data"]["if_id"]), 0),
            alias=entry.get("ifalias", ""),
            inner=inner[0] if inner else "",
        )
        found[interface.alias.removeprefix("ikeorch:")] = interface
    return found


def groups(node: Node) -> list[Any]:
    """All next-hop groups."""
    return [entry for entry in node.json(["ip", "-j", "-d", "nexthop", "show"]) if "group" in entry]


def group_of(node: Node, prefix: str) -> Any:  # noqa: ANN401 - ip's JSON
    """The next-hop group that the route of a prefix names, None without one."""
    family = "-6" if ":" in prefix else "-4"
    for route in node.json(["ip", "-j", "-d", family, "route", "show", prefix]):
        if "nhid" in route:
            return next((entry for entry in groups(node) if entry["id"] == route["nhid"]), None)
    return None


@contextlib.contextmanager
def vici_session(node: Node) -> Iterator[vici.Session]:
    """A conversation with the node's charon, by the library that the daemon's transport does not use."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(10)
        sock.connect(str(node.path("/run/charon.vici")))
        yield vici.Session(sock)


def list_sas(node: Node) -> list[tuple[str, Any]]:
    """Charon's IKE_SAs by raw VICI: (name, section)."""
    with vici_session(node) as session:
        return [(name, section) for message in session.list_sas() for name, section in message.items()]


def end_sas(node: Node) -> None:
    """Somebody ends every IKE_SA of the node's charon, which tells its peer."""
    with vici_session(node) as session:
        numbers = [section["uniqueid"].decode() for message in session.list_sas() for section in message.values()]
        for number in numbers:
            list(session.terminate({"ike-id": number}))


@dataclass(frozen=True, slots=True)
class Child:
    """A CHILD_SA as raw VICI tells it."""

    tunnel: str
    state: str
    if_id: int
    spi_in: str
    spi_out: str


def children(node: Node) -> list[Child]:
    """All CHILD_SAs."""
    found = []
    for _, section in list_sas(node):
        for child in section.get("child-sas", {}).values():
            found.append(
                Child(
                    tunnel=child["name"].decode(),
                    state=child["state"].decode(),
                    if_id=int(child["if-id-in"], 16),
                    spi_in=child["spi-in"].decode(),
                    spi_out=child["spi-out"].decode(),
                )
            )
    return sorted(found, key=lambda child: child.tunnel)


def count_flows(node: Node, interfaces: list[str]) -> None:
    """Count the TCP handshakes that enter and leave by each interface, in a table of our own."""
    rules = []
    counters = []
    for name in interfaces:
        counters += [f"counter out_{name} {{ }}", f"counter in_{name} {{ }}"]
        rules += [
            f'oifname "{name}" tcp flags & (syn | ack) == syn counter name out_{name}',
            f'iifname "{name}" tcp flags & (syn | ack) == (syn | ack) counter name in_{name}',
        ]
    head = (f"table inet {COUNTING_TABLE} {{", *counters, "chain forward {", "type filter hook forward priority 10;")
    text = "\n".join((*head, *rules, "}", "}"))
    node.run(["nft", "-f", "-"], input=text)


def counters(node: Node, table: str) -> dict[str, int]:
    """Packets of every named counter of an inet table."""
    listing = node.json(["nft", "-j", "list", "counters", "table", "inet", table])
    return {
        entry["counter"]["name"]: entry["counter"]["packets"] for entry in listing["nftables"] if "counter" in entry
    }


def counted_flows(node: Node) -> dict[str, int]:
    """The counters of `count_flows`, by name."""
    return counters(node, COUNTING_TABLE)


def stop_counting(node: Node) -> None:
    """Remove the counting table."""
    node.run(["nft", "delete", "table", "inet", COUNTING_TABLE])


def guard_drops(node: Node) -> dict[str, int]:
    """Packets that the guard dropped, by its counters' names."""
    return counters(node, "ikeorch")
