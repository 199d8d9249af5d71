"""What `plan --explain` prints for the kernel, run as it stands, leaves the kernel that the adapter leaves."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path
from typing import Any

import pytest

from ikeorch.adapters.kernel.adapter import KernelAdapter
from ikeorch.adapters.kernel.guard import fingerprint, parse_sets
from ikeorch.core.actual import Actual
from ikeorch.core.allocate import Allocations, allocate_missing, wanted_numbers
from ikeorch.core.desired import needed_sysctls
from ikeorch.core.establish import Memory
from ikeorch.core.health import Verdict
from ikeorch.core.kernel_state import Guard
from ikeorch.core.plan import EnsureObject, RemoveObject
from ikeorch.core.planner import Planned, World, plan_changes
from ikeorch.core.renew import Renewals
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import BitsPerSecond, Seconds
from ikeorch.daemon.explain import explain_plan
from tests.contract.netns import add_device, fresh_namespace, has_xfrm, ip_json, run
from tests.examples import gateway_a

ROOT = Path(__file__).parents[2]
VOLATILE = {"ifindex", "link_index", "stats", "stats64", "valid_life_time", "preferred_life_time", "min_mtu", "max_mtu"}
Doer = Callable[[KernelAdapter, Planned], Awaitable[None]]


@pytest.fixture(autouse=True)
def needs_xfrm() -> None:
    """Only a kernel with XFRM interfaces can be asked."""
    if not has_xfrm():
        pytest.skip("no XFRM interfaces here, or not root; `ikeorch lab run -- pytest -m lab` has them")


def stages() -> Iterator[GatewaySpec]:
    """One configuration after the other: every kind of object comes, changes and goes."""
    first = gateway_a()
    (peer,) = first.peers
    yield first
    isp1, isp2 = first.uplinks
    v6 = ip_interface("2001:db8:1::1/64")
    isp1 = replace(isp1, addresses=(ip_interface("192.0.2.9/24"), v6), gateways=(ip_address("192.0.2.253"), V6_ROUTER))
    isp2 = replace(isp2, interface="eth3.7")
    prefixes = (ip_network("10.4.0.0/15"), ip_network("10.2.0.0/17"), ip_network("fd00:c::/47"))
    tunnels = replace(peer.tunnels, count=3, mtu=1300)
    other = replace(
        peer, name="gw-c", identity="c.example", inner=(ip_network("10.255.2.0/28"), ip_network("fd00:2::/124"))
    )
    other = replace(
        other, tunnels=replace(peer.tunnels, capacity=BitsPerSecond(10**10), count=2), prefixes=prefixes[:1]
    )
    inner = (ip_network("10.255.9.0/27"), peer.inner[1])
    changed = replace(peer, inner=inner, prefixes=prefixes, accept=(ip_network("10.4.0.0/16"),), tunnels=tunnels)
    second = replace(first, uplinks=(isp1, isp2), peers=(changed, other), prefixes=(ip_network("10.0.0.0/15"),))
    yield second
    yield replace(second, peers=(replace(changed, accept=(ip_network("10.4.0.0/15"),)),))
    yield replace(second, peers=())


V6_ROUTER = ip_address("fe80::1")


async def by_lines(_: KernelAdapter, planned: Planned) -> None:
    """An operator with a shell."""
    for line in (line for lines in explain_plan(planned) for line in lines):
        run("sh", "-c", f"cd {ROOT}\n{line}")


async def by_adapter(adapter: KernelAdapter, planned: Planned) -> None:
    """ikeorchd."""
    for action in planned.actions:
        match action.operation:
            case EnsureObject(target):
                await adapter.ensure(target)
            case RemoveObject(target):
                await adapter.remove(target)


async def walk(folder: Path, do: Doer, *, resilient: bool) -> list[Any]:
    """All stages in a fresh namespace; what `ip` and `nft` show after each."""
    shown = []
    numbers: dict[Any, int] = {}
    with fresh_namespace():
        for name in ("eth1", "eth2", "eth3.7"):
            add_device(name)
        adapter = KernelAdapter(guard_file=folder / "guard.nft")
        for spec in stages():
            numbers |= allocate_missing(numbers, wanted_numbers(spec))
            allocations = Allocations(numbers)
            await do(adapter, await plan(adapter, spec, allocations, resilient=resilient))
            shown.append(dump())
            assert (await plan(adapter, spec, allocations, resilient=resilient)).actions == ()
        await adapter.close()
    return shown


async def plan(adapter: KernelAdapter, spec: GatewaySpec, allocations: Allocations, *, resilient: bool) -> Planned:
    """What the kernel needs; all tunnels are up, there is no leaf, and the boot file is ikeorchd's own affair."""
    kernel = await adapter.snapshot([setting.name for setting in needed_sysctls(spec, allocations)])
    objects = {
        key: replace(entry, saved=True) if isinstance(entry, Guard) else entry for key, entry in kernel.objects.items()
    }
    actual = Actual(kernel=replace(kernel, objects=objects, resilient=resilient), charon=None)
    world = World(
        numbers=allocations.numbers,
        credentials=None,
        actual=actual,
        verdicts={tunnel: Verdict.UP for peer in spec.peers for tunnel in peer.tunnel_ids},
        memory=Memory(),
        renewals=Renewals(),
        now=Seconds(0),
    )
    return plan_changes(spec, world)


def dump() -> Any:
    """Everything of ours as the tools show it."""
    listing = run("nft", "-j", "list", "table", "inet", "ikeorch")
    links = [link for link in ip_json("address", "show") if link["ifname"].startswith("ikx")]
    for link in links:
        link["addr_info"] = [entry for entry in link["addr_info"] if entry["scope"] != "link"]
    shown: dict[str, list[Any]] = {
        "links": links,
        "rules": [rule for family in "46" for rule in ip_json(f"-{family}", "rule", "show")],
        "routes": [
            route
            for family in "46"
            for route in ip_json(f"-{family}", "route", "show", "table", "all", "protocol", "73")
        ],
        "nexthops": ip_json("nexthop", "show"),
        "guard": [str(parse_sets(listing)), fingerprint(listing)],
    }
    return {
        kind: sorted(json.dumps(steady(entry), sort_keys=True) for entry in entries) for kind, entries in shown.items()
    }


def steady(value: Any) -> Any:
    """Without what differs between two namespaces in any case."""
    if isinstance(value, dict):
        return {key: steady(inner) for key, inner in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [steady(inner) for inner in value]
    return value


@pytest.mark.lab
@pytest.mark.parametrize("resilient", [True, False])
async def test_the_lines_do_what_the_adapter_does(tmp_path: Path, *, resilient: bool) -> None:
    """Four configurations in a row, each plan done once: links, rules, routes, next hops and the guard are the same."""
    ours = await walk(tmp_path, by_adapter, resilient=resilient)
    assert len(ours[0]["nexthops"]) == 10
    assert [len(stage["links"]) for stage in ours] == [4, 5, 3, 0]
    theirs = await walk(tmp_path, by_lines, resilient=resilient)
    for number, (expected, found) in enumerate(zip(ours, theirs, strict=True)):
        for kind, entries in expected.items():
            assert (number, kind, entries) == (number, kind, found[kind])
