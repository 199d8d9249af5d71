"""The guard as nft's text, and nft's listing as the guard."""

from __future__ import annotations

import json
from ipaddress import ip_network

import pytest

from ikeorch.adapters.kernel.guard import SETS, parse_sets, render_elements, template
from ikeorch.core.kernel_state import Guard, GuardPeer
from ikeorch.errors import KernelError

GUARD = Guard(
    uplinks=("eth1", "eth2.100"),
    tunnels=(GuardPeer(interface="ikx0", sources=(ip_network("10.2.0.0/16"), ip_network("fd02::/32"))),),
    prefixes=(ip_network("10.1.0.0/16"),),
)


def test_an_empty_guard_empties_every_set() -> None:
    """Nothing is left of the last one."""
    assert render_elements(Guard()).splitlines() == [f"flush set inet ikeorch {name}" for name in SETS]


def test_members_are_added_in_the_same_transaction() -> None:
    """After the flush, set by set."""
    lines = render_elements(GUARD).splitlines()[len(SETS) :]
    assert lines == [
        'add element inet ikeorch uplinks { "eth1", "eth2.100" }',
        'add element inet ikeorch tunnels { "ikx0" }',
        'add element inet ikeorch sources4 { "ikx0" . 10.2.0.0/16 }',
        'add element inet ikeorch sources6 { "ikx0" . fd02::/32 }',
        "add element inet ikeorch prefixes4 { 10.1.0.0/16 }",
    ]


@pytest.mark.parametrize(
    "name", ["", 'a" }; flush ruleset; add element x { "b', "a b", "a\n", "x" * 16, "-", "a;b", "a*", "ä0", "../x"]
)
def test_no_name_carries_a_command_into_nft(name: str) -> None:
    """nft would run it."""
    for guard in (Guard(uplinks=(name,)), Guard(tunnels=(GuardPeer(interface=name, sources=()),))):
        with pytest.raises(KernelError, match="device name"):
            render_elements(guard)


def listing(**members: object) -> str:
    """What ``nft -j list table`` prints of our sets."""
    sets = [{"set": {"name": name, **({"elem": members[name]} if name in members else {})}} for name in SETS]
    return json.dumps({"nftables": [{"metainfo": {}}, {"table": {"name": "ikeorch"}}, *sets, {"rule": {}}]})


def test_every_shape_of_an_element_is_read() -> None:
    """One address, a prefix, a range; concatenated with a device."""
    text = listing(
        uplinks=["eth2", "eth1"],
        tunnels=["ikx1", "ikx0"],
        sources4=[
            {"concat": ["ikx0", {"prefix": {"addr": "10.2.0.0", "len": 16}}]},
            {"concat": ["ikx0", "10.3.0.1"]},
            {"concat": ["ikx0", {"range": ["10.4.0.0", "10.5.255.255"]}]},
        ],
        prefixes6=[{"prefix": {"addr": "fd01::", "len": 32}}, {"range": ["fd09::", "fd09::3"]}],
    )
    sources = tuple(ip_network(net) for net in ("10.2.0.0/16", "10.3.0.1/32", "10.4.0.0/15"))
    assert parse_sets(text) == Guard(
        uplinks=("eth1", "eth2"),
        tunnels=(GuardPeer(interface="ikx0", sources=sources), GuardPeer(interface="ikx1", sources=())),
        prefixes=(ip_network("fd01::/32"), ip_network("fd09::/126")),
    )


def test_a_table_without_one_of_our_sets_is_no_guard() -> None:
    """It is made anew."""
    assert parse_sets(json.dumps({"nftables": [{"table": {"name": "ikeorch"}}]})) is None


def test_a_set_with_a_name_that_we_never_write_is_no_guard() -> None:
    """Somebody filled it by hand; it is made anew, and the name is not given back to nft."""
    assert parse_sets(listing(uplinks=["eth0"])) is not None
    assert parse_sets(listing(uplinks=["eth0", "a b"])) is None
    assert parse_sets(listing(tunnels=["ikx0*"])) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"nftables": [{"set": {}}]}', listing(sources4=["ikx0"]), listing(prefixes4=[{"a": 1}])]
)
def test_a_listing_that_cannot_be_read_is_our_error(text: str) -> None:
    """Never a foreign one, and never an empty guard."""
    with pytest.raises(KernelError, match="cannot be read"):
        parse_sets(text)


def test_the_template_holds_every_set_empty() -> None:
    """At boot nothing passes; and the table is made anew in one transaction."""
    text = template()
    for name in SETS:
        assert f"set {name} {{" in text
    assert "elements" not in text
    assert text.index("delete table inet ikeorch") < text.index("table inet ikeorch {")
