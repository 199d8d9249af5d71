"""Next-hop groups as bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeorch.adapters.kernel.messages import (
    decode_members,
    decode_resilience,
    encode_members,
    encode_resilience,
)
from ikeorch.core.kernel_state import Member

MEMBERS = st.lists(
    st.builds(
        Member, next_hop=st.integers(min_value=1, max_value=2**32 - 1), weight=st.integers(min_value=1, max_value=256)
    ),
    unique_by=lambda member: member.next_hop,
    max_size=300,
).map(lambda members: tuple(sorted(members, key=lambda member: member.next_hop)))


@given(members=MEMBERS)
def test_members_are_read_back_as_written(members: tuple[Member, ...]) -> None:
    """For every weight that a group may have."""
    assert members == decode_members(encode_members(members))


def test_the_kernel_counts_weights_from_zero() -> None:
    """struct nexthop_grp: id, weight - 1, high byte, reserved (linux/nexthop.h)."""
    assert encode_members((Member(next_hop=7, weight=1),)) == struct.pack("=IBBH", 7, 0, 0, 0)
    assert encode_members((Member(next_hop=7, weight=256),)) == struct.pack("=IBBH", 7, 255, 0, 0)


def test_a_weight_of_sixteen_bits_is_read() -> None:
    """Newer kernels have them, somebody else's tool may have set one."""
    assert decode_members(struct.pack("=IBBH", 7, 0xE7, 0x03, 0)) == (Member(next_hop=7, weight=1000),)


@pytest.mark.parametrize("weight", [0, 257])
def test_a_weight_out_of_range_is_never_written(weight: int) -> None:
    """It would arrive as another one."""
    with pytest.raises(struct.error):
        encode_members((Member(next_hop=7, weight=weight),))


def test_a_cut_off_entry_is_ignored() -> None:
    """Never a traceback of struct."""
    assert decode_members(struct.pack("=IBBH", 7, 0, 0, 0) + b"abc") == (Member(next_hop=7, weight=1),)


def test_timers_are_in_clock_ticks() -> None:
    """USER_HZ is 100 wherever Linux runs."""
    encoded = encode_resilience(1024, 30)
    assert encoded == {"attrs": [("NHA_RES_GROUP_BUCKETS", 1024), ("NHA_RES_GROUP_IDLE_TIMER", 3000)]}
    assert decode_resilience({"NHA_RES_GROUP_BUCKETS": 1024, "NHA_RES_GROUP_IDLE_TIMER": 3000}) == (1024, 30)
    assert decode_resilience({}) == (0, 0)
