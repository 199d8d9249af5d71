"""Laws of the kernel's stand-in that any order of changes keeps: what was put last is there, and all heals."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeorch.core.kernel_state import KernelObject, NextHop, NextHopGroup, PrefixRoute
from ikeorch.errors import KernelError
from tests.contract.test_kernel_contract import EVERYTHING
from tests.fakes.fake_kernel import FakeKernel

Step = tuple[str, KernelObject | str]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["ensure", "remove"]), st.sampled_from(EVERYTHING))
    | st.tuples(st.sampled_from(["delete", "down"]), st.sampled_from(["ikx0", "ikx1"])),
    max_size=40,
)


async def take(kernel: FakeKernel, step: Step) -> None:
    verb, subject = step
    if isinstance(subject, str):
        (kernel.delete_device if verb == "delete" else kernel.set_down)(subject)
    elif verb == "ensure":
        await kernel.ensure(subject)
    else:
        await kernel.remove(subject)


def check_world(kernel: FakeKernel) -> None:
    """Nothing hangs on what is not there."""
    objects = kernel.objects.values()
    names = {f"{key[1]}" for key in kernel.objects if key[0] == "interface"}
    hops = {entry.id for entry in objects if isinstance(entry, NextHop)}
    groups = {entry.id for entry in objects if isinstance(entry, NextHopGroup)}
    for entry in objects:
        if isinstance(entry, NextHop):
            assert entry.device in names
        if isinstance(entry, NextHopGroup):
            assert entry.members
            assert {member.next_hop for member in entry.members} <= hops
        if isinstance(entry, PrefixRoute) and entry.group is not None:
            assert entry.group in groups


@settings(deadline=None)
@given(steps=STEPS)
def test_whatever_happened_before_putting_everything_heals(steps: list[Step]) -> None:
    """Refusals on the way are ours, the world stays whole, and a second pass changes nothing."""

    async def run() -> None:
        kernel = FakeKernel("up0", "up1")
        for step in steps:
            with contextlib.suppress(KernelError):
                await take(kernel, step)
            check_world(kernel)
        for wanted in EVERYTHING:
            await kernel.ensure(wanted)
        assert {entry.key: entry for entry in EVERYTHING} == (await kernel.snapshot()).objects
        kernel.changes_made.clear()
        for wanted in EVERYTHING:
            await kernel.ensure(wanted)
        assert kernel.changes_made == []

    asyncio.run(run())


async def test_an_armed_fault_strikes_once() -> None:
    """And leaves the world as it was."""
    kernel = FakeKernel("up0", "up1")
    kernel.fail_next(KernelError("disk full"), EVERYTHING[0].key)
    for wanted in EVERYTHING[1:]:
        await kernel.ensure(wanted)
    before = kernel.render()
    with pytest.raises(KernelError, match="disk full"):
        await kernel.ensure(EVERYTHING[0])
    assert before == kernel.render()
    await kernel.ensure(EVERYTHING[0])
    assert EVERYTHING[0].key in kernel.objects
