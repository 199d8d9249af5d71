"""list-sas to values, and a connection to load-conn."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.adapters.vici.adapter import same_process
from ikeorch.adapters.vici.convert import to_ike_sas, to_load_conn
from ikeorch.core.charon_state import ChildState, Connection, IkeState
from ikeorch.core.ids import TunnelId
from ikeorch.core.units import Seconds

CONNECTION = Connection(
    tunnel=TunnelId("gw-b", 3),
    local_address=ip_address("192.0.2.1"),
    remote_address=ip_address("2001:db8::1"),
    local_id="t3.gw-a.example",
    remote_id="t3.gw-b.example",
    certificate="CERTIFICATE",
    ca="CA",
    ike_proposals=("aes256gcm16-prfsha384-ecp384",),
    esp_proposals=("aes256gcm16-ecp384-esn",),
    if_id=10,
    rekey_time=Seconds(14400),
    child_rekey_time=Seconds(3600),
    dpd_delay=Seconds(30),
    replay_window=1024,
)
CHILD = {
    "name": b"ikeorch.gw-b.0",
    "uniqueid": b"12",
    "state": b"INSTALLED",
    "reqid": b"3",
    "if-id-in": b"00000010",
    "if-id-out": b"0000000a",
    "spi-in": b"c5e4f0a1",
    "spi-out": b"0000ff00",
    "encr-alg": b"AES_GCM_16",
    "encr-keysize": b"256",
    "dh-group": b"ECP_384",
    "esn": b"1",
    "bytes-in": b"100",
    "packets-in": b"10",
    "bytes-out": b"200",
    "packets-out": b"20",
    "install-time": b"42",
}
IKE: dict[str, Any] = {
    "uniqueid": b"7",
    "state": b"ESTABLISHED",
    "initiator": b"yes",
    "local-host": b"192.0.2.1",
    "remote-host": b"2001:db8::1",
    "local-id": b"t0.gw-a.example",
    "remote-id": b"t0.gw-b.example",
    "encr-alg": b"AES_GCM_16",
    "encr-keysize": b"256",
    "prf-alg": b"PRF_HMAC_SHA2_384",
    "dh-group": b"ECP_384",
    "established": b"61",
    "child-sas": {"ikeorch.gw-b.0-12": CHILD, "ikeorch.gw-b.0-13": CHILD | {"uniqueid": b"13", "state": b"DELETED"}},
}


def test_an_established_sa_is_read_with_all_that_we_use() -> None:
    """Ids are hexadecimal, children keep charon's order, names come from values."""
    (sa,) = to_ike_sas({"ikeorch.gw-b.0": IKE})
    assert (7, IkeState.ESTABLISHED, True, Seconds(61)) == (sa.unique_id, sa.state, sa.initiator, sa.age)
    assert (ip_address("192.0.2.1"), ip_address("2001:db8::1")) == (sa.local_address, sa.remote_address)
    assert (sa.local_id, sa.remote_id) == ("t0.gw-a.example", "t0.gw-b.example")
    assert sa.suite == "AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384"
    first, second = sa.children
    assert (first.if_id_in, first.if_id_out, first.spi_in, first.spi_out) == (16, 10, 0xC5E4F0A1, 0xFF00)
    assert first.suite == "AES_GCM_16-256/ECP_384/ESN"
    assert (first.bytes_in, first.packets_in, first.bytes_out, first.packets_out) == (100, 10, 200, 20)
    assert (second.state, second.unique_id, second.name) == (ChildState.DELETED, 13, "ikeorch.gw-b.0")


def test_an_sa_that_is_connecting_has_little() -> None:
    """``%any`` and what is not there yet is "not known"."""
    section: dict[str, Any] = {"uniqueid": b"1", "state": b"CONNECTING", "local-host": b"%any", "remote-id": b"%any"}
    (sa,) = to_ike_sas({"ikeorch.gw-b.0": section})
    assert (sa.state, sa.local_address, sa.remote_id, sa.suite, sa.children) == (IkeState.CONNECTING, None, "", "", ())


@given(
    section=st.dictionaries(
        st.sampled_from([*IKE, "child-sas"]),
        st.binary(max_size=20) | st.lists(st.binary(max_size=5), max_size=3) | st.just(CHILD) | st.just({"a": CHILD}),
    )
)
def test_no_section_makes_the_reader_fail(section: dict[str, Any]) -> None:
    """Versions differ; odd values become defaults."""
    assert [sa.connection for sa in to_ike_sas({"x": section})] == ["x"]


def test_a_connection_is_written_with_our_constants() -> None:
    """Never unique, never started by charon, no reauthentication; lives of 1.5 and spread of 0.1 rekey times (D10)."""
    message: Any = to_load_conn(CONNECTION)
    body = message["ikeorch.gw-b.3"]
    assert (body["unique"], body["mobike"], body["reauth_time"], body["version"]) == ("never", "no", "0s", 2)
    assert (body["rekey_time"], body["over_time"], body["rand_time"]) == ("14400s", "7200s", "1440s")
    assert (body["local_addrs"], body["remote_addrs"]) == (["192.0.2.1"], ["2001:db8::1"])
    assert body["local"] == {"auth": "pubkey", "id": "t3.gw-a.example", "certs": ["CERTIFICATE"]}
    assert body["remote"] == {"auth": "pubkey", "id": "t3.gw-b.example", "cacerts": ["CA"]}
    child = body["children"]["ikeorch.gw-b.3"]
    assert (child["rekey_time"], child["life_time"], child["rand_time"]) == ("3600s", "5400s", "360s")
    assert (child["if_id_in"], child["if_id_out"], child["replay_window"]) == ("10", "10", "1024")
    assert (child["start_action"], child["close_action"], child["dpd_action"]) == ("none", "none", "clear")
    assert ["0.0.0.0/0", "::/0"] == child["local_ts"] == child["remote_ts"]


@pytest.mark.parametrize("if_id", [-1, 0, 2**32 - 2, 2**32 - 1, 2**32])
def test_an_if_id_that_means_something_else_is_refused(if_id: int) -> None:
    """0 is none, the two largest are %unique and %unique-dir."""
    with pytest.raises(ValueError, match="if_id"):
        to_load_conn(replace(CONNECTION, if_id=if_id))


@pytest.mark.parametrize("window", [-1, 4097, 65536])
def test_a_replay_window_beyond_the_kernels_is_refused(window: int) -> None:
    """charon takes any."""
    with pytest.raises(ValueError, match="replay_window"):
        to_load_conn(replace(CONNECTION, replay_window=window))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("7 since Jan 02 12:00:00 2026", "7 since Jan 02 12:00:01 2026", True),
        ("7 since Dec 31 23:59:59 2026", "7 since Jan 01 00:00:00 2027", True),
        ("7 since Jan 02 12:00:00 2026", "8 since Jan 02 12:00:00 2026", False),
        ("7 since Jan 02 12:00:00 2026", "7 since Jan 02 12:00:09 2026", False),
        ("7 since whenever", "7 since whenever", True),
        ("7 since whenever", "7 since Jan 02 12:00:00 2026", False),
        ("", "7 since Jan 02 12:00:00 2026", False),
    ],
)
def test_one_process_is_known_from_another(left: str, right: str, *, same: bool) -> None:
    """The pid decides, and the time when a pid came back; the time wavers by a second."""
    assert same_process(left, right) is same
