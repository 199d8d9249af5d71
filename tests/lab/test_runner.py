"""The runner on a lab kernel: what a node is, its links, its commands and its daemons."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from lab.control import LabError
from lab.node import CommandFailedError
from lab.runner import TWO_DC, Lab
from lab.waiting import wait_until

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.start(TWO_DC) as running:
        yield running


def test_node_has_its_own_world(lab: Lab) -> None:
    """Host name, processes, /run, /etc, interfaces and hash seed are the node's own."""
    a, b = lab.node("gw-a"), lab.node("gw-b")
    assert a.run(["hostname"]).stdout.strip() == "gw-a"
    assert a.run(["sh", "-c", "ls /proc | grep -c '^1$'"]).stdout.strip() == "1"
    for folder in ("/run", "/etc", "/var/lib/ikeorch", "/var/log"):
        a.run(["touch", f"{folder}/only-here"])
        assert b.run(["ls", f"{folder}/only-here"], check=False).returncode != 0
    assert sorted(link["ifname"] for link in a.json(["ip", "-j", "link"])) == ["eth1", "eth2", "eth3", "lo"]
    seed = ["cat", "/proc/sys/net/ipv4/fib_multipath_hash_seed"]
    assert a.run(seed).stdout != b.run(seed).stdout


def test_guard_is_there_before_anything_else(lab: Lab) -> None:
    """Both gateways have the guard's table from boot, without any daemon."""
    for name in ("gw-a", "gw-b"):
        assert "chain forward" in lab.node(name).run(["nft", "list", "table", "inet", "ikeorch"]).stdout


@pytest.mark.parametrize(
    ("node", "source", "target"),
    [
        ("host-a1", "10.1.1.10", "10.1.2.10"),
        ("host-b1", "fd00:b:0:1::10", "fd00:b:0:2::10"),
        ("host-a2", "10.1.2.10", "10.0.0.1"),
        ("gw-a", "192.0.2.1", "198.51.100.1"),
        ("gw-a", "203.0.113.1", "198.51.101.1"),
        ("gw-b", "2001:db8:b1::1", "2001:db8:a1::1"),
    ],
)
def test_packets_find_their_way(lab: Lab, node: str, source: str, target: str) -> None:
    """Hosts reach their site and its gateway; gateways reach each other, in both families."""
    lab.node(node).run(["ping", "-n", "-c", "1", "-W", "3", "-I", source, target])


def test_sites_are_not_joined_in_clear(lab: Lab) -> None:
    """Without tunnels no host reaches the other site."""
    assert (
        lab.node("host-a1").run(["ping", "-c", "2", "-i", "0.2", "-W", "1", "10.2.1.10"], check=False).returncode != 0
    )


def test_provider_adds_five_milliseconds_each_way(lab: Lab) -> None:
    """The fastest of some round trips between the gateways takes 10 ms, and less than 14."""
    text = lab.node("gw-a").run(["ping", "-n", "-c", "5", "-i", "0.05", "198.51.100.1"]).stdout
    fastest = float(text.rpartition("= ")[2].split("/")[0])
    assert 10.0 <= fastest < 14.0


def test_second_uplink_has_no_default_route(lab: Lab) -> None:
    """As on many a real host, all that is not told otherwise leaves by the first uplink."""
    routes = lab.node("gw-a").json(["ip", "-j", "route", "show", "default"])
    assert [route["dev"] for route in routes] == ["eth1"]


def test_command_gives_its_output_exit_code_and_input(lab: Lab) -> None:
    """Both streams, the code and standard input pass; a signal is a negative code."""
    node = lab.node("host-a1")
    done = node.run(["sh", "-c", "cat; echo err >&2; exit 3"], input="in", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "in", "err\n")
    assert node.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -signal.SIGKILL


def test_failing_command_says_what_it_said(lab: Lab) -> None:
    """The error names node, command, code and the command's own words."""
    with pytest.raises(CommandFailedError, match=r"host-a1: `ip link show nope` exited with 1: .*nope"):
        lab.node("host-a1").run(["ip", "link", "show", "nope"])
    with pytest.raises(LabError, match="no-such-program"):
        lab.node("host-a1").run(["no-such-program"])


def test_command_over_its_time_is_killed(lab: Lab) -> None:
    """A time-out raises, and nothing of the command stays."""
    node = lab.node("host-a2")
    with pytest.raises(LabError, match=r"still runs after 0\.3 s"):
        node.run(["sh", "-c", "sleep 77 & sleep 78"], timeout=0.3)
    wait_until(lambda: "sleep" not in node.run(["ps", "-eo", "args"]).stdout, "the command is gone")


def test_process_is_steered_and_dies_with_its_handle(lab: Lab) -> None:
    """Its streams are ours; closing the handle kills it."""
    node = lab.node("host-b1")
    with node.popen(["sh", "-c", "read line; echo got $line; exec sleep 79"], stdin=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("it\n")
        process.stdin.flush()
        assert process.stdout.readline() == "got it\n"
        assert process.poll() is None
    wait_until(lambda: "sleep" not in node.run(["ps", "-eo", "args"]).stdout, "the process is gone")


@pytest.mark.charon
def test_charon_is_kept_alive_as_its_unit_would(lab: Lab) -> None:
    """It answers VICI with our configuration, comes back after SIGKILL, and stays away after a stop."""
    node = lab.node("gw-b")
    first = node.start_daemon("charon")
    stats = node.run(["swanctl", "--stats"]).stdout
    assert "worker threads: 32 total" in stats
    assert "kernel-netlink socket-default vici" in stats
    assert "failed to load" not in node.log("charon")
    node.kill("charon")
    wait_until(lambda: node.daemons["charon"].pid not in {None, first}, "charon is back", 5)
    state = node.daemons["charon"]
    assert (state.starts, state.last_exit) == (2, -signal.SIGKILL)
    node.wait_ready("charon")
    # it answers VICI a moment before it handles SIGTERM itself
    assert node.stop_daemon("charon") in {0, -signal.SIGTERM}
    assert node.daemons["charon"].pid is None
    assert not node.daemons["charon"].wanted


def test_link_ends_are_found(lab: Lab) -> None:
    """An end of a link gives its node and interface, and those at the other end."""
    assert (lab.link("gw-a:eth2")[0].name, lab.link("gw-a:eth2")[1]) == ("gw-a", "eth2")
    assert (lab.far_end("gw-a:eth2")[0].name, lab.far_end("gw-a:eth2")[1]) == ("isp2", "eth1")
    with pytest.raises(LabError, match="no link at 'gw-a:eth9'"):
        lab.link("gw-a:eth9")
