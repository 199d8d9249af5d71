"""A kernel of plain Python, as far as the gateway sees one.

It does what Linux does to objects that hang together: a device that goes takes its next hops, its legs in groups and
its routes along, a group without legs goes with its routes, and so on; tests/contract holds it to that. Foreign objects
stand beside ours in its world, `render` shows all of it as text, and `fail_next` lets the next change fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from ikeorch.core.kernel_state import (
    Family,
    Guard,
    KernelObject,
    KernelState,
    Member,
    NextHop,
    NextHopGroup,
    ObjectKey,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)
from ikeorch.errors import ForeignObjectError, IkeorchError, KernelError, KernelFeatureError

MAX_WEIGHT = 256


@dataclass(slots=True)
class FakeDevice:
    """A network device that is not one of our XFRM interfaces.

    Attributes:
        mtu: bytes.
        up: administrative state.
        if_id: of a foreign XFRM interface, 0 for any other device.
    """

    mtu: int = 1500
    up: bool = True
    if_id: int = 0


class FakeKernel:
    """The kernel's stand-in.

    Args:
        uplinks: devices that are there.
        resilient: whether it offers resilient groups.
    """

    def __init__(self, *uplinks: str, resilient: bool = True) -> None:
        self.devices = {"lo": FakeDevice(mtu=65536), **{name: FakeDevice() for name in uplinks}}
        self.resilient = resilient
        self.foreign_next_hops: set[int] = set()
        self.foreign_routes: set[tuple[str, int]] = set()
        self.settings = {"net.ipv4.ip_forward": "0", "net.ipv4.ping_group_range": "1 0"}
        self.objects: dict[ObjectKey, KernelObject] = {}
        self.changes_made: list[str] = []
        self._failures: list[tuple[ObjectKey | None, IkeorchError]] = []

    def fail_next(self, error: IkeorchError, key: ObjectKey | None = None) -> None:
        """Let the next change (of the object with this key) fail."""
        self._failures.append((key, error))

    async def snapshot(self, sysctls: Iterable[str] = ()) -> KernelState:
        """See `KernelPort`."""
        objects = dict(self.objects)
        for name in sysctls:
            if name in self.settings:
                objects["sysctl", name] = Sysctl(name=name, value=self.settings[name])
        mtus = {name: device.mtu for name, device in self.devices.items()}
        mtus |= {entry.name: entry.mtu for entry in self._interfaces()}
        return KernelState(objects=objects, resilient=self.resilient, devices=mtus)

    async def ensure(self, obj: KernelObject) -> None:
        """See `KernelPort`."""
        self._maybe_fail(obj)
        match obj:
            case XfrmInterface():
                self._put_interface(obj)
            case NextHop():
                self._refuse_foreign(obj.id)
                self._need_device(obj.device, up=True)
                self.objects.pop(("group", str(obj.id)), None)
                self._put(obj)
            case NextHopGroup():
                self._put_group(obj)
            case PrefixRoute():
                self._put_route(obj)
            case UnderlayRoute():
                self._need_device(obj.device, up=True)
                self._put(obj)
            case Sysctl():
                if obj.name in self.settings:
                    self.settings[obj.name] = obj.value
                elif obj.required:
                    raise KernelFeatureError(f"there is no sysctl {obj.name}", hint="a newer kernel is needed")
            case SourceRule() | Guard():
                self._put(obj)
            case _:
                assert_never(obj)

    async def remove(self, obj: KernelObject) -> None:
        """See `KernelPort`."""
        self._maybe_fail(obj)
        match obj:
            case XfrmInterface():
                if self.objects.pop(obj.key, None) is not None:
                    self.changes_made.append(f"- {obj.key}")
                    self._device_gone(obj.name)
            case NextHop() | NextHopGroup():
                self._drop_next_hop(obj.id)
            case SourceRule() | UnderlayRoute() | PrefixRoute():
                if self.objects.pop(obj.key, None) is not None:
                    self.changes_made.append(f"- {obj.key}")
            case Sysctl() | Guard():
                pass
            case _:
                assert_never(obj)

    def delete_device(self, name: str) -> None:
        """Somebody removes a device, ours or not."""
        self.devices.pop(name, None)
        self.objects.pop(("interface", name), None)
        self._device_gone(name)
        for entry in self._interfaces():
            if entry.underlay == name:  # its XFRM interfaces stay, over nothing
                self.objects[entry.key] = replace(entry, underlay="")

    def set_down(self, name: str) -> None:
        """Somebody takes a device down: its next hops and routes go for good."""
        if name in self.devices:
            self.devices[name].up = False
        for entry in self._interfaces():
            if entry.name == name:
                v4 = tuple(address for address in entry.addresses if address.version == 4)
                self.objects[entry.key] = replace(entry, up=False, addresses=v4)
        self._device_gone(name)

    def render(self) -> str:
        """The world as text, one line a thing, sorted."""
        lines = [f"device {name} mtu {device.mtu}" for name, device in self.devices.items()]
        lines += [f"foreign nexthop {number}" for number in self.foreign_next_hops]
        lines += [f"foreign route {destination} metric {metric}" for destination, metric in self.foreign_routes]
        lines += [f"sysctl {name} = {value}" for name, value in self.settings.items()]
        lines += [str(entry) for entry in self.objects.values()]
        return "\n".join(sorted(lines))

    def _interfaces(self) -> list[XfrmInterface]:
        return [entry for entry in self.objects.values() if isinstance(entry, XfrmInterface)]

    def _put(self, obj: KernelObject) -> None:
        if self.objects.get(obj.key) != obj:
            self.changes_made.append(f"+ {obj.key}")
        self.objects[obj.key] = obj

    def _put_interface(self, wanted: XfrmInterface) -> None:
        if wanted.name in self.devices:
            raise ForeignObjectError(f"an interface {wanted.name} exists that is not ours", where=wanted.name)
        found = self.objects.get(wanted.key)
        if isinstance(found, XfrmInterface) and (found.if_id, found.underlay) != (wanted.if_id, wanted.underlay):
            del self.objects[wanted.key]
            self._device_gone(wanted.name)
            found = None
        if found is None:
            if wanted.underlay not in self.devices:
                raise KernelError(f"there is no network device {wanted.underlay}", where=wanted.underlay)
            taken = {device.if_id for device in self.devices.values() if device.if_id}
            taken |= {entry.if_id for entry in self._interfaces()}
            if wanted.if_id in taken:
                raise ForeignObjectError(f"an interface that is not ours has if_id {wanted.if_id}", where=wanted.name)
        self._put(wanted)
        if isinstance(found, XfrmInterface) and found.up and not wanted.up:
            self._device_gone(wanted.name)

    def _put_group(self, group: NextHopGroup) -> None:
        self._refuse_foreign(group.id)
        if not group.members:
            raise KernelError(f"next-hop group {group.id}: the kernel refused it (EINVAL)")
        if any(not 1 <= member.weight <= MAX_WEIGHT for member in group.members):
            raise ValueError("a weight is outside 1 to 256")
        families = {self._family(member.next_hop) for member in group.members}
        if None in families or len(families) != 1:
            raise KernelError(f"next-hop group {group.id}: the kernel refused it (EINVAL)")
        found = self.objects.get(group.key)
        if isinstance(found, NextHopGroup) and bool(found.buckets) != bool(group.buckets):
            raise KernelError(f"next-hop group {group.id}: the kernel refused it (EINVAL)")
        if group.buckets and not self.resilient:
            raise KernelFeatureError(f"next-hop group {group.id}: this kernel does not offer it")
        self._put(group)

    def _put_route(self, route: PrefixRoute) -> None:
        if (str(route.destination), route.metric) in self.foreign_routes:
            raise ForeignObjectError(f"route {route.destination}: one of protocol 4 stands in its place")
        if route.group is not None:
            group = self.objects.get(("group", str(route.group)))
            if not isinstance(group, NextHopGroup):
                raise KernelError(f"route {route.destination}: the kernel refused it (EINVAL)")
            if route.destination.version == 6 and self._family(group.members[0].next_hop) is Family.IPV4:
                raise KernelError(f"route {route.destination}: the kernel refused it (EINVAL)")
        self._put(route)

    def _family(self, number: int) -> Family | None:
        hop = self.objects.get(("nexthop", str(number)))
        return hop.family if isinstance(hop, NextHop) else None

    def _need_device(self, name: str, *, up: bool) -> None:
        interface = self.objects.get(("interface", name))
        device = interface if isinstance(interface, XfrmInterface) else self.devices.get(name)
        if device is None:
            raise KernelError(f"there is no network device {name}", where=name)
        if up and not device.up:
            raise KernelError(f"{name}: the kernel refused it (ENETDOWN)", where=name)

    def _refuse_foreign(self, number: int) -> None:
        if number in self.foreign_next_hops:
            raise ForeignObjectError(f"next hop {number} belongs to protocol 3", hint="remove it")

    def _device_gone(self, name: str) -> None:
        for entry in list(self.objects.values()):
            if isinstance(entry, NextHop) and entry.device == name:
                self._drop_next_hop(entry.id)
            elif isinstance(entry, UnderlayRoute) and entry.device == name:
                self.objects.pop(entry.key, None)

    def _drop_next_hop(self, number: int) -> None:
        for kind in ("nexthop", "group"):
            if self.objects.pop((kind, str(number)), None) is not None:
                self.changes_made.append(f"- {(kind, str(number))}")
        for entry in list(self.objects.values()):
            if isinstance(entry, PrefixRoute) and entry.group == number:
                del self.objects[entry.key]
            if isinstance(entry, NextHopGroup):
                left: tuple[Member, ...] = tuple(member for member in entry.members if member.next_hop != number)
                if not left:
                    self._drop_next_hop(entry.id)
                elif left != entry.members:
                    self.objects[entry.key] = replace(entry, members=left)

    def _maybe_fail(self, obj: KernelObject) -> None:
        for entry in self._failures:
            if entry[0] in {None, obj.key}:
                self._failures.remove(entry)
                raise entry[1]
