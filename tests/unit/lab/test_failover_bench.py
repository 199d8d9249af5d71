"""The pure parts of the benchmark `failover`: gaps, choice of flows, configurations, times."""

from __future__ import annotations

import pytest

from lab.bench.failover import compare, describe_control, merge, ninety_nine
from lab.bench.failover_run import read_gap
from lab.bench.timeline import GroupChange, read_changes, read_judged, repaired_after
from lab.control import LabError
from lab.scenarios.flow_choice import Flow, pick, read_interfaces, render_queries
from lab.scenarios.frr_tunnels import SPEAKERS, render_frr
from lab.scenarios.observe import Child
from lab.scenarios.outage import OF_PROVIDER, of_tunnel, render_outage
from lab.tools.stream import describe_losses

SENT = {"late_seconds": 0.002}


def test_a_gap_is_the_missing_numbers() -> None:
    """Three missing of 1,000 a second are 3 ms; the first and the last are told."""
    losses = describe_losses(2000, set(range(2000)) - {100, 101, 103})
    assert losses == {"total": 2000, "received": 1997, "lost": 3, "first_lost": [100, 101, 103], "last_lost": 103}
    gap = read_gap(0, losses, SENT)
    assert (gap.milliseconds, gap.first, gap.last, gap.ended) == (3.0, 100, 103, True)


def test_nothing_lost_is_a_gap_of_nothing() -> None:
    """No first and no last one."""
    gap = read_gap(0, describe_losses(2000, set(range(2000))), SENT)
    assert (gap.milliseconds, gap.first, gap.last, gap.ended) == (0.0, None, None, True)


def test_a_gap_until_the_end_never_ended() -> None:
    """Neither when all of the rest is missing, nor when the flow came back just before its end."""
    assert not read_gap(0, describe_losses(2000, set(range(900))), SENT).ended
    assert not read_gap(0, describe_losses(2000, set(range(900)) | set(range(1900, 2000))), SENT).ended
    assert read_gap(0, describe_losses(2000, set(range(900)) | set(range(1500, 2000))), SENT).ended


def test_flows_are_asked_for_as_they_reach_the_gateway() -> None:
    """One question a flow, with the interface that it comes in by."""
    assert render_queries([(20000, 5010), (20001, 5010)], source="10.1.1.10", target="10.2.1.10", lan="eth3") == (
        "route get 10.2.1.10 from 10.1.1.10 iif eth3 ipproto udp sport 20000 dport 5010\n"
        "route get 10.2.1.10 from 10.1.1.10 iif eth3 ipproto udp sport 20001 dport 5010\n"
    )


def test_a_flow_is_the_first_that_leaves_by_the_interface() -> None:
    """As ip answers; an unreachable route has no interface and is never chosen."""
    text = (
        '[{"dst":"10.2.1.10","from":"10.1.1.10","dev":"ikx4","flags":[],"cache":[],"iif":"eth3"}]\n'
        '[{"type":"unreachable","dst":"10.2.1.10"}]\n'
        '[{"dst":"10.2.1.10","dev":"ikx1"}]\n[{"dst":"10.2.1.10","dev":"ikx1"}]\n'
    )
    interfaces = read_interfaces(text)
    assert interfaces == ["ikx4", "", "ikx1", "ikx1"]
    candidates = list(zip(range(20000, 20004), interfaces, strict=True))
    assert pick(5010, "ikx1", candidates) == Flow(interface="ikx1", source_port=20002, port=5010)
    with pytest.raises(LabError, match="none of 4 flows to port 5010 leaves by ikx2"):
        pick(5010, "ikx2", candidates)


def test_frr_has_a_session_with_bfd_in_each_tunnel() -> None:
    """The whole file, for two tunnels."""
    assert render_frr(SPEAKERS["gw-a"], SPEAKERS["gw-b"], ("10.255.1.1", "10.255.1.3"), 300) == (
        "frr defaults traditional\n"
        "log stdout informational\n"
        "router bgp 65010\n"
        " bgp router-id 10.0.255.1\n"
        " no bgp ebgp-requires-policy\n"
        " bgp bestpath as-path multipath-relax\n"
        " neighbor 10.255.1.1 remote-as 65020\n"
        " neighbor 10.255.1.1 timers connect 1\n"
        " neighbor 10.255.1.1 bfd 3 300 300\n"
        " neighbor 10.255.1.3 remote-as 65020\n"
        " neighbor 10.255.1.3 timers connect 1\n"
        " neighbor 10.255.1.3 bfd 3 300 300\n"
        " address-family ipv4 unicast\n"
        "  network 10.1.0.0/16\n"
        "  maximum-paths 2\n"
        " exit-address-family\n"
        "exit\n"
    )


def test_an_outage_takes_a_tunnels_data_or_everything() -> None:
    """One SPI for one way, both for both; a provider's outage matches nothing in particular."""
    child = Child(tunnel="ikeorch.gw-b.0", state="INSTALLED", if_id=1, spi_in="c24485a9", spi_out="06cba8c6")
    assert of_tunnel(child, both_ways=False) == "esp spi { 0x06cba8c6 }"
    assert of_tunnel(child, both_ways=True) == "esp spi { 0x06cba8c6, 0xc24485a9 }"
    assert "\nesp spi { 0x06cba8c6 } counter name lost drop\n" in render_outage("esp spi { 0x06cba8c6 }")
    assert "\ncounter name lost drop\n" in render_outage(OF_PROVIDER)


LOG = """\
2026-11-30T09:41:02.144870Z [info     ] tunnel_judged                  reflector_silent=False tunnel=gw-b/0 verdict=up
2026-11-30T09:41:03.946375Z [info     ] tunnel_judged                  reflector_silent=False tunnel=gw-b/0 verdict=down
2026-11-30T09:41:23.976082Z [info     ] tunnel_judged                  reflector_silent=False tunnel=gw-b/2 verdict=down
"""
SEEN = """\
[2026-11-30T09:41:23.950211] id 8 group 2,2/4/6,9 type resilient buckets 512 proto 73
[2026-11-30T09:41:23.986000] id 7 group 1/3/5/9 type resilient buckets 512 proto 73
[2026-11-30T09:41:23.986942] Deleted id 4 dev ikx2 scope link proto 73
[2026-11-30T09:41:23.996082] id 7 group 1/3/9 type resilient buckets 512 proto 73
"""


def test_repair_is_from_the_verdict_to_the_group_without_the_tunnel() -> None:
    """Of the last of its groups; earlier changes and changes that leave the tunnel in do not count."""
    since = 1796031664.0
    (judged,) = read_judged(LOG, since)
    assert (judged.tunnel, round(judged.when, 6)) == ("gw-b/2", 1796031683.976082)
    assert len(read_judged(LOG, 0)) == 2
    changes = read_changes(SEEN)
    assert [change.members for change in changes] == [{2, 4, 6}, {1, 3, 5, 9}, {1, 3, 9}]
    assert repaired_after(judged, {7: 5}, changes) == pytest.approx(0.02, abs=1e-6)
    assert repaired_after(judged, {7: 1}, changes) is None
    late = GroupChange(when=judged.when + 1, group=8, members=frozenset({2, 4}))
    assert repaired_after(judged, {7: 5, 8: 6}, [*changes, late]) == pytest.approx(1)
    early = GroupChange(when=judged.when - 1, group=7, members=frozenset())
    assert repaired_after(judged, {7: 5}, [early]) is None


def test_the_figure_of_all_variants_is_the_worst() -> None:
    """Ratios of medians; of few runs the largest value is the 99th percentile."""
    series = merge(
        [
            {f"{variant}{kind}_ms": [value * factor] for variant, factor in FACTORS for kind, value in values.items()}
            for values in (
                {"": 100.0, "_bfd300": 200.0, "_bfd100": 100.0},
                {"": 300.0, "_bfd300": 400.0, "_bfd100": 50.0},
            )
        ]
    )
    series["provider_ms"] = [200.0, 600.0]
    ratios = compare(series)
    assert ratios["tunnel_both_median_vs_bfd300"] == pytest.approx(200 / 300)
    assert ratios["provider_median_vs_bfd300"] == pytest.approx(400 / 300)
    assert ratios["median_vs_bfd300"] == pytest.approx(400 / 300)
    assert ratios["p99_vs_bfd300"] == pytest.approx(600 / 400)
    assert ratios["median_vs_bfd100"] == pytest.approx(400 / 75)
    assert ninety_nine(range(1, 201)) == 198


FACTORS = (("tunnel_both", 1.0), ("tunnel_one_way", 2.0), ("provider", 1.0))


def test_a_control_that_sees_no_endless_gap_voids_the_benchmark() -> None:
    """The gap without a prober must not end."""
    flow = {"tunnel": 0, "lost": 3000, "first": 1500, "last": 4499, "total": 4500, "ended": False}
    spared = {"tunnel": 1, "lost": 0, "first": None, "last": None, "total": 4500, "ended": True}
    said = describe_control({"details": [{"flows": [flow, spared]}]})
    assert said == "without a prober the gap never ended: 3000 of the last 3000 packets lost, others 0"
    with pytest.raises(LabError, match="the gap ended all the same"):
        describe_control({"details": [{"flows": [flow | {"ended": True}]}]})
