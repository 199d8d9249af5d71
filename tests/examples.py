"""Configurations and values that many tests begin with."""

from __future__ import annotations

from collections.abc import Mapping

from ikeorch.config.loader import load_config
from ikeorch.core.actual import Actual
from ikeorch.core.allocate import Allocations, allocate_missing, wanted_numbers
from ikeorch.core.charon_state import CharonState
from ikeorch.core.desired import CredentialBundle, Desired, compute_desired
from ikeorch.core.establish import Memory
from ikeorch.core.health import Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelState
from ikeorch.core.planner import World
from ikeorch.core.renew import Renewals
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.units import Seconds

GATEWAY_A = """\
schema_version: 1
gateway:
  name: gw-a
  site: dc-a
  identity: gw-a.dc.example
  asn: 65010
  router_id: 10.0.255.1
  uplinks:
    - {name: isp1, interface: eth1, addresses: [192.0.2.1/24], gateway: 192.0.2.254, capacity: 100G}
    - {name: isp2, interface: eth2, addresses: [203.0.113.1/24], gateway: 203.0.113.254, capacity: 100G}
  prefixes: [10.1.0.0/16, "fd00:a::/48"]   # what this site offers
  credentials: {certificate: /etc/ikeorch/pki/gw-a.pem, key: /etc/ikeorch/pki/gw-a.key, ca: /etc/ikeorch/pki/ca.pem}
peers:
  # the other site
  - name: gw-b
    site: dc-b
    identity: gw-b.dc.example
    asn: 65020
    uplinks: [{name: isp1, addresses: [198.51.100.1]}, {name: isp2, addresses: [198.51.101.1]}]
    inner: [10.255.1.0/27, "fd00:1::/123"]
    prefixes: [10.2.0.0/16, "fd00:b::/48"]
    tunnels: {count: 4, capacity: 50G, rekey_time: 4h}
"""

GATEWAY_B = """\
schema_version: 1
gateway:
  name: gw-b
  site: dc-b
  identity: gw-b.dc.example
  asn: 65020
  router_id: 10.0.255.2
  uplinks:
    - {name: isp2, interface: eth2, addresses: [198.51.101.1/24], gateway: 198.51.101.254, capacity: 100G}
    - {name: isp1, interface: eth1, addresses: [198.51.100.1/24], gateway: 198.51.100.254, capacity: 100G}
  prefixes: [10.2.0.0/16, "fd00:b::/48"]
  credentials: {certificate: /etc/ikeorch/pki/gw-b.pem, key: /etc/ikeorch/pki/gw-b.key, ca: /etc/ikeorch/pki/ca.pem}
peers: []
"""

CREDENTIALS = CredentialBundle(
    expires=Seconds(4e9),
    certificate="CERT",
    ca="CA",
    key_id="ab" * 20,
    ca_id="ikeorch-ca-1",
    names=frozenset({"gw-a.dc.example", *(f"t{index}.gw-a.dc.example" for index in range(16))}),
)


def gateway_a() -> GatewaySpec:
    """Gateway A with four tunnels to B over two uplinks."""
    return load_config(GATEWAY_A, "gw-a.yaml").spec


def allocations(spec: GatewaySpec) -> Allocations:
    """The numbers that a fresh store gives."""
    return Allocations(allocate_missing({}, wanted_numbers(spec)))


def desired_a() -> Desired:
    """What gateway A should be before any packet has proved a tunnel."""
    return desired_of(gateway_a(), resilient=False)


def desired_of(spec: GatewaySpec, *, resilient: bool = True) -> Desired:
    """What a gateway should be before any packet has proved a tunnel, with the numbers of a fresh store."""
    return compute_desired(
        spec,
        allocations(spec),
        credentials=CREDENTIALS,
        verdicts={},
        grouped=frozenset(),
        resilient=resilient,
        underlay_mtu={},
    )


def world_of(
    spec: GatewaySpec,
    *,
    verdicts: Mapping[TunnelId, Verdict] | None = None,
    actual: Actual | None = None,
    credentials: CredentialBundle | None = CREDENTIALS,
) -> World:
    """A world for plans: empty but for what is given, with the numbers of a fresh store."""
    return World(
        numbers=allocations(spec).numbers,
        credentials=credentials,
        actual=actual or Actual(kernel=KernelState(), charon=CharonState(version="5.9.8", started="1")),
        verdicts=verdicts or {},
        memory=Memory(),
        renewals=Renewals(),
        now=Seconds(1000),
    )
