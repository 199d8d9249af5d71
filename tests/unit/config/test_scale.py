"""Large files: checking and planning cost what is in them, not its square. Calls are counted, so no clock decides."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeorch.cli.main import run
from ikeorch.config.check import find_conflicts
from ikeorch.config.loader import load_config
from ikeorch.config.overlap import overlap_finder, overlapping_inner, overlapping_sites, overlaps, routing_loops
from ikeorch.config.warn import find_warnings
from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.health import Verdict
from ikeorch.core.kernel_state import IPNetwork, KernelState
from ikeorch.core.planner import plan_changes
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import Seconds
from ikeorch.daemon.views import plan_view
from tests.examples import CREDENTIALS, gateway_a, world_of


def large(peers: int, tunnels: int, *, prefixes: int = 1, addresses: int = 16) -> str:
    """A file with so many peers, tunnels a peer, prefixes a peer, and addresses an uplink."""
    hosts = range(1, addresses + 1)
    lines = ["schema_version: 1", "gateway:"]
    lines += ["  {name: gw-a, site: dc-a, identity: gw-a.example, asn: 65010, router_id: 10.0.255.1, uplinks: ["]
    for uplink in (1, 2):
        own = ", ".join(f"192.0.{uplink}.{host}/24" for host in hosts)
        lines += [f"    {{name: isp{uplink}, interface: eth{uplink}, addresses: [{own}], gateway: 192.0.{uplink}.254,"]
        lines += ["     capacity: 100G},"]
    lines += ["  ], prefixes: [10.1.0.0/16], credentials: {certificate: /c.pem, key: /k.pem, ca: /ca.pem}}"]
    lines += ["fabric: {neighbors: [{address: 10.0.0.254, asn: 65001}], bandwidth_scale: 1/4000}", "peers:"]
    for peer in range(peers):
        uplinks = ", ".join(
            f"{{name: isp{uplink}, addresses: [{', '.join(f'100.{63 + uplink}.{peer}.{host}' for host in hosts)}]}}"
            for uplink in (1, 2)
        )
        behind = ", ".join(f"11.{peer}.{number // 8}.{number % 8 * 32}/27" for number in range(prefixes))
        lines += [f"  - {{name: gw-p{peer}, site: dc-{peer}, identity: gw-p{peer}.example, asn: 65020,"]
        lines += [f"     uplinks: [{uplinks}], inner: [10.{200 + peer // 128}.{peer % 128 * 2}.0/23],"]
        lines += [f"     prefixes: [{behind}], tunnels: {{count: {tunnels}, capacity: 1G}}}}"]
    return "\n".join(lines) + "\n"


def settled(spec: GatewaySpec) -> Actual:
    """The world as a configuration wants it."""
    verdicts = {tunnel: Verdict.UP for peer in spec.peers for tunnel in peer.tunnel_ids}
    desired = plan_changes(spec, world_of(spec, verdicts=verdicts)).desired
    assert desired.connections is not None
    sas = tuple(
        IkeSa(
            connection=name,
            unique_id=number,
            state=IkeState.ESTABLISHED,
            age=Seconds(100),
            children=(ChildSa(name=name, unique_id=number, state=ChildState.INSTALLED),),
        )
        for number, name in enumerate(desired.connections)
    )
    charon = CharonState(
        version="5.9.8",
        started="1",
        connections=frozenset(desired.connections),
        loaded=desired.connections,
        authorities=frozenset({CREDENTIALS.ca_id}),
        keys=frozenset({CREDENTIALS.key_id}),
        sas=sas,
    )
    return Actual(kernel=KernelState(objects=desired.kernel), charon=charon)


def calls(work: Callable[[], object]) -> int:
    """How many functions of Python a piece of work calls, resumed generators included."""
    count = 0

    def tick(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(tick)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def check_and_plan(text: str) -> Callable[[], None]:
    """Check a file, plan it from nothing, in the settled world with another rekey time, and away again."""
    spec = load_config(text, "large.yaml").spec
    actual = settled(spec)
    other = replace(
        spec,
        peers=tuple(replace(peer, tunnels=replace(peer.tunnels, rekey_time=Seconds(60.0))) for peer in spec.peers),
    )
    verdicts = {tunnel: Verdict.UP for peer in spec.peers for tunnel in peer.tunnel_ids}

    def work() -> None:
        assert list(find_conflicts(spec)) == []
        assert len(list(find_warnings(spec))) <= len(spec.peers)
        for wanted in (spec, other, replace(spec, peers=())):
            planned = plan_changes(wanted, replace(world_of(spec, verdicts=verdicts), actual=actual))
            plan_view(planned, (), text="", in_force=True, at=0, explain=True)
        plan_view(plan_changes(spec, world_of(spec)), (), text="", in_force=True, at=0, explain=True)

    return work


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("small", "big"),
    [
        ({"peers": 4, "tunnels": 64}, {"peers": 4, "tunnels": 256}),
        ({"peers": 16, "tunnels": 4}, {"peers": 64, "tunnels": 4}),
        ({"peers": 4, "tunnels": 4, "prefixes": 100}, {"peers": 16, "tunnels": 4, "prefixes": 100}),
        ({"peers": 8, "tunnels": 4, "addresses": 16}, {"peers": 8, "tunnels": 4, "addresses": 64}),
    ],
    ids=["tunnels", "peers", "prefixes", "addresses"],
)
def test_four_times_as_much_costs_four_times_as_much(small: dict[str, int], big: dict[str, int]) -> None:
    """A thousand tunnels, in few bundles or many, with a thousand prefixes, with many addresses."""
    assert calls(check_and_plan(large(**big))) < 4.5 * calls(check_and_plan(large(**small)))


@pytest.mark.timeout(60)
def test_a_large_file_is_checked_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A thousand tunnels; and the most that a file can hold of what is compared with one another."""
    path = tmp_path / "large.yaml"
    path.write_text(large(4, 250))
    assert run(["config", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: valid; gateway gw-a, 4 peers, 1000 tunnels\n"


def test_thousands_of_networks_are_compared_at_once() -> None:
    """Prefixes, sources and addresses in numbers at which pairs would be many millions."""
    spec = gateway_a()
    (peer,) = spec.peers
    many = tuple(ip_network((0x0B000000 + 256 * number, 24)) for number in range(5_000))
    other = tuple(ip_network((0x1B000000 + 256 * number, 24)) for number in range(5_000))
    crowded = replace(spec, prefixes=other, peers=(replace(peer, prefixes=many, accept=many),))
    limit = 100 * len(many)
    assert calls(lambda: [*overlapping_sites(crowded), *overlapping_inner(crowded), *routing_loops(crowded)]) < limit
    assert calls(lambda: list(find_warnings(crowded))) < limit


NETWORKS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 4)).map(
        lambda pair: ip_network((0x0A000000 + (pair[0] >> 4 - pair[1] << 4 - pair[1]), 28 + pair[1]))
    ),
    max_size=8,
)


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(NETWORKS, NETWORKS, NETWORKS)
def test_what_overlaps_is_found_as_by_comparing_all(
    own: list[IPNetwork], first: list[IPNetwork], second: list[IPNetwork]
) -> None:
    """The same pairs of inner networks and prefixes, and the same prefixes of two sites."""
    spec = gateway_a()
    (peer,) = spec.peers
    b = replace(peer, inner=tuple(first), prefixes=tuple(second))
    c = replace(peer, name="gw-c", site="dc-c", inner=tuple(second[:2]), prefixes=tuple(first[:3]))
    spec = replace(spec, prefixes=tuple(own), peers=(b, c))
    inner = [
        (network, ("peers", at, "inner", i))
        for at, each in enumerate(spec.peers)
        for i, network in enumerate(each.inner)
    ]
    prefixes: list[tuple[IPNetwork, Any]] = [(network, ("gateway", "prefixes", at)) for at, network in enumerate(own)]
    for at, each in enumerate(spec.peers):
        prefixes += [(network, ("peers", at, "prefixes", i)) for i, network in enumerate(each.prefixes)]
    expected = [
        (location, other_location)
        for at, (network, location) in enumerate(inner)
        for other, other_location in (*inner[:at], *prefixes)
        if overlaps(network, other)
    ]
    assert expected == [(finding.location, finding.other) for finding in overlapping_inner(spec)]
    sites = [(spec.site, network) for network in own] + [
        (each.site, net) for each in spec.peers for net in each.prefixes
    ]
    clash = any(a != b and overlaps(x, y) for a, x in sites for b, y in sites)
    assert clash == bool(list(overlapping_sites(spec)))
    find = overlap_finder(own)
    for network in (*first, *second):
        assert (find(network) is not None) == any(overlaps(network, each) for each in own)
