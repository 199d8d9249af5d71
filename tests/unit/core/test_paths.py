"""Both ends compute the same underlay paths, inner addresses and identities."""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ikeorch.config.block import render_peer_block
from ikeorch.config.edit import add_peer
from ikeorch.config.loader import load_config
from ikeorch.core.paths import inner_addresses, tunnel_identities, underlay_paths
from ikeorch.core.spec import GatewaySpec
from tests.examples import GATEWAY_A, GATEWAY_B, gateway_a


def both_ends(text_a: str = GATEWAY_A) -> tuple[GatewaySpec, GatewaySpec]:
    """A's configuration, and B's made from the block that A prints."""
    a = load_config(text_a, "a").spec
    text, _ = add_peer(GATEWAY_B, render_peer_block(a, a.peers[0]), "b", "block")
    return a, load_config(text, "b").spec


def test_tunnels_take_the_uplinks_in_turn() -> None:
    """0 and 2 run over isp1, 1 and 3 over isp2."""
    a = gateway_a()
    assert [path.uplink for path in underlay_paths(a, a.peers[0])] == ["isp1", "isp2", "isp1", "isp2"]


def test_both_ends_agree_on_every_path() -> None:
    """B lists its uplinks in the other order; the paths are each other's mirror all the same."""
    a, b = both_ends()
    mirrored = [(path.remote, path.local) for path in underlay_paths(b, b.peers[0])]
    assert mirrored == [(path.local, path.remote) for path in underlay_paths(a, a.peers[0])]


def test_several_addresses_give_different_pairs() -> None:
    """With two addresses on each end of each uplink, eight tunnels have eight different outer tuples."""
    text = GATEWAY_A.replace("[192.0.2.1/24]", "[192.0.2.1/24, 192.0.2.2/24]")
    text = text.replace("[203.0.113.1/24]", "[203.0.113.1/24, 203.0.113.2/24]").replace("count: 4", "count: 8")
    text = text.replace("[198.51.100.1]", "[198.51.100.1, 198.51.100.2]").replace(
        "[198.51.101.1]", "[198.51.101.1, 198.51.101.2]"
    )
    a = load_config(text, "a").spec
    pairs = [(path.local, path.remote) for path in underlay_paths(a, a.peers[0])]
    assert len(set(pairs)) == 8
    assert len({local for local, _ in pairs[:4]}) == 4


ADDRESSES = {"a": {4: "192.0.2.{}/24", 6: "2001:db8:1::{}/64"}, "b": {4: "198.51.100.{}", 6: "2001:db8:2::{}"}}


def one_uplink(ours: dict[int, int], theirs: dict[int, int], count: int) -> str:
    """Gateway A with one uplink and so many addresses of each family on its ends."""
    near = ", ".join(f'"{ADDRESSES["a"][v].format(n)}"' for v, many in ours.items() for n in range(1, many + 1))
    far = ", ".join(f'"{ADDRESSES["b"][v].format(n)}"' for v, many in theirs.items() for n in range(1, many + 1))
    gateways = {4: "192.0.2.254", 6: '"fe80::1"'}
    text = GATEWAY_A.replace("[192.0.2.1/24]", f"[{near}]").replace(
        "gateway: 192.0.2.254", f"gateway: [{', '.join(gateways[v] for v in ours)}]"
    )
    text = "".join(line for line in text.splitlines(keepends=True) if "eth2" not in line)
    text = text.replace("[198.51.100.1]}, {name: isp2, addresses: [198.51.101.1]", f"[{far}]")
    text = text.replace("10.255.1.0/27", "10.255.1.0/24").replace("fd00:1::/123", "fd00:1::/119")
    return text.replace("count: 4", f"count: {count}")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({4: 2}, {4: 4}),
        ({4: 4}, {4: 2}),
        ({4: 3}, {4: 2}),
        ({4: 1}, {4: 5}),
        ({4: 6}, {4: 4}),
        ({6: 2}, {6: 4}),
        ({6: 3}, {6: 3}),
        ({4: 2, 6: 2}, {4: 2, 6: 2}),
        ({4: 2, 6: 3}, {6: 2}),
    ],
)
def test_all_pairs_are_used_before_one_is_used_again(ours: dict[int, int], theirs: dict[int, int]) -> None:
    """The first round takes every address of the longer side once; both ends agree; then it begins anew."""
    count = sum(ours[version] * theirs[version] for version in ours if version in theirs)
    spec = load_config(one_uplink(ours, theirs, count + 1), "a").spec
    paths = underlay_paths(spec, spec.peers[0])
    pairs = [(path.local, path.remote) for path in paths]
    assert len(set(pairs)) == count
    assert pairs[count] == pairs[0]
    version = next(version for version in ours if version in theirs)
    first = pairs[: max(ours[version], theirs[version])]
    assert len({local for local, _ in first}) == ours[version]
    assert len({remote for _, remote in first}) == theirs[version]
    assert all(local.version == remote.version for local, remote in pairs)


ENDS = st.fixed_dictionaries({4: st.integers(0, 3), 6: st.integers(0, 3)})


@given(ENDS, ENDS, st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_outer_tuples_differ_as_far_as_they_can_and_else_a_warning_says_so(
    ours: dict[int, int], theirs: dict[int, int], count: int
) -> None:
    """Any mix of families: every pair is used before one is used again; only then a warning names the tunnels."""
    ours, theirs = ({version: many for version, many in end.items() if many} for end in (ours, theirs))
    possible = sum(many * theirs.get(version, 0) for version, many in ours.items())
    assume(possible)
    loaded = load_config(one_uplink(ours, theirs, count), "a")
    paths = underlay_paths(loaded.spec, loaded.spec.peers[0])
    assert len({(path.local, path.remote) for path in paths}) == min(count, possible)
    shared = [warning.reason for warning in loaded.warnings if "address pairs" in warning.reason]
    assert [reason.partition(" (")[0] for reason in shared] == (
        [f"{count} tunnels share {possible} address pairs"] if count > possible else []
    )
    assert all(f"(0 and {possible}" in reason or f"(0, {possible}" in reason for reason in shared)


def test_both_ends_agree_on_uneven_pairs() -> None:
    """Two addresses here, three there: the paths are each other's mirror, over IPv6 too."""
    a = load_config(one_uplink({4: 2, 6: 2}, {4: 3, 6: 3}, 12), "a").spec
    text, _ = add_peer(GATEWAY_B, render_peer_block(a, a.peers[0]), "b", "block")
    theirs = ", ".join(f'"{address}"' for address in a.peers[0].uplinks[0].addresses)
    for address in a.peers[0].uplinks[0].addresses:
        theirs = theirs.replace(f'"{address}"', f'"{address}/{24 if address.version == 4 else 64}"')
    text = text.replace(
        "[198.51.100.1/24], gateway: 198.51.100.254", f'[{theirs}], gateway: [198.51.100.254, "fe80::1"]'
    )
    b = load_config(text, "b").spec
    mirrored = [(path.remote, path.local) for path in underlay_paths(b, b.peers[0])]
    assert mirrored == [(path.local, path.remote) for path in underlay_paths(a, a.peers[0])]
    assert {local.version for local, _ in mirrored} == {4, 6}


def test_several_uplinks_take_their_own_pairs_in_turn() -> None:
    """Tunnel i takes uplink i mod n; each uplink counts its own pairs."""
    text = GATEWAY_A.replace("[198.51.100.1]", "[198.51.100.1, 198.51.100.2, 198.51.100.3]").replace(
        "count: 4", "count: 6"
    )
    a = load_config(text, "a").spec
    assert [str(path.remote) for path in underlay_paths(a, a.peers[0])] == [
        "198.51.100.1",
        "198.51.101.1",
        "198.51.100.2",
        "198.51.101.1",
        "198.51.100.3",
        "198.51.101.1",
    ]


def test_inner_addresses_are_the_two_ends_of_a_small_network() -> None:
    """Tunnel 1 has the second /31 and /127; the lower name has the even address."""
    a, b = both_ends()
    ours = inner_addresses(a, a.peers[0], 1)
    theirs = inner_addresses(b, b.peers[0], 1)
    assert [pair.local for pair in ours] == [ip_interface("10.255.1.2/31"), ip_interface("fd00:1::2/127")]
    assert [pair.remote for pair in ours] == [ip_address("10.255.1.3"), ip_address("fd00:1::3")]
    assert [pair.local.ip for pair in theirs] == [pair.remote for pair in ours]


def test_a_tunnel_beyond_the_inner_network_is_an_error() -> None:
    """A /27 holds sixteen /31."""
    a = gateway_a()
    assert len(inner_addresses(a, a.peers[0], 15)) == 2
    with pytest.raises(IndexError):
        inner_addresses(a, a.peers[0], 16)


def test_each_tunnel_has_its_own_identity_pair() -> None:
    """A responder tells tunnels apart by identities alone (D1)."""
    a, b = both_ends()
    pairs = [tunnel_identities(a, a.peers[0], index) for index in range(4)]
    assert pairs[2] == ("t2.gw-a.dc.example", "t2.gw-b.dc.example")
    assert len(set(pairs)) == 4
    assert [tunnel_identities(b, b.peers[0], index)[::-1] for index in range(4)] == pairs


def test_exactly_one_end_initiates() -> None:
    """The lower name, unless it is set; the printed block mirrors it."""
    for setting, expected in (("auto", True), ("us", True), ("peer", False)):
        a, b = both_ends(GATEWAY_A.replace("    inner:", f"    initiate: {setting}\n    inner:"))
        assert a.initiates(a.peers[0]) is expected
        assert b.initiates(b.peers[0]) is not expected
