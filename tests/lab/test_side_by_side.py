"""A suite is changed first at the end that does not initiate, and its tunnels are cut before the other end follows.

The story: B's operator is early, A's charon loses every SA meanwhile. If B took its new suite only, the sites would be
cut off until A's operator comes.
"""

from __future__ import annotations

import time

import pytest

from lab.runner import Lab
from lab.scenarios.faults import conditions, kill_part
from lab.scenarios.observe import end_sas
from lab.scenarios.sites import BACKWARD, FORWARD, GATEWAYS, ikeorch, wait_carrying
from lab.scenarios.traffic import streams
from lab.waiting import wait_until
from tests.lab.test_change import renewed, set_suite, spis, suites

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

OLD = "aes256gcm16-prfsha384-ecp384"
NEW = "aes128gcm16-prfsha256-ecp256"


def test_tunnels_that_are_cut_come_back_before_the_initiator_has_moved(sites: Lab) -> None:
    """With the old suite, though B's daemon was killed too; then A changes, 0 lost, and B refuses it from then on."""
    a, b = (sites.node(name) for name in GATEWAYS)
    before = spis(a)
    set_suite(b, NEW)
    ikeorch(b, "apply")
    assert spis(a) == before
    wait_until(lambda: "suite-pending" in conditions(b), "B says that A has not moved", 10)
    kill_part(b, "ikeorchd")
    end_sas(a)
    wait_until(lambda: renewed(sites, before), "every tunnel has another SA", 30, interval=0.2)
    wait_carrying(sites)
    assert suites(a) == suites(b) == {"AES_GCM_16-256/ESN"}
    assert OLD in conditions(b)["suite-pending"]["message"]

    before = spis(a)
    set_suite(a, NEW)
    with streams(sites, (FORWARD, BACKWARD), rate=400, count=16000) as started:
        time.sleep(1)
        ikeorch(a, "apply")
        wait_until(lambda: renewed(sites, before), "every IKE_SA is another one", 30, interval=0.2)
        results = [stream.result() for stream in started]
    assert [(result["total"], result["lost"]) for result in results] == [(16000, 0)] * 2
    wait_carrying(sites)
    assert suites(a) == suites(b) == {"AES_GCM_16-128/ESN"}
    assert all(conditions(sites.node(name)) == {} for name in GATEWAYS)

    before = spis(a)
    set_suite(a, OLD)
    assert ikeorch(a, "apply", "--timeout", "8s", check=False).returncode == 75
    assert "renewal-pending" in conditions(a)
    assert spis(a) == before
