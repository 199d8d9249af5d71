"""The short way out of the groups."""

from __future__ import annotations

from ikeorch.core.desired import compute_desired
from ikeorch.core.fabric import FabricWish
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import NextHop, NextHopGroup, XfrmInterface
from ikeorch.daemon.failover import Failover
from tests.examples import CREDENTIALS, allocations, gateway_a
from tests.fakes.fake_kernel import FakeKernel
from tests.integration.world import FakeFabric

TUNNELS = [TunnelId("gw-b", index) for index in range(4)]


async def repaired(before: dict[TunnelId, Verdict], after: dict[TunnelId, Verdict]) -> list[FabricWish]:
    """What the fabric is told when verdicts change between two passes."""
    spec = gateway_a()
    desired = compute_desired(
        spec,
        allocations(spec),
        credentials=CREDENTIALS,
        verdicts=before,
        grouped=frozenset(TUNNELS),
        resilient=True,
        underlay_mtu={},
    )
    fabric = FakeFabric(wishes=[desired.fabric])
    kernel = FakeKernel("eth1", "eth2")
    for kind in (XfrmInterface, NextHop, NextHopGroup):
        for wanted in desired.kernel.values():
            if isinstance(wanted, kind):
                await kernel.ensure(wanted)
    failover = Failover(kernel, fabric)
    failover.end_pass(spec, allocations(spec), desired, resilient=True, outdated=False)
    assert await failover.repair(after)
    return fabric.wishes


async def test_tunnels_that_are_spared_in_turn_keep_their_capacity() -> None:
    """Two return while the next two are spared: the fabric hears nothing of it."""
    first = dict.fromkeys(TUNNELS[:2], Verdict.SPARED) | dict.fromkeys(TUNNELS[2:], Verdict.UP)
    then = dict.fromkeys(TUNNELS[:2], Verdict.UP) | {TUNNELS[2]: Verdict.SPARED, TUNNELS[3]: Verdict.UP}
    before, after = await repaired(first, then)
    assert after.routes == before.routes


async def test_a_tunnel_that_is_down_has_lost_its_capacity() -> None:
    """Told at once."""
    up = dict.fromkeys(TUNNELS, Verdict.UP)
    before, after = await repaired(up, up | {TUNNELS[0]: Verdict.DOWN})
    assert [3 * route.bandwidth for route in before.routes] == [4 * route.bandwidth for route in after.routes]
