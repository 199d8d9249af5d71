"""Changes to live tunnels: free of traffic first, half a bundle at a time, proven by packets."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

from ikeorch.core.actual import Actual
from ikeorch.core.charon_state import CharonState, ChildSa, ChildState, IkeSa, IkeState
from ikeorch.core.desired import Desired, compute_desired
from ikeorch.core.diff import diff_states
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelObject, KernelState, ObjectKey, SourceRule, XfrmInterface
from ikeorch.core.plan import Action, EnsureObject, RemoveObject, Step, Terminate, end_sa
from ikeorch.core.renew import LEAD
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import Seconds
from ikeorch.core.waves import PROOF, Waves, hold_back, next_turn, plan_waves
from tests.examples import CREDENTIALS, allocations, gateway_a

TUNNELS = tuple(TunnelId("gw-b", index) for index in range(4))


def desire(spec: GatewaySpec) -> Desired:
    """All tunnels up."""
    return compute_desired(
        spec,
        allocations(gateway_a()),
        credentials=CREDENTIALS,
        verdicts=dict.fromkeys(TUNNELS, Verdict.UP),
        grouped=frozenset(TUNNELS),
        resilient=True,
        underlay_mtu={},
    )


def bundle(**options: object) -> GatewaySpec:
    """Gateway A with options of its bundle changed."""
    spec = gateway_a()
    (peer,) = spec.peers
    return replace(spec, peers=(replace(peer, tunnels=replace(peer.tunnels, **options)),))  # type: ignore[arg-type]


class World:
    """A kernel that does what is asked, pass after pass, and paths that take packets up to some size."""

    def __init__(self) -> None:
        self.desired = desire(gateway_a())
        self.kernel: dict[ObjectKey, KernelObject] = dict(self.desired.kernel)
        assert self.desired.connections is not None
        self.charon = CharonState(
            version="5.9.8",
            started="1",
            connections=frozenset(self.desired.connections),
            loaded=dict(self.desired.connections),
            authorities=frozenset({CREDENTIALS.ca_id}),
            keys=frozenset({CREDENTIALS.key_id}),
            sas=tuple(
                IkeSa(
                    connection=tunnel.connection,
                    unique_id=tunnel.index + 1,
                    state=IkeState.ESTABLISHED,
                    local_address=self.desired.tunnels[tunnel].path.local,
                    children=(ChildSa(name=tunnel.connection, unique_id=tunnel.index, state=ChildState.INSTALLED),),
                )
                for tunnel in TUNNELS
            ),
        )
        self.waves = Waves()
        self.now = 1000.0
        self.largest = 9000
        self.dead: set[TunnelId] = set()
        self.renewing: frozenset[TunnelId] = frozenset()

    def mtu(self, tunnel: TunnelId) -> int:
        """The MTU of a tunnel's interface, 0 when it is gone."""
        return next((each.mtu for each in self.interfaces() if each.tunnel == tunnel), 0)

    def interfaces(self) -> list[XfrmInterface]:
        """All XFRM interfaces."""
        return [each for each in self.kernel.values() if isinstance(each, XfrmInterface)]

    def probes(self) -> dict[TunnelId, ProbeState]:
        """What the prober says: nothing of the size while a tunnel waits."""
        states = {}
        for tunnel in (each.tunnel for each in self.interfaces()):
            size = 0 if tunnel in self.waves.waiting() else self.mtu(tunnel)
            verdict = Verdict.DOWN if tunnel in self.dead else Verdict.UP
            states[tunnel] = ProbeState(verdict=verdict, mtu=size, fits=size <= self.largest if size else None)
        return states

    def step(self, seconds: float = 0.1) -> tuple[Action, ...]:
        """One pass; what it does."""
        self.now += seconds
        actual = Actual(kernel=KernelState(objects=dict(self.kernel), resilient=True, devices={}), charon=self.charon)
        ends = [
            end_sa(sa, "no longer configured", tunnel=None)
            for sa in self.charon.sas
            if TunnelId.from_connection(sa.connection) not in self.desired.tunnels
        ]
        planned = sorted((*diff_states(self.desired, actual), *ends), key=lambda action: action.step)
        self.waves = plan_waves(
            self.desired, actual, self.waves, self.probes(), renewing=self.renewing, now=Seconds(self.now)
        )
        done = hold_back(planned, self.waves, self.desired, actual)
        for action in done:
            match action.operation:
                case EnsureObject(target):
                    self.kernel[target.key] = target
                case RemoveObject(target):
                    del self.kernel[target.key]
                case Terminate(_, number, _):
                    self.charon = replace(
                        self.charon, sas=tuple(sa for sa in self.charon.sas if sa.unique_id != number)
                    )
        return done

    def run(self, seconds: float) -> None:
        """Passes every tenth of a second."""
        for _ in range(round(seconds / 0.1)):
            self.step()

    def changed(self, mtu: int) -> set[int]:
        """Indexes of the tunnels with this MTU."""
        return {tunnel.index for tunnel in TUNNELS if self.mtu(tunnel) == mtu}


def test_a_settled_world_is_left_alone() -> None:
    """Nothing touched, no timer."""
    world = World()
    assert world.step() == ()
    assert world.waves == Waves()
    assert next_turn(world.waves, Seconds(world.now)) is None


def test_an_mtu_is_changed_for_half_of_the_bundle_and_then_for_the_other_half() -> None:
    """First without traffic, then changed, then proven; never more than two at once, and in the end none."""
    world = World()
    world.desired = desire(bundle(mtu=1300))
    world.step()
    assert (world.waves.spared(), world.waves.due) == (frozenset(TUNNELS[:2]), frozenset(TUNNELS[2:]))
    assert world.changed(1300) == set()
    world.run(LEAD - 0.3)
    assert world.changed(1300) == set()
    seen = [set[int]()]
    for _ in range(100):
        world.step()
        assert len(world.waves.spared()) <= 2
        if world.changed(1300) != seen[-1]:
            seen.append(world.changed(1300))
    assert seen == [set(), {0, 1}, {0, 1, 2, 3}]
    assert (world.waves, world.step()) == (Waves(), ())


def test_a_size_that_does_not_come_through_stops_after_the_first_wave() -> None:
    """The two are not proven and stay out; the others are as before. Taken back, all is as before within a moment."""
    world = World()
    old = world.mtu(TUNNELS[0])
    world.largest = old
    world.desired = desire(bundle(mtu=old + 50))
    world.run(LEAD + 0.5)
    assert world.changed(old + 50) == {0, 1}
    assert "do not come through" in world.waves.unproven()[TUNNELS[0]]
    world.run(3 * PROOF)
    assert world.changed(old) == {2, 3}
    assert world.waves.no_renewal(TUNNELS) == frozenset(TUNNELS[2:])
    world.desired = desire(gateway_a())
    world.step()
    assert world.changed(old) == {0, 1, 2, 3}
    world.run(0.5)
    assert world.waves == Waves()


def test_one_without_any_answer_is_not_proven() -> None:
    """It may have died of the change: said after some seconds, and undone when the change is."""
    world = World()
    world.desired = desire(bundle(mtu=1300))
    world.run(LEAD + 0.1)
    world.dead = {TUNNELS[0]}
    world.run(PROOF + 0.2)
    assert set(world.waves.unproven()) == {TUNNELS[0]}
    assert world.changed(1300) == {0, 1}
    world.dead = set()
    world.run(LEAD + 1)
    assert world.changed(1300) == {0, 1, 2, 3}


def test_what_carries_nothing_is_changed_at_once() -> None:
    """A tunnel that is down has no traffic to lose; it may need the change to heal."""
    world = World()
    world.dead = {TUNNELS[3]}
    world.desired = desire(bundle(mtu=1300))
    world.step()
    assert world.changed(1300) == {3}


def test_those_that_are_renewed_count() -> None:
    """Half of the bundle is half of the bundle, whatever is done to it."""
    world = World()
    world.renewing = frozenset(TUNNELS[:2])
    world.desired = desire(bundle(mtu=1300))
    world.run(LEAD + 1)
    assert world.changed(1300) == set()
    world.renewing = frozenset()
    world.run(LEAD + 0.2)
    assert world.changed(1300) == {0, 1}


def test_a_tunnel_that_goes_away_is_free_of_traffic_before_its_sa_ends() -> None:
    """Out of the group at once; SA, connection, link and guard only after the peer had time to leave it."""
    world = World()
    world.desired = desire(bundle(count=3))
    first = world.step()
    assert {action.step for action in first} == {Step.GROUP}
    assert world.waves.leaving() == {TUNNELS[3]}
    world.run(LEAD - 0.3)
    assert world.mtu(TUNNELS[3]) and len(world.charon.sas) == 4
    world.run(0.5)
    assert (world.mtu(TUNNELS[3]), len(world.charon.sas), world.waves) == (0, 3, Waves())


def test_one_that_comes_back_meanwhile_stays() -> None:
    """The number is raised again before the peer had left it."""
    world = World()
    world.desired = desire(bundle(count=3))
    world.run(1)
    world.desired = desire(gateway_a())
    world.run(5)
    assert (world.mtu(TUNNELS[3]) > 0, len(world.charon.sas), world.waves) == (True, 4, Waves())


def test_an_underlay_address_stays_while_an_ike_sa_runs_on_it() -> None:
    """And with it the uplink's table; a charon that cannot be asked may have one on each."""
    world = World()
    spec = gateway_a()
    uplink = spec.uplinks[0]
    old = uplink.addresses[0]
    new = type(old)(f"{old.ip + 8}/{old.network.prefixlen}")
    world.desired = desire(replace(spec, uplinks=(replace(uplink, addresses=(new,)), *spec.uplinks[1:])))

    def sources() -> set[str]:
        return {str(each.source) for each in world.kernel.values() if isinstance(each, SourceRule)}

    world.step()
    assert {str(old.ip), str(new.ip)} <= sources()
    live = world.charon
    world.charon = replace(live, sas=tuple(replace(sa, local_address=ip_address(new.ip)) for sa in live.sas))
    world.step()
    assert str(old.ip) not in sources()


def test_an_unreadable_kernel_changes_nothing() -> None:
    """What is touched stays touched."""
    world = World()
    world.desired = desire(bundle(mtu=1300))
    world.step()
    unknown = Actual(kernel=None, charon=None)
    assert plan_waves(world.desired, unknown, world.waves, {}, renewing=frozenset(), now=Seconds(9e9)) is world.waves
