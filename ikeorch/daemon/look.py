"""One look at the world: what cannot be seen is None, and a condition that says why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ikeorch.core.actual import Actual
from ikeorch.core.allocate import Allocations
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.desired import needed_sysctls
from ikeorch.core.kernel_state import reverse_path_setting
from ikeorch.core.spec import GatewaySpec
from ikeorch.daemon.credentials import LoadedCredentials, load_credentials
from ikeorch.daemon.ports import CharonPort, FabricPort, KernelPort
from ikeorch.errors import IkeorchError

T = TypeVar("T")


class Look:
    """Reads kernel, charon, fabric and the credential files.

    Args:
        kernel: the kernel.
        charon: charon.
        fabric: the leafs.
    """

    def __init__(self, kernel: KernelPort, charon: CharonPort, fabric: FabricPort) -> None:
        self._kernel = kernel
        self._charon = charon
        self._fabric = fabric

    def credentials(self, spec: GatewaySpec, found: list[Condition]) -> LoadedCredentials | None:
        """What the credential files hold.

        Args:
            spec: names them.
            found: takes the condition where they cannot be read.
        """
        try:
            return load_credentials(spec.credentials)
        except IkeorchError as error:
            found.append(Condition(code=Code.CREDENTIALS_UNREADABLE, subject="", message=str(error)))
            return None

    async def world(
        self, spec: GatewaySpec, allocations: Allocations, found: list[Condition], *, every_device: bool = False
    ) -> Actual:
        """Kernel and charon at the same time, and what the fabric was told.

        Args:
            spec: says which settings matter.
            allocations: the numbers of its tunnels.
            found: takes a condition for each that cannot be read.
            every_device: the settings of devices that the configuration does not name, too.
        """
        needed = [setting.name for setting in needed_sysctls(spec, allocations)]
        if every_device:
            seen = await _attempt(self._kernel.snapshot, Code.KERNEL_UNREADABLE, [])
            needed.extend(reverse_path_setting(name) for name in (seen.devices if seen else ()))
        kernel, charon = await asyncio.gather(
            _attempt(lambda: self._kernel.snapshot(needed), Code.KERNEL_UNREADABLE, found),
            _attempt(self._charon.snapshot, Code.CHARON_UNREACHABLE, found),
        )
        return Actual(kernel=kernel, charon=charon, fabric=self._fabric.state())


async def _attempt(look: Callable[[], Awaitable[T]], code: Code, found: list[Condition]) -> T | None:
    try:
        return await look()
    except IkeorchError as error:
        found.append(Condition(code=code, subject="", message=str(error)))
        return None
