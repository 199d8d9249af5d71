"""One rtnetlink socket: requests with deadlines, foreign errors translated once."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from typing import Any

from pyroute2 import AsyncIPRoute
from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import RTM_DELROUTE, RTM_GETROUTE, RTM_NEWROUTE

from ikeorch.adapters.kernel.messages import (
    RTM_DELNEXTHOP,
    RTM_GETNEXTHOP,
    RTM_NEWNEXTHOP,
    NextHopMessage,
    RouteMessage,
)
from ikeorch.errors import KernelError, KernelFeatureError, NotPermittedError

DEADLINE = 10.0
"""Seconds for one request; a dump of thousands of objects takes far less."""
PUT = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
ADD = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
DELETE = NLM_F_REQUEST | NLM_F_ACK

Message = Any
"""A decoded netlink message of pyroute2: a dict with `get` and `get_nested` for attributes."""


def errno_name(number: int) -> str:
    """``EEXIST`` for 17."""
    return errno.errorcode.get(number, str(number))


class Netlink:
    """A socket that is opened when needed and opened anew after trouble."""

    def __init__(self) -> None:
        self._socket: AsyncIPRoute | None = None
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            socket, self._socket = self._socket, None
            socket.close()

    async def _open(self) -> AsyncIPRoute:
        if self._socket is None:
            socket = AsyncIPRoute()
            await socket.setup_endpoint()
            socket.marshal.msg_map = {
                **socket.marshal.msg_map,
                RTM_NEWNEXTHOP: NextHopMessage,
                RTM_DELNEXTHOP: NextHopMessage,
                RTM_NEWROUTE: RouteMessage,
                RTM_DELROUTE: RouteMessage,
            }
            self._socket = socket
        return self._socket

    @contextlib.asynccontextmanager
    async def _exchange(self, subject: str) -> AsyncIterator[AsyncIPRoute]:
        """The socket for one exchange: alone, with a deadline, and closed when it is not known what comes next."""
        async with self._lock:
            socket = await self._open()
            try:
                async with asyncio.timeout(DEADLINE):
                    yield socket
            except NetlinkError as error:
                raise translate(error, subject) from None
            except (TimeoutError, OSError, KeyError) as error:
                await self.close()
                raise KernelError(f"{subject}: the kernel did not answer ({error!r})") from None
            except asyncio.CancelledError:
                await self.close()
                raise

    async def request(
        self, subject: str, message: NextHopMessage | RouteMessage, kind: int, flags: int
    ) -> list[Message]:
        """One request, all its answers.

        Args:
            subject: what it concerns, for the error.
            message: netlink message.
            kind: RTM_ number.
            flags: NLM_F_ flags.

        Raises:
            NetlinkRefusedError: the kernel refused.
            NotPermittedError: CAP_NET_ADMIN is missing.
            KernelError: no answer in time.
        """
        async with self._exchange(subject) as socket:
            return [answer async for answer in await socket.nlm_request(message, kind, flags)]

    async def call(self, subject: str, method: str, *arguments: object, **options: object) -> list[Message]:
        """One of pyroute2's own calls (``link``, ``addr``, ``rule``), all its answers; errors as in `request`."""
        async with self._exchange(subject) as socket:
            answers = await getattr(socket, method)(*arguments, **options)
            if hasattr(answers, "__aiter__"):
                return [answer async for answer in answers]
            return list(answers)

    async def dump_next_hops(self) -> list[Message]:
        """All next-hop objects of the namespace."""
        return await self.request("next hops", NextHopMessage(), RTM_GETNEXTHOP, NLM_F_REQUEST | NLM_F_DUMP)

    async def dump_routes(self, family: int) -> list[Message]:
        """All routes of a family, of every table."""
        message = RouteMessage()
        message["family"] = family
        return await self.request("routes", message, RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP)


class NetlinkRefusedError(KernelError):
    """The kernel answered with an errno.

    Args:
        what: object and errno.
        number: the errno.
    """

    def __init__(self, what: str, number: int) -> None:
        super().__init__(what)
        self.number = number


def translate(error: NetlinkError, subject: str) -> KernelError | NotPermittedError:
    """A netlink error in our words."""
    number = abs(int(error.code))
    if number in {errno.EPERM, errno.EACCES}:
        return NotPermittedError(f"{subject}: not permitted", hint="the daemon needs CAP_NET_ADMIN; run it as root")
    if number in {errno.EOPNOTSUPP, errno.EAFNOSUPPORT}:
        hint = "load it: modprobe xfrm_interface; or run a kernel with CONFIG_XFRM_INTERFACE and next-hop objects"
        return KernelFeatureError(f"{subject}: this kernel does not offer it", hint=hint)
    return NetlinkRefusedError(f"{subject}: the kernel refused it ({errno_name(number)})", number)
