"""Edits change what they must and nothing else: comments, order and quotes stay."""

from __future__ import annotations

import difflib

import pytest

from ikeorch.config.block import render_peer_block
from ikeorch.config.edit import add_peer, remove_peer, set_tunnel_count
from ikeorch.config.loader import load_config
from ikeorch.config.problems import InvalidConfigError
from ikeorch.errors import UsageError
from tests.examples import GATEWAY_A, GATEWAY_B, gateway_a


def changes(before: str, after: str) -> list[str]:
    """The lines that differ, with - and +."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[:3] not in {"---", "+++"} and not line.startswith("@@")]


def test_a_count_changes_one_line() -> None:
    """The comment above the peer and all formatting stay."""
    assert changes(GATEWAY_A, set_tunnel_count(GATEWAY_A, "gw-b", 6, "a")) == [
        "-    tunnels: {count: 4, capacity: 50G, rekey_time: 4h}",
        "+    tunnels: {count: 6, capacity: 50G, rekey_time: 4h}",
    ]


def test_the_same_count_changes_nothing() -> None:
    """Not a byte, so that the command can say "unchanged"."""
    assert set_tunnel_count(GATEWAY_A, "gw-b", 4, "a") == GATEWAY_A


def test_a_peer_without_tunnels_section_gets_one() -> None:
    """It is written where it belongs."""
    text = GATEWAY_A.replace("    tunnels: {count: 4, capacity: 50G, rekey_time: 4h}\n", "")
    after = set_tunnel_count(text, "gw-b", 4, "a")
    assert changes(text, after) == ["+    tunnels: {count: 4}"]
    assert load_config(after, "a").spec.peers[0].tunnels.count == 4


def test_an_unknown_peer_is_a_usage_error() -> None:
    """The message names the known ones."""
    with pytest.raises(UsageError, match="there is no peer 'gw-x'; configured peers: gw-b"):
        set_tunnel_count(GATEWAY_A, "gw-x", 4, "a")


def test_the_printed_block_makes_a_valid_peer() -> None:
    """What A prints, B takes: the same tunnels from the other side."""
    text, name = add_peer(GATEWAY_B, render_peer_block(gateway_a(), gateway_a().peers[0]), "b", "block")
    spec = load_config(text, "b").spec
    assert name == "gw-a"
    assert spec.peers[0].tunnels == gateway_a().peers[0].tunnels
    assert [str(prefix) for prefix in spec.peers[0].prefixes] == ["10.1.0.0/16", "fd00:a::/48"]
    assert text.startswith(GATEWAY_B.removesuffix("peers: []\n"))


def test_adding_the_same_block_again_changes_nothing() -> None:
    """The command can be run twice."""
    block = render_peer_block(gateway_a(), gateway_a().peers[0])
    text, _ = add_peer(GATEWAY_B, block, "b", "block")
    assert add_peer(text, block, "b", "block") == (text, "gw-a")


def test_another_block_of_that_name_is_refused() -> None:
    """It says where the present one stands."""
    block = render_peer_block(gateway_a(), gateway_a().peers[0])
    text, _ = add_peer(GATEWAY_B, block, "b", "block")
    with pytest.raises(UsageError, match=r"b:\d+: another peer 'gw-a' is configured already"):
        add_peer(text, block.replace("65010", "65011"), "b", "block")


@pytest.mark.parametrize(
    "block", ["", "3", "- 1\n", "peers: []\n", "x: [\n", "peers: [{name: a}, {name: b}]", "a: 1\n"]
)
def test_what_is_no_block_is_refused(block: str) -> None:
    """With what is expected instead."""
    with pytest.raises(InvalidConfigError):
        add_peer(GATEWAY_B, block, "b", "block")


@pytest.mark.parametrize("form", ["{}", "- {}", "peers:\n  - {}"])
def test_a_block_may_come_as_mapping_list_or_section(form: str) -> None:
    """People cut and paste."""
    block = form.format("{name: gw-x, site: dc-x}")
    assert add_peer(GATEWAY_B, block, "b", "block")[1] == "gw-x"


@pytest.mark.parametrize("tail", ["", "fabric:\n  gateways_in_site: 2\n"])
def test_a_removed_peer_leaves_the_rest_as_it_was(tail: str) -> None:
    """The file stays valid, with an empty list, whatever follows and though a comment stood above the peer."""
    after = remove_peer(GATEWAY_A + tail, "gw-b", "a")
    assert load_config(after, "a").spec.peers == ()
    assert load_config(after, "a").spec.fabric == load_config(GATEWAY_A + tail, "a").spec.fabric
    assert GATEWAY_A.startswith(after[: after.index("peers:")])
