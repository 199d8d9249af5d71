"""MTU, weights, suites, numbers and verdicts: small rules with their exact values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.core.allocate import ExhaustedError, Kind, allocate_missing
from ikeorch.core.mtu import inner_mtu
from ikeorch.core.suites import DEFAULT_SUITE, SuiteError, parse_suite
from ikeorch.core.weight import quantise_weights


@pytest.mark.parametrize(
    ("underlay", "ipv6", "udp", "inner"),
    [(1500, False, False, 1446), (1500, True, False, 1426), (1500, False, True, 1438), (9000, False, False, 8946)],
)
def test_the_encrypted_packet_fills_the_underlay(underlay: int, ipv6: bool, udp: bool, inner: int) -> None:
    """Outer header, ESP, IV, ICV, padding and trailer are taken off; one byte more would need another block."""
    assert inner == inner_mtu(underlay, ipv6_underlay=ipv6, udp_encapsulation=udp)
    padded = (inner + 2 + 3) // 4 * 4
    assert (40 if ipv6 else 20) + (8 if udp else 0) + 8 + 8 + padded + 16 <= underlay


def test_the_inner_mtu_never_loses_ipv6() -> None:
    """The kernel takes IPv6 off an interface below 1280."""
    assert inner_mtu(1300, ipv6_underlay=True) == 1280


@pytest.mark.parametrize(
    ("capacities", "weights"),
    [([5, 5, 5, 5], [1, 1, 1, 1]), ([7, 2, 1], [7, 2, 1]), ([100, 99, 1], [100, 99, 1]), ([10**9, 1], [256, 1])],
)
def test_weights_keep_the_proportions(capacities: list[int], weights: list[int]) -> None:
    """Small proportions are exact."""
    assert dict(enumerate(weights)) == quantise_weights(dict(enumerate(capacities)))


@given(st.lists(st.integers(1, 10**13), min_size=1, max_size=32))
def test_weights_fit_the_kernel(capacities: list[int]) -> None:
    """Always 1 to 256, equal for equal capacities, and never in the wrong order."""
    weights = quantise_weights(dict(enumerate(capacities)))
    assert all(1 <= weight <= 256 for weight in weights.values())
    ordered = sorted(range(len(capacities)), key=lambda index: capacities[index])
    assert [weights[index] for index in ordered] == sorted(weights.values())


def test_no_tunnels_have_no_weights() -> None:
    """An empty group is never made of weights."""
    assert quantise_weights({}) == {}


def test_the_default_suite_derives_an_esp_proposal_with_esn() -> None:
    """Without -esn charon negotiates 32-bit sequence numbers."""
    assert parse_suite("aes256gcm16-prfsha384-ecp384") == DEFAULT_SUITE
    assert DEFAULT_SUITE.ike_proposal == "aes256gcm16-prfsha384-ecp384"
    assert DEFAULT_SUITE.esp_proposal == "aes256gcm16-ecp384-esn"


@pytest.mark.parametrize(
    "text",
    [
        "aes256gcm16",
        "3des-prfsha1-modp1024",
        "aes256gcm16-prfmd5-ecp384",
        "aes256-sha256-ecp384",
        "aes256gcm16-prfsha384-modp2048",
    ],
)
def test_weak_or_unknown_suites_are_refused(text: str) -> None:
    """What RFC 8221 and RFC 8247 do not ask for is not in the table."""
    with pytest.raises(SuiteError):
        parse_suite(text)


def test_numbers_are_given_once_and_never_again() -> None:
    """A tunnel keeps its number while others come and go; a number of the past is not reused."""
    given_before = {(Kind.IF_ID, "gw-b/0"): 1, (Kind.IF_ID, "gone/0"): 7}
    new = allocate_missing(given_before, [(Kind.IF_ID, "gw-b/0"), (Kind.IF_ID, "gw-b/1"), (Kind.TABLE, "isp1")])
    assert new == {(Kind.IF_ID, "gw-b/1"): 8, (Kind.TABLE, "isp1"): 7301}


def test_the_end_of_a_range_is_an_error() -> None:
    """No number outside its range is ever given."""
    last = Kind.TABLE.bounds[1]
    with pytest.raises(ExhaustedError):
        allocate_missing({(Kind.TABLE, "x"): last}, [(Kind.TABLE, "y")])
