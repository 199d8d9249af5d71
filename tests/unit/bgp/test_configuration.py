"""ExaBGP's configuration file, and how ExaBGP is run."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest

from bgp.advertisement import Neighbor
from bgp.configuration import is_in_force, render_configuration
from bgp.grammar import parse_fingerprints
from bgp.process import ENVIRONMENT, environment, server_command, shim_command, validate_command

GOLDEN = Path(__file__).parents[2] / "golden" / "exabgp.conf"
SHIM = ("/usr/bin/python3", "-I", "-S", "/usr/lib/ikeorch/bgp/shim.py", "/run/ikeorch/exabgp.sock")
PLAIN = Neighbor(address=ip_address("10.0.0.254"), asn=65001, local_asn=65010, router_id=IPv4Address("10.0.255.1"))
NEIGHBORS = (
    Neighbor(
        address=ip_address("fd00::2"),
        asn=4_200_000_001,
        local_asn=4_200_000_000,
        router_id=IPv4Address("10.0.255.1"),
        local_address=ip_address("fd00::1"),
        graceful_restart=20,
        hold_time=9,
    ),
    PLAIN,
)


def test_the_file_is_the_golden_one() -> None:
    """In the order of the addresses, whatever the wish's."""
    assert render_configuration(NEIGHBORS, SHIM) == GOLDEN.read_text(encoding="ascii")
    assert render_configuration(NEIGHBORS[::-1], SHIM) == render_configuration(NEIGHBORS, SHIM)


def test_nobody_to_speak_to_is_a_file_too() -> None:
    """The API process stays, so that neighbours can be added later."""
    text = render_configuration((), SHIM)
    assert "neighbor" not in text.replace("neighbours", "")
    assert "process ikeorch {" in text


@pytest.mark.parametrize(
    "shim",
    [
        (),
        ("python3", "shim.py"),
        ("/usr/bin/python3", "a b"),
        ("/usr/bin/python3", "x;"),
        ("/usr/bin/python3", "x\n}"),
        ("/usr/bin/python3", "#"),
        ("/usr/bin/python3", '"x"'),
        ("/usr/bin/python3", ""),
        ("/usr/bin/python3", "é"),
    ],
)
def test_a_command_that_exabgp_would_read_otherwise_is_refused(shim: tuple[str, ...]) -> None:
    """Its tokeniser gives some characters a meaning."""
    with pytest.raises(ValueError, match="ExaBGP"):
        render_configuration((PLAIN,), shim)


def test_two_neighbors_at_one_address_are_refused() -> None:
    """ExaBGP's commands name a neighbour by its address."""
    with pytest.raises(ValueError, match="one address"):
        render_configuration((PLAIN, replace(PLAIN, asn=65002)), SHIM)


@pytest.mark.parametrize(
    "other",
    [
        (),
        (PLAIN, replace(PLAIN, address=ip_address("10.0.0.253"))),
        (replace(PLAIN, address=ip_address("10.0.0.253")),),
        (replace(PLAIN, asn=65002),),
        (replace(PLAIN, local_asn=65011),),
        (replace(PLAIN, local_address=ip_address("10.0.0.1")),),
        (replace(PLAIN, router_id=IPv4Address("10.0.255.2")),),
        (replace(PLAIN, hold_time=180),),
        (replace(PLAIN, graceful_restart=20),),
        (replace(PLAIN, graceful_restart=30),),
    ],
)
def test_whether_exabgp_has_read_the_file_shows_in_the_fingerprints(other: tuple[Neighbor, ...]) -> None:
    """Any difference changes them; how link bandwidth is sent is no matter of the file."""
    shown = parse_fingerprints(render_configuration((PLAIN,), SHIM).splitlines())
    assert is_in_force((PLAIN,), shown)
    assert is_in_force((replace(PLAIN, transitive=True),), shown)
    assert not is_in_force(other, shown)
    assert not is_in_force((PLAIN,), {**shown, ip_address("10.0.0.9"): ""})


def test_how_exabgp_is_run() -> None:
    """One place for the unit and the lab."""
    settings = environment(user="ikeorch-bgp", port=1179)
    assert (settings["exabgp_daemon_user"], settings["exabgp_tcp_port"]) == ("ikeorch-bgp", "1179")
    assert "exabgp_tcp_bind" not in settings
    listening = environment(listen=[ip_address("10.0.0.1"), ip_address("fd00::1")])
    assert listening["exabgp_tcp_bind"] == "10.0.0.1 fd00::1"
    assert settings.items() >= ENVIRONMENT.items()
    assert (ENVIRONMENT["exabgp_api_ack"], ENVIRONMENT["exabgp_api_cli"]) == ("true", "false")
    assert server_command(Path("/etc/x.conf")) == ("exabgp", "server", "/etc/x.conf")
    assert validate_command() == ("exabgp", "validate")
    *start, socket = shim_command(Path("/run/x.sock"), python="/usr/bin/python3")
    assert (start[:3], socket) == (["/usr/bin/python3", "-I", "-S"], "/run/x.sock")
    assert Path(start[3]).name == "shim.py"
    assert Path(start[3]).is_file()


def test_settings_can_stand_in_a_systemd_unit() -> None:
    """Which takes no dash and no dot in a variable's name."""
    assert all(name.replace("_", "").isalnum() for name in environment())
