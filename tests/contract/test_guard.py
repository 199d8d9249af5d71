"""The guard in a real packet filter: what passes, what does not, and that it fails closed (D11).

A gateway stands between four neighbours, each in a namespace of its own: the provider behind the uplink, the peer's
site behind a tunnel's interface (a plain pair of devices here; the rules see only its name), another tunnel, our leaf.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path

import pytest

from ikeorch.adapters.kernel.adapter import KernelAdapter
from ikeorch.core.kernel_state import Guard, GuardPeer
from ikeorch.errors import KernelError
from tests.contract.netns import fresh_namespace, ip, run, standing_in
from tests.contract.polling import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

FILLED = Guard(
    uplinks=("up0",),
    tunnels=(
        GuardPeer(interface="ikx0", sources=(ip_network("10.2.0.0/16"), ip_network("fd02::/32"))),
        GuardPeer(interface="ikx1", sources=(ip_network("10.3.0.0/16"),)),
    ),
    prefixes=(ip_network("10.1.0.0/16"), ip_network("fd01::/32")),
)
NEIGHBOURS = {
    "up0": ("192.0.2", "2001:db8:0"),
    "ikx0": ("10.2.0", "fd02:0:0"),
    "ikx1": ("10.3.0", "fd03:0:0"),
    "leaf0": ("10.1.0", "fd01:0:0"),
}
"""The gateway is .1 and ::1 on each of them, the neighbour .2 and ::2; the neighbour's default route is the gateway."""


NO_DAD = ("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
"""For link-local addresses too: without one a router asks for no neighbour, for a second."""
PATIENCE = 0.1
"""Seconds in which a packet that passes is seen; it goes through four queues of this machine."""


@dataclass
class Site:
    """The gateway's namespace, in which we stand, and its neighbours'."""

    adapter: KernelAdapter
    folder: Path
    neighbours: dict[str, int] = field(default_factory=dict)
    """Descriptor of each neighbour's network namespace, by the gateway's device."""

    def at(self, device: str) -> AbstractContextManager[None]:
        """Stand at a neighbour."""
        return standing_in(self.neighbours[device])

    def passes(self, sender: str, receiver: str | None, protocol: str, to: str, **ports: int) -> bool:
        """Whether a packet arrives.

        Args:
            sender: the neighbour that sends it.
            receiver: the neighbour that must see it, None for the gateway itself.
            protocol: ``udp``, ``esp``, ``tcp-open`` or ``tcp-answer``.
            to: destination address.
            ports: sport and dport.
        """
        family = socket.AF_INET6 if ":" in to else socket.AF_INET
        number = {"udp": 17, "esp": 50}.get(protocol, 6)
        with self.at(receiver) if receiver else nullcontext():
            listener = socket.socket(family, socket.SOCK_RAW, number)
        with listener:
            listener.settimeout(PATIENCE)
            payload = packet(protocol, **ports)
            with self.at(sender), socket.socket(family, socket.SOCK_RAW, number) as out:
                out.sendto(payload, (to, 0))
            try:
                while True:
                    if payload in listener.recv(2000):
                        return True
            except TimeoutError:
                return False

    def pings(self, sender: str, to: str) -> bool:
        """Whether an echo comes back."""
        with self.at(sender):
            return subprocess.run(["ping", "-c1", "-W1", to], capture_output=True, check=False).returncode == 0


def packet(protocol: str, sport: int = 4000, dport: int = 4000) -> bytes:
    """A payload that is recognised again; checksums are not looked at by raw sockets."""
    mark = b"ikeorch-guard-mark"
    if protocol == "esp":
        return b"\0\0\x10\x01\0\0\0\1" + mark
    ports = sport.to_bytes(2, "big") + dport.to_bytes(2, "big")
    if protocol == "udp":
        return ports + (8 + len(mark)).to_bytes(2, "big") + b"\0\0" + mark
    flags = 0x02 if protocol == "tcp-open" else 0x10
    return ports + b"\0" * 8 + bytes([0x50, flags]) + b"\xff\xff\0\0\0\0" + mark


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    with fresh_namespace():
        run(*NO_DAD)
        built = Site(KernelAdapter(guard_file=tmp_path / "state" / "guard.nft"), tmp_path)
        gateway = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        for device, (v4, v6) in NEIGHBOURS.items():
            with fresh_namespace():
                run(*NO_DAD)
                inside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
                built.neighbours[device] = inside
                # two ends with one index look like one device to the kernel, which then reports their carrier late
                ip("link", "add", "eth0", "index", "100", "type", "veth", "peer", "name", device)
                ip("link", "set", device, "netns", f"/proc/{os.getpid()}/fd/{gateway}")
                ip("address", "add", f"{v4}.2/24", "dev", "eth0")
                ip("address", "add", f"{v6}::2/64", "dev", "eth0", "nodad")
                ip("link", "set", "eth0", "up")
            ip("address", "add", f"{v4}.1/24", "dev", device)
            ip("address", "add", f"{v6}::1/64", "dev", device, "nodad")
            ip("link", "set", device, "up")
            with built.at(device):
                ip("route", "add", "default", "via", f"{v4}.1")
                ip("route", "add", "default", "via", f"{v6}::1")
        run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        yield built
        await built.adapter.close()
        for descriptor in (gateway, *built.neighbours.values()):
            os.close(descriptor)


V4 = {device: f"{v4}.2" for device, (v4, _) in NEIGHBOURS.items()}
V6 = {device: f"{v6}::2" for device, (_, v6) in NEIGHBOURS.items()}


async def test_the_control_passes_without_a_guard(site: Site) -> None:
    """Else the tests below would prove nothing."""
    for addresses in (V4, V6):
        assert site.passes("up0", "leaf0", "udp", addresses["leaf0"])
        assert site.passes("leaf0", "up0", "udp", addresses["up0"])
        assert site.passes("ikx0", "leaf0", "udp", addresses["leaf0"])
    assert site.passes("up0", None, "udp", "192.0.2.1")


async def test_an_empty_guard_forwards_nothing(site: Site) -> None:
    """As at boot, before anything is known."""
    await site.adapter.ensure(Guard())
    for addresses in (V4, V6):
        for sender, receiver in [("up0", "leaf0"), ("leaf0", "up0"), ("ikx0", "leaf0"), ("leaf0", "ikx0")]:
            assert not site.passes(sender, receiver, "udp", addresses[receiver]), f"{sender} to {receiver}"


async def test_a_tunnel_and_our_site_reach_each_other(site: Site) -> None:
    """The peer's accepted sources reach our prefixes, and our site reaches the tunnel."""
    await site.adapter.ensure(FILLED)
    for addresses in (V4, V6):
        assert site.passes("ikx0", "leaf0", "udp", addresses["leaf0"])
        assert site.passes("leaf0", "ikx0", "udp", addresses["ikx0"])


async def test_nothing_is_forwarded_in_clear_or_between_peers(site: Site) -> None:
    """Not from or to an uplink, not from tunnel to tunnel; whatever the protocol says that it is."""
    await site.adapter.ensure(FILLED)
    ways = [("up0", "leaf0"), ("leaf0", "up0"), ("up0", "ikx0"), ("ikx0", "up0"), ("ikx0", "ikx1"), ("ikx1", "ikx0")]
    passed = [
        (sender, receiver, protocol, addresses[receiver])
        for sender, receiver in ways
        for addresses in (V4, V6)
        for protocol in ("udp", "tcp-answer", "esp")
        if site.passes(sender, receiver, protocol, addresses[receiver], sport=500, dport=500)
    ]
    assert passed == []


async def test_a_peers_other_sources_are_refused(site: Site) -> None:
    """10.2.0.2 is accepted from ikx0 only, and fd03:: from nobody."""
    await site.adapter.ensure(FILLED)
    with site.at("ikx1"):
        ip("address", "add", "10.2.0.77/32", "dev", "eth0")
        ip("route", "replace", "default", "via", "10.3.0.1", "src", "10.2.0.77")
    assert not site.passes("ikx1", "leaf0", "udp", V4["leaf0"])
    assert not site.passes("ikx1", "leaf0", "udp", V6["leaf0"])


async def test_a_tunnel_does_not_reach_beyond_our_prefixes(site: Site) -> None:
    """The management network behind the leaf is not offered."""
    ip("address", "add", "172.16.0.1/24", "dev", "leaf0")
    with site.at("leaf0"):
        ip("address", "add", "172.16.0.2/24", "dev", "eth0")
    await site.adapter.ensure(FILLED)
    assert not site.passes("ikx0", "leaf0", "udp", "172.16.0.2")
    assert site.passes("ikx0", "leaf0", "udp", V4["leaf0"])


UPLINK_CASES = [
    ("esp", 0, 0, True),
    ("udp", 500, 500, True),
    ("udp", 40000, 4500, True),
    ("udp", 500, 53, False),
    ("udp", 4000, 862, False),
    ("tcp-open", 40000, 22, False),
    ("tcp-open", 40000, 179, False),
    ("tcp-answer", 179, 40000, False),
]
TUNNEL_CASES = [
    ("udp", 40000, 862, True),
    ("udp", 862, 40000, True),
    ("udp", 862, 161, False),
    ("udp", 500, 500, False),
    ("tcp-open", 40000, 179, True),
    ("tcp-open", 40000, 22, True),
    ("tcp-open", 40000, 8080, False),
    ("tcp-open", 179, 8080, False),
    ("tcp-answer", 179, 40000, True),
    ("tcp-answer", 22, 40000, True),
    ("esp", 0, 0, False),
]


@pytest.mark.parametrize(
    ("sender", "to", "cases"),
    [
        ("up0", "192.0.2.1", UPLINK_CASES),
        ("up0", "2001:db8:0::1", UPLINK_CASES),
        ("ikx0", "10.2.0.1", TUNNEL_CASES),
        ("ikx0", "fd02:0:0::1", TUNNEL_CASES),
    ],
)
async def test_the_gateway_itself_is_reached_by_few(
    site: Site, sender: str, to: str, cases: list[tuple[str, int, int, bool]]
) -> None:
    """An uplink carries IKE and ESP; a tunnel BGP, STAMP, the peer channel, and answers of theirs."""
    await site.adapter.ensure(FILLED)
    seen = [
        (protocol, sport, dport, site.passes(sender, None, protocol, to, sport=sport, dport=dport))
        for protocol, sport, dport, _ in cases
    ]
    assert cases == seen


async def test_an_uplink_does_not_reach_inner_addresses_in_clear(site: Site) -> None:
    """The gateway's own addresses on other interfaces are reachable from there by nothing but IKE and ESP."""
    await site.adapter.ensure(FILLED)
    for to in ("10.1.0.1", "10.2.0.1", "fd02:0:0::1"):
        assert not site.passes("up0", None, "udp", to, dport=862)
        assert not site.passes("up0", None, "tcp-open", to, dport=179)


async def test_echoes_and_neighbours_are_answered_everywhere(site: Site) -> None:
    """ND and ICMP work on uplinks, tunnels and the leaf's side."""
    await site.adapter.ensure(FILLED)
    for device, (v4, v6) in NEIGHBOURS.items():
        ip("neigh", "flush", "dev", device)
        assert site.pings(device, f"{v4}.1")
        assert site.pings(device, f"{v6}::1")


async def test_the_gateway_sends_nothing_else_by_an_uplink(site: Site) -> None:
    """Not even what a daemon on it would like to."""
    await site.adapter.ensure(FILLED)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for port in (53, 123, 9999):
            with pytest.raises(PermissionError):
                out.sendto(b"in clear", (V4["up0"], port))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ike:
        ike.bind(("192.0.2.1", 500))
        ike.sendto(b"IKE", (V4["up0"], 500))


async def test_drops_are_counted(site: Site) -> None:
    """Each rule that drops has a counter with a name."""
    await site.adapter.ensure(FILLED)
    site.passes("up0", "leaf0", "udp", V4["leaf0"])
    site.passes("up0", None, "udp", "192.0.2.1")
    site.passes("ikx0", "ikx1", "udp", V4["ikx1"])
    site.passes("ikx0", None, "udp", "10.2.0.1")
    counters = run("nft", "list", "counters", "table", "inet", "ikeorch")
    for name in ("clear_forward", "underlay_in", "tunnel_spoofed", "tunnel_in"):
        section = counters.split(f"counter {name} {{")[1].split("}")[0]
        assert "packets 0 " not in section, name


async def test_the_saved_file_is_the_guard_at_the_next_boot(site: Site) -> None:
    """Loaded into an empty packet filter, and once more over itself, it is the same guard; only root may read it."""
    await site.adapter.ensure(FILLED)
    saved = site.folder / "state" / "guard.nft"
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert [entry.name for entry in saved.parent.iterdir()] == ["guard.nft"]
    before = (await site.adapter.snapshot()).objects
    run("nft", "flush", "ruleset")
    run("nft", "-f", str(saved))
    run("nft", "-f", str(saved))
    assert before == (await site.adapter.snapshot()).objects


async def test_a_missing_set_makes_the_table_anew(site: Site) -> None:
    """A table of an older shape is replaced in one transaction."""
    run("nft", "add", "table", "inet", "ikeorch")
    assert (await site.adapter.snapshot()).objects == {}
    await site.adapter.ensure(FILLED)
    assert (await site.adapter.snapshot()).objects[FILLED.key] == FILLED


async def test_other_tables_are_left_alone(site: Site) -> None:
    """The operator's own filter stands beside ours."""
    run("nft", "add", "table", "inet", "operators")
    await site.adapter.ensure(FILLED)
    await site.adapter.ensure(Guard())
    assert "table inet operators" in run("nft", "list", "tables")


async def test_a_guard_that_could_not_be_saved_is_saved_later(site: Site) -> None:
    """The rules are in force at once; that the file is missing is seen until it is there."""
    saved = site.folder / "state" / "guard.nft"
    saved.mkdir(parents=True)
    with pytest.raises(KernelError, match="cannot be saved"):
        await site.adapter.ensure(FILLED)
    assert (await site.adapter.snapshot()).objects[FILLED.key] == replace(FILLED, saved=False)
    assert [entry.name for entry in saved.parent.iterdir()] == ["guard.nft"]
    saved.rmdir()
    await site.adapter.ensure(FILLED)
    assert (await site.adapter.snapshot()).objects[FILLED.key] == FILLED


async def test_rules_of_another_version_are_replaced(site: Site) -> None:
    """After an upgrade the saved file holds the old rules, and so does the kernel; the sets' members stay."""
    await site.adapter.ensure(FILLED)
    saved = site.folder / "state" / "guard.nft"
    saved.write_text(saved.read_text().replace("fail closed", "of an older version"))
    run("nft", "add", "rule", "inet", "ikeorch", "forward", "meta", "mark", "77", "accept")
    assert (await site.adapter.snapshot()).objects[FILLED.key] == replace(FILLED, saved=False)
    await site.adapter.ensure(FILLED)
    assert (await site.adapter.snapshot()).objects[FILLED.key] == FILLED
    assert "0x0000004d" not in run("nft", "list", "chain", "inet", "ikeorch", "forward")


async def test_a_change_of_the_guard_by_others_is_noticed(site: Site) -> None:
    """A deleted table, a flushed set: the loop is woken for each."""
    await site.adapter.ensure(FILLED)
    wakes: list[None] = []
    watching = asyncio.create_task(site.adapter.changes(lambda: wakes.append(None)))
    await asyncio.sleep(0)
    for command in (("flush", "set", "inet", "ikeorch", "uplinks"), ("delete", "table", "inet", "ikeorch")):
        wakes.clear()
        run("nft", *command)

        async def woken() -> bool:
            return bool(wakes)

        await eventually(woken)
    watching.cancel()


@pytest.mark.parametrize(
    "change",
    [
        ("flush", "chain", "inet", "ikeorch", "forward"),
        ("flush", "table", "inet", "ikeorch"),
        ("insert", "rule", "inet", "ikeorch", "to_underlay", "accept"),
        ("add", "chain", "inet", "ikeorch", "forward", "{ policy accept; }"),
        ("add", "chain", "inet", "ikeorch", "other"),
    ],
    ids=" ".join,
)
async def test_rules_that_somebody_changed_are_put_back(site: Site, change: tuple[str, ...]) -> None:
    """Nothing passes in clear for longer than the loop takes to look."""
    await site.adapter.ensure(FILLED)
    before = run("nft", "-s", "list", "table", "inet", "ikeorch")
    site.passes("up0", "leaf0", "udp", V4["leaf0"])  # counters do not count
    assert (await site.adapter.snapshot()).objects[FILLED.key] == FILLED
    run("nft", *change)
    assert (await site.adapter.snapshot()).objects[FILLED.key] != FILLED
    await site.adapter.ensure(FILLED)
    assert (await site.adapter.snapshot()).objects[FILLED.key] == FILLED
    assert run("nft", "-s", "list", "table", "inet", "ikeorch") == before
