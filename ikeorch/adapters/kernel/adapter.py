"""The kernel as the loop sees it: one snapshot, objects put and removed, and a word when something changed.

Every operation is idempotent and touches only what carries our mark.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import assert_never

import structlog

from ikeorch.adapters.kernel import guard as guard_table
from ikeorch.adapters.kernel import links, routing, sysctl
from ikeorch.adapters.kernel.direct import DirectNetlink
from ikeorch.adapters.kernel.netlink import Netlink
from ikeorch.core.allocate import Kind
from ikeorch.core.kernel_state import (
    Guard,
    KernelObject,
    KernelState,
    NextHop,
    NextHopGroup,
    PrefixRoute,
    SourceRule,
    Sysctl,
    UnderlayRoute,
    XfrmInterface,
)
from ikeorch.errors import KernelError

NETLINK_NETFILTER = 12
SOL_NETLINK = 270
NETLINK_ADD_MEMBERSHIP = 1
"""linux/netlink.h, linux/socket.h; Python's socket module does not name them."""
NOTIFICATIONS = {
    socket.NETLINK_ROUTE: (1, 5, 7, 8, 9, 11, 19, 32),
    NETLINK_NETFILTER: (7,),
}
"""By protocol, the groups: link, IPv4 address, route, rule, IPv6 address, route, rule, next hop (linux/rtnetlink.h);
nftables (linux/netfilter/nfnetlink.h)."""
SETTLE = 0.1
"""Seconds in which notifications are drained before the loop is told once."""

_log = structlog.get_logger("ikeorch.kernel")


class KernelAdapter:
    """The kernel of this network namespace.

    Args:
        guard_file: where the guard is saved for the next boot.
    """

    def __init__(self, *, guard_file: Path) -> None:
        self._guard_file = guard_file
        self._netlink = Netlink()
        self._groups = DirectNetlink()
        self._resilient: bool | None = None

    async def close(self) -> None:
        """Close the netlink sockets."""
        await self._netlink.close()
        self._groups.close()

    async def snapshot(self, sysctls: Iterable[str] = ()) -> KernelState:
        """Everything of ours, and the named settings.

        Raises:
            KernelError: any part cannot be read; a part of the truth would be taken for the whole.
        """
        if self._resilient is None:
            last = Kind.NEXT_HOP.bounds[1]
            self._resilient = await routing.has_resilient_groups(self._netlink, last + 1)
        found_links = await links.read_links(self._netlink)
        names = found_links.names
        objects: list[KernelObject] = [*found_links.owned]
        objects.extend(await routing.read_rules(self._netlink))
        objects.extend(await routing.read_routes(self._netlink, names))
        objects.extend(await routing.read_next_hops(self._netlink, names))
        found = await guard_table.read_guard(self._guard_file)
        if found is not None:
            objects.append(found)
        for name in sysctls:
            setting = sysctl.read_setting(name)
            if setting is not None:
                objects.append(setting)
        return KernelState(
            objects={entry.key: entry for entry in objects},
            resilient=self._resilient,
            devices=found_links.mtus,
        )

    async def ensure(self, obj: KernelObject) -> None:
        """Create the object, or replace the version that is there.

        Raises:
            ForeignObjectError: something that is not ours is in its place.
            KernelFeatureError: the kernel does not offer it.
            NotPermittedError: CAP_NET_ADMIN is missing.
            KernelError: the kernel refuses it.
        """
        match obj:
            case XfrmInterface():
                await links.ensure_interface(self._netlink, obj)
            case SourceRule():
                await routing.put_rule(self._netlink, obj)
            case UnderlayRoute():
                await routing.put_underlay_route(self._netlink, obj, _device_index(obj.device))
            case NextHop():
                await routing.put_next_hop(self._netlink, obj, _device_index(obj.device))
            case NextHopGroup():
                await routing.put_group(self._groups, obj)
            case PrefixRoute():
                await routing.put_prefix_route(self._netlink, obj)
            case Sysctl():
                sysctl.write_setting(obj)
            case Guard():
                await guard_table.put_guard(obj, self._guard_file)
            case _:
                assert_never(obj)

    async def remove(self, obj: KernelObject) -> None:
        """Remove the object; one that is not there is no error. Settings and the guard are never removed.

        Raises:
            KernelError: the kernel refuses.
        """
        match obj:
            case XfrmInterface():
                await links.remove_interface(self._netlink, obj.name)
            case SourceRule():
                await routing.remove_rule(self._netlink, obj)
            case UnderlayRoute() | PrefixRoute():
                await routing.remove_route(self._netlink, obj)
            case NextHop() | NextHopGroup():
                await routing.remove_next_hop(self._netlink, obj.id)
            case Sysctl() | Guard():
                pass
            case _:
                assert_never(obj)

    async def changes(self, wake: Callable[[], None]) -> None:
        """Call `wake` once for every burst of changes to links, addresses, rules, routes, next hops and nftables.

        An overrun of the socket's buffer (ENOBUFS) is one more reason to look; nothing is read from the messages.
        """
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with contextlib.ExitStack() as stack:
            listeners = [stack.enter_context(_listen(*wanted)) for wanted in NOTIFICATIONS.items()]
            for listener in listeners:
                loop.add_reader(listener.fileno(), event.set)
                stack.callback(loop.remove_reader, listener.fileno())
            while True:
                await event.wait()
                await asyncio.sleep(SETTLE)
                event.clear()
                for listener in listeners:
                    _drain(listener)
                wake()


def _listen(protocol: int, groups: Iterable[int]) -> socket.socket:
    """A netlink socket that gets the groups' notifications."""
    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
    try:
        listener.bind((0, 0))
        for group in groups:
            listener.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
    except OSError:
        listener.close()
        raise
    return listener


def _drain(listener: socket.socket) -> None:
    """Read all that is queued; bounded, since the sender may be faster."""
    for _ in range(10_000):
        try:
            listener.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                _log.warning("notifications_failed", reason=os.strerror(error.errno or 0))
                return
            with contextlib.suppress(OSError):
                listener.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _device_index(name: str) -> int:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        raise KernelError(f"there is no network device {name}", where=name) from None
