"""What belongs to a tunnel whose peer had another name before: it is recognised by its if_id, which stayed.

The XFRM interface carries the old name as alias until that is changed in place, and a live IKE_SA carries it for ever,
in the name of its connection. For everything that is decided about tunnels both count as the tunnel's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ikeorch.core.actual import Actual
from ikeorch.core.allocate import Allocations
from ikeorch.core.charon_state import CharonState, IkeSa
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import KernelObject, KernelState, ObjectKey, XfrmInterface
from ikeorch.core.paths import all_tunnels
from ikeorch.core.spec import GatewaySpec


def adopt(actual: Actual, spec: GatewaySpec, allocations: Allocations) -> Actual:
    """The same world, with everything under the name that its tunnel has now.

    Args:
        actual: as found.
        spec: the configuration.
        allocations: must hold all of `wanted_numbers(spec)`.
    """
    owners = {allocations.if_id(tunnel): tunnel for tunnel in all_tunnels(spec)}
    return replace(
        actual,
        kernel=None if actual.kernel is None else _adopt_interfaces(actual.kernel, owners, allocations),
        charon=None if actual.charon is None else _adopt_sas(actual.charon, owners),
    )


def _adopt_interfaces(kernel: KernelState, owners: Mapping[int, TunnelId], allocations: Allocations) -> KernelState:
    """Interfaces whose name and if_id are a tunnel's; one that has only its alias then is no longer taken for it."""
    objects: dict[ObjectKey, KernelObject] = {}
    taken: set[TunnelId] = set()
    for key, entry in kernel.objects.items():
        owner = owners.get(entry.if_id) if isinstance(entry, XfrmInterface) else None
        if isinstance(entry, XfrmInterface) and owner is not None and entry.name == allocations.interface(owner):
            objects[key] = entry if entry.tunnel == owner else replace(entry, tunnel=owner)
            taken.add(owner)
        else:
            objects[key] = entry
    rest = {
        key: entry
        for key, entry in objects.items()
        if not isinstance(entry, XfrmInterface)
        or entry.tunnel not in taken
        or entry.name == allocations.interface(entry.tunnel)
    }
    return replace(kernel, objects=rest)


def _adopt_sas(charon: CharonState, owners: Mapping[int, TunnelId]) -> CharonState:
    return replace(charon, sas=tuple(_adopt_sa(sa, owners) for sa in charon.sas))


def _adopt_sa(sa: IkeSa, owners: Mapping[int, TunnelId]) -> IkeSa:
    owned = {owners[child.if_id_in].connection for child in sa.children if child.if_id_in in owners}
    if len(owned) != 1 or sa.connection in owned:
        return sa
    return replace(sa, connection=owned.pop(), former=sa.connection)
