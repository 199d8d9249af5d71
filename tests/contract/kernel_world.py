"""The two kernels that the suite runs against, and what somebody else does to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ikeorch.adapters.kernel.adapter import KernelAdapter
from ikeorch.daemon.ports import KernelPort
from tests.contract.netns import add_device, fresh_namespace, ip, ip_json
from tests.fakes.fake_kernel import FakeDevice, FakeKernel


class World(Protocol):
    """A kernel, and the hands of a stranger on it."""

    adapter: KernelPort

    def add_foreign_xfrm(self, name: str, if_id: int) -> None:
        """Somebody's XFRM interface over ``up0``."""

    def add_foreign_next_hop(self, number: int) -> None:
        """Somebody's next hop."""

    def add_foreign_route(self, destination: str, metric: int) -> None:
        """Somebody's route in the main table."""

    def has_foreign_route(self, destination: str, metric: int) -> bool:
        """Whether it still stands."""

    def delete_device(self, name: str) -> None:
        """Somebody removes a device."""

    def set_down(self, name: str) -> None:
        """Somebody takes a device down."""

    async def close(self) -> None:
        """Let go of it."""


class FakeWorld:
    """FakeKernel with the uplinks up0 and up1."""

    def __init__(self) -> None:
        self.kernel = FakeKernel("up0", "up1")
        self.adapter: KernelPort = self.kernel

    def add_foreign_xfrm(self, name: str, if_id: int) -> None:
        self.kernel.devices[name] = FakeDevice(if_id=if_id)

    def add_foreign_next_hop(self, number: int) -> None:
        self.kernel.foreign_next_hops.add(number)

    def add_foreign_route(self, destination: str, metric: int) -> None:
        self.kernel.foreign_routes.add((destination, metric))

    def has_foreign_route(self, destination: str, metric: int) -> bool:
        return (destination, metric) in self.kernel.foreign_routes

    def delete_device(self, name: str) -> None:
        self.kernel.delete_device(name)

    def set_down(self, name: str) -> None:
        self.kernel.set_down(name)

    async def close(self) -> None:
        pass


class RealWorld:
    """A namespace of the running kernel with the uplinks up0 and up1."""

    def __init__(self, folder: Path) -> None:
        for name in ("up0", "up1"):
            add_device(name)
        self.folder = folder
        self._adapter = KernelAdapter(guard_file=folder / "guard.nft")
        self.adapter: KernelPort = self._adapter

    def add_foreign_xfrm(self, name: str, if_id: int) -> None:
        ip("link", "add", name, "type", "xfrm", "dev", "up0", "if_id", str(if_id))
        ip("link", "set", name, "up")

    def add_foreign_next_hop(self, number: int) -> None:
        ip("nexthop", "add", "id", str(number), "dev", "up0", "protocol", "3")

    def add_foreign_route(self, destination: str, metric: int) -> None:
        ip("route", "add", destination, "dev", "up0", "metric", str(metric), "protocol", "static")

    def has_foreign_route(self, destination: str, metric: int) -> bool:
        family = "-6" if ":" in destination else "-4"
        routes = ip_json(family, "route", "show", destination, "protocol", "static")
        return [metric] == [route["metric"] for route in routes]

    def delete_device(self, name: str) -> None:
        ip("link", "delete", name)

    def set_down(self, name: str) -> None:
        ip("link", "set", name, "down")

    async def close(self) -> None:
        await self._adapter.close()


@contextmanager
def real_world(folder: Path) -> Iterator[RealWorld]:
    """A real kernel's fresh namespace."""
    with fresh_namespace():
        yield RealWorld(folder)
