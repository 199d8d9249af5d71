"""A wrong configuration is refused with file, line, reason and hint; a right one says what it means."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeorch.config.loader import load_config, read_config
from ikeorch.config.problems import InvalidConfigError
from ikeorch.errors import ConfigError, IkeorchError
from tests.examples import GATEWAY_A


def problems(text: str) -> list[str]:
    """What is wrong with a text."""
    with pytest.raises(InvalidConfigError) as caught:
        load_config(text, "gw.yaml")
    return str(caught.value).splitlines()


def test_the_reference_configuration_is_accepted() -> None:
    """It means four tunnels with the written capacity."""
    loaded = load_config(GATEWAY_A, "gw.yaml")
    assert loaded.spec.peers[0].tunnels.count == 4
    assert loaded.spec.peers[0].tunnels.capacity == 50 * 10**9
    assert loaded.spec.peers[0].accept == loaded.spec.peers[0].prefixes


def warnings(text: str) -> list[str]:
    """What is probably not meant."""
    return [warning.render("gw.yaml") for warning in load_config(text, "gw.yaml").warnings]


def test_shared_address_pairs_are_a_warning() -> None:
    """It names the tunnels and the pairs: network cards and providers hash by the outer addresses."""
    assert warnings(GATEWAY_A) == [
        "gw.yaml:22:15: peers[0].tunnels.count: 4 tunnels share 2 address pairs (0 and 2 on isp1 192.0.2.1 > "
        "198.51.100.1, 1 and 3 on isp2 203.0.113.1 > 198.51.101.1); network cards and providers hash by them: "
        "give the uplinks more addresses"
    ]


def test_a_warning_about_many_tunnels_stays_short() -> None:
    """Four tunnels of a pair, four pairs; the rest is counted."""
    addresses = ", ".join(f"198.51.100.{number}" for number in range(1, 7))
    text = GATEWAY_A.replace("[198.51.100.1]", f"[{addresses}]").replace("10.255.1.0/27", "10.255.1.0/24")
    text = text.replace("fd00:1::/123", "fd00:1::/120").replace("count: 4", "count: 100")
    (line,) = warnings(text)
    assert "100 tunnels share 7 address pairs (0, 12, 24, 36 and 5 more on isp1" in line
    assert "and 3 pairs more)" in line
    assert len(line) < 500


def test_no_shared_pair_is_no_warning() -> None:
    """Two tunnels over two uplinks."""
    assert warnings(GATEWAY_A.replace("count: 4", "count: 2")) == []


def test_an_uplink_that_pairs_with_none_is_a_warning() -> None:
    """By name, and by family: a misspelt name would be missed otherwise."""
    text = GATEWAY_A.replace("count: 4", "count: 1")
    (line,) = warnings(text.replace("{name: isp2, addresses", "{name: ips2, addresses"))
    assert line == (
        "gw.yaml:19:57: peers[0].uplinks[1].name: the uplink 'ips2' pairs with none of ours and carries nothing; "
        "ours are isp1, isp2"
    )
    (line,) = warnings(text.replace("[198.51.101.1]", '["2001:db8::1"]'))
    assert "peers[0].uplinks[1].addresses: the uplink 'isp2' has no address of a family" in line


def test_accepting_our_own_sources_is_a_warning() -> None:
    """The peer could speak in our hosts' name."""
    text = GATEWAY_A.replace("count: 4", "count: 1").replace("    tunnels:", "    accept: [10.0.0.0/8]\n    tunnels:")
    (line,) = warnings(text)
    assert "peers[0].accept[0]: the peer may send packets that claim to come from our own 10.1.0.0/16" in line


def test_an_ipv6_provider_may_have_a_link_local_router() -> None:
    """As most of them do."""
    text = GATEWAY_A.replace("[192.0.2.1/24]", '["2001:db8:1::1/64"]').replace("192.0.2.254", '"fe80::1"')
    spec = load_config(text.replace("[198.51.100.1]", '["2001:db8:2::1"]'), "gw.yaml").spec
    assert str(spec.uplinks[0].gateways[0]) == "fe80::1"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "rekey_time: 4h",
            "rekey_time: 5s",
            "22:40: peers[0].tunnels.rekey_time: '5s' is outside 10s to 366d; "
            "write duration, 10s to 366d, such as `rekey_time: 4h`",
        ),
        (
            "rekey_time: 4h",
            "mtu: 1200",
            "22:40: peers[0].tunnels.mtu: 1200 is outside 1280 to 65000 bytes; "
            "write whole number or auto, 1280 to 65000 bytes, such as `mtu: auto`",
        ),
        (
            "rekey_time: 4h",
            "mtu: automatic",
            "22:40: peers[0].tunnels.mtu: 'automatic' is no whole number; "
            "write whole number or auto, 1280 to 65000 bytes, such as `mtu: auto`",
        ),
        (
            "rekey_time: 4h",
            "dpd_delay: 300ms",
            "22:40: peers[0].tunnels.dpd_delay: '300ms' is below charon's resolution; "
            "write at least 1s, or 0s to switch it off",
        ),
        (
            "    inner:",
            "    mtu: 1400\n    inner:",
            "20:5: peers[0].mtu: unknown key; its place is peers[].tunnels.mtu",
        ),
        (
            "asn: 65020",
            "asn: 65020\n    prefix: [10.2.0.0/16]",
            "19:5: peers[0].prefix: unknown key; did you mean prefixes?",
        ),
        (
            "[198.51.100.1]",
            "[]",
            "19:28: peers[0].uplinks[0].addresses: 0 entries are outside 1 to 64 entries; "
            "write a list: IP address, 1 to 64 entries, such as `addresses: [198.51.100.1]`",
        ),
        (
            "identity: gw-b.dc.example",
            "identity: gw-b",
            "17:5: peers[0].identity: 'gw-b' is no DNS name; write a lower-case DNS name with at least one dot, "
            "at most 180, such as `identity: gw-b.dc.example`",
        ),
        (
            "asn: 65020",
            "asn:",
            "18:5: peers[0].asn: nothing is written here; write AS number, 1 to 4294967294, such as `asn: 65020`",
        ),
    ],
)
def test_messages_are_in_our_words(old: str, new: str, expected: str) -> None:
    """What is wrong, the range with its unit, and what to write, to the letter."""
    assert f"gw.yaml:{expected}" in problems(GATEWAY_A.replace(old, new, 1))


BROKEN = [
    # old text, new text, line of the complaint, words in it
    ("asn: 65020", "asm: 65020", 18, "unknown key"),
    ("    asn: 65020\n", "", 15, "peers[0].asn: is missing"),
    ("count: 4", "cuont: 4", 22, "unknown key"),
    ("capacity: 50G", "capacity: 50", 22, "not a rate"),
    ("rekey_time: 4h", "rekey_time: 4", 22, "not a duration"),
    ("rekey_time: 4h", "replay_window: 65536", 22, "65536 is outside 64 to 4096 packets"),
    ("rekey_time: 4h", "replay_window: 0", 22, "0 is outside 64 to 4096 packets"),
    ("[192.0.2.1/24]", "[192.0.2.300/24]", 9, "no address with its prefix length"),
    ("[192.0.2.1/24]", "[192.0.2.1]", 9, "no address with its prefix length"),
    ("gateway: 192.0.2.254", "gateway: 192.0.3.254", 9, "in none of the uplink's networks"),
    ("[198.51.100.1]", "[198.51.100.x]", 19, "no IP address"),
    ("10.255.1.0/27", "10.255.1.1/27", 20, "did you mean 10.255.1.0/27"),
    ("10.255.1.0/27", "10.255.1.0/29", None, ""),
    ("count: 4", "count: 17", 20, "has room for 16 tunnels"),
    ("count: 4", "count: 257", 22, "257 is outside 0 to 256 tunnels"),
    ("count: 4", "count: '4'", 22, "'4' in quotes is no whole number"),
    ("[10.2.0.0/16", "[10.1.128.0/17", 21, "overlaps 10.1.0.0/16 of site 'dc-a'"),
    ("[10.2.0.0/16", "[198.51.0.0/16", 21, "the tunnel would run through itself"),
    ("10.255.1.0/27", "10.1.2.0/27", 20, "overlaps 10.1.0.0/16"),
    ("10.255.1.0/27", "198.51.100.0/27", 20, "the tunnel would run through itself"),
    ("[198.51.101.1]", "[224.0.0.5]", 19, "is no address of a host"),
    ("[198.51.101.1]", "[127.0.0.1]", 19, "is no address of a host"),
    ("[198.51.101.1]", '["::ffff:198.51.101.1"]', 19, "in IPv6's form, which no host has on the wire"),
    ("[10.2.0.0/16,", '["::ffff:a02:0/112",', 21, "holds no addresses that a host in another network may have"),
    ("gateway: 192.0.2.254", "gateway: 192.0.2.1", 9, "is the uplink's own address"),
    ("name: gw-b", "name: gw-a", 15, "this gateway's own name"),
    ("name: gw-b", "name: GW_B", 15, "'GW_B' is no name; write lower-case letters"),
    ("site: dc-b", "site: dc-a", 16, "our own site"),
    ("{name: isp2, interface: eth2", "{name: isp1, interface: eth2", 10, "stands already at gateway.uplinks[0].name"),
    ("[198.51.101.1]", "[198.51.100.1]", 19, "stands already at"),
    ("uplinks: [{name: isp1", "uplinks: [{name: isp9", None, ""),
    ("suites", "suites", None, ""),
    ("capacity: 50G", "suite: fast", 22, "there is no suite 'fast'"),
    ("schema_version: 1", "schema_version: 2", 1, "schema_version"),
    ("peers:\n", "fabric: {neighbors: [{address: 10.0.0.254, asn: 65001}]}\npeers:\n", 13, "write 1/6 or less"),
    ("peers:\n", "fabric: {neighbors: [{address: 192.0.2.1, asn: 65001}]}\npeers:\n", 13, "own address"),
    ("peers:\n", "fabric: {bandwidth_scale: 0.5}\npeers:\n", 13, "write 1, or a fraction like 1/8"),
    ("peers:\n", "fabric: {when_unreachable: perhaps}\npeers:\n", 13, "is not keep or withdraw"),
    ("  site: dc-a\n", "  site: dc-a\n  site: dc-x\n", 5, "duplicate key"),
    ("peers:\n", "peers: [\n", None, "YAML"),
    ("interface: eth1", "interface: 'eth 1; reboot'", 9, "is no network device"),
    ("name: gw-b", 'name: "gw-b\\nx"', 15, "is no name"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), [case for case in BROKEN if case[3]])
def test_each_fault_is_named_with_its_line(old: str, new: str, line: int | None, words: str) -> None:
    """File, line, column, path and reason, in one line a fault."""
    assert old in GATEWAY_A
    found = problems(GATEWAY_A.replace(old, new, 1))
    assert any(words in text and (line is None or text.startswith(f"gw.yaml:{line}:")) for text in found), found


def test_all_faults_are_reported_at_once() -> None:
    """Three faults, three lines, in the file's order."""
    text = GATEWAY_A.replace("192.0.2.1/24", "x").replace("50G", "50").replace("asn: 65020", "asn: zero")
    assert [entry.split(":")[1] for entry in problems(text)] == ["9", "18", "22"]


@pytest.mark.parametrize("brackets", ["[" * 5000, "{" * 5000, "[{" * 3000, "[" * 5000 + "]" * 5000])
def test_deep_nesting_costs_no_time(brackets: str) -> None:
    """The parser's would grow with the square of it."""
    began = time.process_time()
    assert any("nested deeper" in text for text in problems(GATEWAY_A.replace("[10.2.0.0/16, ", brackets, 1)))
    assert time.process_time() - began < 1


SECOND_PEER = """\
  - name: gw-c
    site: dc-c
    identity: gw-c.dc.example
    asn: 65030
    uplinks: [{name: isp1, addresses: [203.0.113.77]}]
    inner: [10.255.2.0/27]
    tunnels: {count: 2}
"""


def test_a_peer_is_named_once() -> None:
    """Two peers of one name are refused at the second."""
    text = GATEWAY_A + SECOND_PEER.replace("gw-c\n", "gw-b\n", 1)
    assert any("the peer name 'gw-b' stands already at peers[0].name" in entry for entry in problems(text))


def test_two_tunnels_with_one_identity_and_address_pair_are_refused() -> None:
    """The responder could not tell them apart (D1), whatever their names and if_ids are."""
    pair = "{local: us.example, remote: them.example}"
    text = GATEWAY_A.replace("count: 4,", f"count: 4, identities: [{', '.join([pair] * 4)}],")
    found = problems(text)
    assert len(found) == 2
    assert all("one address pair and one identity pair" in entry and "gw.yaml:22:" in entry for entry in found)


def test_own_identities_on_one_address_pair_are_fine() -> None:
    """Different identities are enough."""
    pairs = ", ".join(f"{{local: us{index}, remote: them{index}}}" for index in range(4))
    spec = load_config(GATEWAY_A.replace("count: 4,", f"count: 4, identities: [{pairs}],"), "gw.yaml").spec
    assert spec.peers[0].tunnels.identities[3] == ("us3", "them3")


def test_yes_and_no_are_words() -> None:
    """YAML 1.2 reads them as text."""
    spec = load_config(GATEWAY_A.replace("rekey_time: 4h", "mobike: yes"), "gw.yaml").spec
    assert spec.peers[0].tunnels.mobike is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- 1\n",
        "a: &a [*a]\n",
        "schema_version: 1\ngateway: 3\n",
        "gateway: {name: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}\n",
        "x: &x [1,2,3,4,5,6,7,8]\ny: &y [*x,*x,*x,*x,*x,*x,*x,*x]\nz: &z [*y,*y,*y,*y,*y,*y,*y,*y]\n"
        "w: &w [*z,*z,*z,*z,*z,*z,*z,*z]\nv: &v [*w,*w,*w,*w,*w,*w,*w,*w]\nu: [*v,*v,*v,*v,*v,*v,*v,*v]\n",
        "!!python/object/apply:os.system [true]\n",
        "? [a, b]\n: c\n",
        "2001-01-01: x\n",
        "\x00",
        "a: b: c\n",
    ],
)
def test_hostile_text_is_refused_with_a_reason(text: str) -> None:
    """Recursion, bombs, tags and rubbish end in a report, never in a traceback."""
    assert problems(text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_random_text_never_gives_a_traceback(text: str) -> None:
    """Only our own error leaves the loader."""
    with contextlib.suppress(InvalidConfigError):
        load_config(text, "gw.yaml")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(GATEWAY_A) - 1), st.integers(0, 12), st.text(max_size=6))
def test_a_damaged_configuration_never_gives_a_traceback(at: int, length: int, insert: str) -> None:
    """Any cut and paste either loads or is refused with a line."""
    with contextlib.suppress(InvalidConfigError):
        load_config(GATEWAY_A[:at] + insert + GATEWAY_A[at + length :], "gw.yaml")


def test_a_hostile_key_stays_on_its_line() -> None:
    """Quoted and cut, so that it neither forges a message nor moves the cursor."""
    text = GATEWAY_A.replace("asn: 65020", f'asn: 65020\n    "a\\nb\\e[2J{"x" * 500}": 1')
    (line,) = problems(text)
    assert line.startswith(r"gw.yaml:19:5: peers[0].'a\nb\x1b[2Jxxx")
    assert line.isprintable()
    assert len(line) < 300


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    """Not a traceback, but the path and the way out."""
    with pytest.raises(ConfigError, match=r"nothing\.yaml: no such file; name it with --config"):
        read_config(tmp_path / "nothing.yaml")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    """The position of the first bad byte is named."""
    (tmp_path / "x").write_bytes(b"a: \xff")
    with pytest.raises(IkeorchError, match="not UTF-8 text at byte 3"):
        read_config(tmp_path / "x")
