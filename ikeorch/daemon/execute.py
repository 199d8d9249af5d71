"""Carry out a plan: one action after the other, each failure contained to its tunnel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from ikeorch.core.desired import CredentialBundle
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import NextHopGroup
from ikeorch.core.plan import (
    Action,
    Advertise,
    EnsureObject,
    Initiate,
    LoadAuthority,
    LoadConnection,
    LoadKey,
    Operation,
    RemoveObject,
    Terminate,
    UnloadConnection,
)
from ikeorch.core.secret import Secret
from ikeorch.daemon.ports import CharonPort, FabricPort, KernelPort
from ikeorch.errors import CharonUnreachableError, IkeorchError


@dataclass(frozen=True, slots=True)
class Failure:
    """An action that could not be carried out."""

    action: Action
    error: IkeorchError


class Executor:
    """Carries out actions through the adapters.

    Args:
        kernel: the kernel.
        charon: charon.
        fabric: the leafs.
        groups: held while a next-hop group is changed, or the fabric told.
    """

    def __init__(self, kernel: KernelPort, charon: CharonPort, fabric: FabricPort, groups: asyncio.Lock) -> None:
        self._kernel = kernel
        self._charon = charon
        self._fabric = fabric
        self._groups = groups

    async def run(
        self,
        actions: tuple[Action, ...],
        credentials: CredentialBundle | None,
        key: Secret | None,
        *,
        outdated: Callable[[], bool],
    ) -> tuple[tuple[Action, ...], tuple[Failure, ...]]:
        """Carry out actions in order.

        After a failure the rest of that tunnel's actions wait for the next pass; the other tunnels go on. When
        charon is lost on the way, all that concerns it waits. What follows the tunnels' health waits once
        `outdated` says that it has changed.

        Returns:
            What was done, and what failed.
        """
        done: list[Action] = []
        failures: list[Failure] = []
        stopped: set[TunnelId] = set()
        charon_lost = False
        for action in actions:
            if action.tunnel in stopped or (charon_lost and _concerns_charon(action.operation)):
                continue
            try:
                if _follows_health(action.operation):
                    async with self._groups:
                        if outdated():
                            continue
                        await self._perform(action.operation, credentials, key)
                else:
                    await self._perform(action.operation, credentials, key)
            except IkeorchError as error:
                failures.append(Failure(action, error))
                charon_lost = charon_lost or isinstance(error, CharonUnreachableError)
                if action.tunnel is not None:
                    stopped.add(action.tunnel)
            else:
                done.append(action)
        return tuple(done), tuple(failures)

    async def _perform(self, operation: Operation, credentials: CredentialBundle | None, key: Secret | None) -> None:
        match operation:
            case Advertise(wish, _):
                self._fabric.advertise(wish)
            case EnsureObject(target):
                await self._kernel.ensure(target)
            case RemoveObject(target):
                await self._kernel.remove(target)
            case LoadAuthority(name):
                assert credentials is not None
                await self._charon.load_authority(name, credentials.ca)
            case LoadKey():
                assert key is not None
                await self._charon.load_key(key)
            case LoadConnection(connection):
                await self._charon.load_connection(connection)
            case UnloadConnection(name):
                await self._charon.unload_connection(name)
            case Initiate(tunnel):
                await self._charon.initiate(tunnel)
            case Terminate(_, ike_id, force):
                await self._charon.terminate(ike_id, force=force)
            case _:
                assert_never(operation)


def _follows_health(operation: Operation) -> bool:
    """Whether it says what tunnels can carry, which a failure may have changed since the pass began."""
    match operation:
        case Advertise() | EnsureObject(NextHopGroup()):
            return True
        case _:
            return False


def _concerns_charon(operation: Operation) -> bool:
    return not isinstance(operation, Advertise | EnsureObject | RemoveObject)
