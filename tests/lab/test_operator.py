"""What an operator meets: a peer that is not ready, daemons that are not there, a user who may not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.runner import TWO_DC, Lab
from lab.scenarios.observe import children
from lab.scenarios.sites import IKEORCH, ikeorch, issue_certificates, start_daemons, status, wait_carrying
from lab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two sites with certificates and daemons, and no tunnel yet."""
    with Lab.start(TWO_DC) as running:
        issue_certificates(running)
        start_daemons(running)
        yield running


def test_a_peer_that_is_not_configured_is_pending_and_comes_by_itself(lab: Lab) -> None:
    """Exit 75 within the time-out, with the reason; within 10 s after the peer is configured all tunnels carry."""
    a, b = lab.node("gw-a"), lab.node("gw-b")
    result = ikeorch(a, "tunnel", "add", "gw-b", "--count", "4", "--timeout", "8s", check=False)
    assert result.returncode == 75
    assert "4 of 4 tunnels do not carry packets after 8 s" in result.stderr
    assert "did not agree yet" in result.stderr
    assert "they come up by themselves once the other gateway has them too" in result.stderr
    assert ikeorch(b, "peer", "add", "-f", "-", "--no-wait", text=result.stdout).returncode == 0
    wait_until(lambda: [child.state for child in children(b)] == ["INSTALLED"] * 4, "four tunnels are up", 10)
    wait_carrying(lab)


def test_without_charon_every_command_says_so(lab: Lab) -> None:
    """status shows the condition and exits 5; tunnel add exits 5 after its time-out; tunnels are still listed."""
    a = lab.node("gw-a")
    a.stop_daemon("charon")
    wait_until(lambda: ikeorch(a, "status", check=False).returncode == 5, "status exits 5", 15)
    shown = ikeorch(a, "status", check=False).stdout
    assert "charon does not answer" in shown
    assert "next: start it: systemctl start strongswan" in shown
    added = ikeorch(a, "tunnel", "add", "gw-b", "--count", "5", "--timeout", "3s", check=False)
    assert added.returncode == 5
    assert "/run/charon.vici: charon does not answer" in added.stderr
    ikeorch(a, "tunnel", "remove", "gw-b", "--count", "1")
    a.start_daemon("charon")
    wait_carrying(lab)


def test_waiting_and_watching(lab: Lab) -> None:
    """All tunnels carry: the wait is over at once; an unknown peer is named; the view is shown again and again."""
    a = lab.node("gw-a")
    assert "4 of 4 tunnels carry packets" in ikeorch(a, "tunnel", "wait", "gw-b", "--timeout", "20s").stderr
    assert ikeorch(a, "tunnel", "wait", "gw-x", check=False).returncode == 64
    with a.popen([IKEORCH, "status", "--watch", "--output", "plain"]) as watching:
        assert watching.stdout is not None
        lines = [watching.stdout.readline() for _ in range(9)]
        watching.send_signal(15)
        watching.wait(10)
    assert sum(line.startswith("gw-b/0") for line in lines) >= 2


def test_a_refused_edit_changes_nothing(lab: Lab) -> None:
    """Seventeen tunnels do not fit the inner network: line and hint are named, the file stays."""
    a = lab.node("gw-a")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before = file.read_bytes()
    result = ikeorch(a, "tunnel", "add", "gw-b", "--count", "17", check=False)
    assert result.returncode == 1
    assert "has room for 16 tunnels, 17 are asked for; write a /26 or larger" in result.stderr
    assert "/etc/ikeorch/ikeorch.yaml:" in result.stderr
    assert file.read_bytes() == before
    assert len(status(a)["tunnels"]) == 4


def test_an_unknown_peer_is_named_with_the_known_ones(lab: Lab) -> None:
    """Exit 64, and what can be done."""
    result = ikeorch(lab.node("gw-a"), "tunnel", "add", "gw-x", "--count", "4", check=False)
    assert result.returncode == 64
    assert "there is no peer 'gw-x'; configured peers: gw-b" in result.stderr


def test_another_user_may_not(lab: Lab) -> None:
    """Exit 77 with the way out."""
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", IKEORCH, "status"]
    result = lab.node("gw-a").run(command, check=False)
    assert result.returncode == 77
    assert "may not be used by this user; try as root" in result.stderr


def test_a_second_daemon_is_refused(lab: Lab) -> None:
    """Whatever its socket is called: it would use the same numbers and the same charon."""
    a = lab.node("gw-a")
    command = [IKEORCH, "daemon", "--socket", "/run/other/api.sock"]
    second = a.run(command, check=False, timeout=20)
    assert second.returncode == 1
    assert "another ikeorchd uses /var/lib/ikeorch" in second.stderr
    third = a.run([*command, "--state", "/var/lib/other"], check=False, timeout=20)
    assert third.returncode == 1
    assert "another ikeorchd uses /run/charon.vici" in third.stderr
    assert "systemctl stop ikeorchd" in third.stderr
    wait_carrying(lab)


def test_a_broken_file_stays_out_of_force(lab: Lab) -> None:
    """A reload of a broken file is refused and shown as a condition; the running configuration goes on."""
    a = lab.node("gw-a")
    file = a.path("/etc/ikeorch/ikeorch.yaml")
    before = file.read_text()
    file.write_text(before.replace("capacity: 100G", "capacity: 100", 1))
    a.kill("ikeorchd", 1)
    wait_until(lambda: _codes(lab) == {"config-invalid"}, "the condition is shown", 10)
    assert {each["state"] for each in status(a)["tunnels"]} == {"carrying"}
    file.write_text(before)
    a.kill("ikeorchd", 1)
    wait_until(lambda: _codes(lab) == set(), "the condition is cleared", 10)


def _codes(lab: Lab) -> set[str]:
    return {condition["code"] for condition in status(lab.node("gw-a"))["conditions"]}


def test_without_the_daemon_commands_exit_4(lab: Lab) -> None:
    """And its end tears no tunnel down (D5)."""
    a = lab.node("gw-a")
    a.stop_daemon("ikeorchd")
    result = ikeorch(a, "status", check=False)
    assert result.returncode == 4
    assert "ikeorchd does not answer" in result.stderr
    assert lab.node("host-a1").run(["ping", "-c", "3", "-i", "0.1", "10.2.1.10"]).returncode == 0
    a.start_daemon("ikeorchd", ready=30)
    wait_carrying(lab)
