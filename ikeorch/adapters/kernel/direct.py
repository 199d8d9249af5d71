"""A second rtnetlink socket, for what may not wait: requests whose answer is there when sending returns.

The kernel works on a request within send(2), so a small one needs no event loop: asked directly, a failed tunnel is
out of its groups in one go, also while a snapshot of many routes is being read and decoded. Not for dumps.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

from pyroute2.netlink import NLMSG_ERROR
from pyroute2.netlink.exceptions import NetlinkError

from ikeorch.adapters.kernel.messages import NextHopMessage
from ikeorch.adapters.kernel.netlink import Message, translate
from ikeorch.errors import KernelError

DEADLINE = 1.0
"""Seconds for an answer, which is there at once."""
BUFFER = 65536

_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
_ERRNO = struct.Struct("=i")


class DirectNetlink:
    """A socket for single next-hop requests; opened when needed, and anew after trouble."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def request(self, subject: str, message: NextHopMessage, kind: int, flags: int) -> Sequence[Message]:
        """One request and its one answer, without giving the loop away; as `Netlink.request`.

        Args:
            subject: what it concerns, for the error.
            message: the next hop or group.
            kind: RTM_ number.
            flags: NLM_F_ flags; NLM_F_DUMP has more than one answer and is not for here.

        Raises:
            NetlinkRefusedError: the kernel refused.
            NotPermittedError: CAP_NET_ADMIN is missing.
            KernelError: no answer in time.
        """
        try:
            answer = self._exchange(self._encode(message, kind, flags))
        except OSError as error:
            self.close()
            raise KernelError(f"{subject}: the kernel did not answer ({error!r})") from None
        _, answered, _, _, _ = _HEADER.unpack_from(answer)
        if answered != NLMSG_ERROR:
            found = NextHopMessage(answer)
            found.decode()
            return (found,)
        (code,) = _ERRNO.unpack_from(answer, _HEADER.size)
        if code:
            raise translate(NetlinkError(-code, os.strerror(-code)), subject)
        return ()

    def _encode(self, message: NextHopMessage, kind: int, flags: int) -> bytes:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        message["header"]["type"] = kind
        message["header"]["flags"] = flags
        message["header"]["sequence_number"] = self._sequence
        message.encode()
        return bytes(message.data)

    def _exchange(self, request: bytes) -> bytes:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
            self._socket.bind((0, 0))
            self._socket.settimeout(DEADLINE)
        self._socket.send(request)
        while True:
            answer = self._socket.recv(BUFFER)
            # an answer to an earlier request that was given up is passed over
            if len(answer) >= _HEADER.size and _HEADER.unpack_from(answer)[3] == self._sequence:
                return answer
