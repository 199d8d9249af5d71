"""Keeps a background lab: boots its kernel, holds the topology up, and relays commands to it.

Clients speak lab/wire.py's messages on a unix socket; the keeper gives each command an id of its own on the one
channel to the kernel, and kills the commands of a client that goes away. It ends when it is told to, when its lab
ends, or on SIGTERM, and takes everything with it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.background import HeldLab, HeldNode, lock_path, record_path, write_record
from lab.channel import Channel, ChannelClosedError
from lab.control import LabError
from lab.guest import REPO, Guest, GuestOptions
from lab.run import boot
from lab.state import claim_folder, try_lock
from lab.wire import Exit, Feed, Halt, Output, Resize, Signal, Start, Taken

_HOLD = 0


class Keeper:
    """Relays between clients and the lab's kernel."""

    def __init__(self, channel: Channel, listener: socket.socket) -> None:
        self._kernel = channel
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._nodes: dict[str, str] = {}
        self._commands: dict[int, tuple[Channel, int]] = {}
        self._next_id = 1
        self._ended = False

    def hold(self, arguments: tuple[str, ...]) -> tuple[str, tuple[HeldNode, ...]]:
        """Build the topology on the kernel; its steps go to our output.

        Args:
            arguments: For lab.hold.

        Returns:
            The lab's name, and its nodes.

        Raises:
            LabError: It cannot be built.
        """
        argv = (sys.executable, "-m", "lab.hold", *arguments)
        self._kernel.send(Start(id=_HOLD, argv=argv, cwd=str(REPO)))
        answer, said = b"", b""
        while not answer.endswith(b"\n"):
            for message in self._kernel.take():
                match message:
                    case Output(id=0, stream=1):
                        answer += message.data
                    case Output(id=0):
                        said += message.data
                        os.write(1, message.data)
                    case Exit(id=0):
                        lines = (message.error or said.decode(errors="replace")).strip().splitlines()
                        raise LabError((lines or ["the lab's holder ended"])[-1].removeprefix("error: "))
                    case _:
                        pass
        body = json.loads(answer)
        nodes = tuple(HeldNode(**node) for node in body["nodes"])
        self._nodes = {node.name: node.socket for node in nodes}
        return body["name"], nodes

    def serve(self) -> None:
        """Relay until told to end."""
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._kernel, selectors.EVENT_READ, self._on_kernel)
        while not self._ended:
            for key, _ in self._selector.select():
                handler: Callable[[], None] = key.data
                handler()

    def _accept(self) -> None:
        client = Channel(self._listener.accept()[0])
        self._selector.register(client, selectors.EVENT_READ, lambda: self._on_client(client))

    def _on_kernel(self) -> None:
        try:
            messages = self._kernel.take()
        except ChannelClosedError:
            self._ended = True
            return
        for message in messages:
            if isinstance(message, Exit) and message.id == _HOLD:
                self._ended = True
            if not isinstance(message, Output | Taken | Exit) or message.id not in self._commands:
                continue
            client, theirs = self._commands[message.id]
            if isinstance(message, Exit):
                del self._commands[message.id]
            with contextlib.suppress(ChannelClosedError):  # its end is seen when it is read
                client.send(dataclasses.replace(message, id=theirs))

    def _on_client(self, client: Channel) -> None:
        try:
            messages = client.take()
        except (ChannelClosedError, ValueError):
            self._drop(client)
            return
        for message in messages:
            match message:
                case Start():
                    self._start(client, message)
                case Feed() | Resize() | Signal():
                    for ours, (owner, theirs) in self._commands.items():
                        if owner is client and theirs == message.id:
                            self._kernel.send(dataclasses.replace(message, id=ours))
                case Halt():
                    self._ended = True
                case _:
                    pass

    def _start(self, client: Channel, start: Start) -> None:
        if start.node is not None and start.node not in self._nodes:
            error = f"there is no node {start.node!r}; there are {', '.join(self._nodes)}"
            client.send(Exit(id=start.id, code=127, error=error))
            return
        ours, self._next_id = self._next_id, self._next_id + 1
        self._commands[ours] = (client, start.id)
        place = None if start.node is None else self._nodes[start.node]
        self._kernel.send(dataclasses.replace(start, id=ours, node=place))

    def _drop(self, client: Channel) -> None:
        self._selector.unregister(client)
        client.close()
        for ours, (owner, _) in self._commands.items():
            if owner is client:
                self._kernel.send(Signal(id=ours, number=signal.SIGKILL))


def _keep(options: argparse.Namespace) -> None:
    lock = try_lock(lock_path())
    if lock is None:
        raise LabError("another lab is up, starting or ending")
    folder, alive = claim_folder("keeper")
    try:
        print("booting a lab kernel", flush=True)
        with (
            boot(options.on, GuestOptions(cpu=options.cpu, memory=options.memory, share=options.share)) as kernel,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener,
        ):
            keeper = Keeper(kernel.channel, listener)
            more = ("--bare",) if options.bare else ("--tunnels", str(options.tunnels))
            name, nodes = keeper.hold((str(options.topology), *more))
            listener.bind(str(folder / "socket"))
            listener.listen(16)
            write_record(
                HeldLab(
                    name=name,
                    topology=str(options.topology),
                    kernel="guest" if isinstance(kernel, Guest) else "host",
                    pid=os.getpid(),
                    since=time.time(),
                    socket=str(folder / "socket"),
                    nodes=nodes,
                )
            )
            print("ready", flush=True)
            # Nobody reads our output from here on.
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            with contextlib.suppress(ChannelClosedError):
                keeper.serve()
    finally:
        record_path().unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        alive.close()
        lock.close()


def main() -> int:
    """Keep the lab of the command line."""
    parser = argparse.ArgumentParser(prog="lab.keeper")
    parser.add_argument("topology", type=Path)
    parser.add_argument("--on", default="auto")
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--memory", type=int, default=3072)
    parser.add_argument("--share", type=Path, default=REPO / "build")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--tunnels", type=int, default=0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _keep(parser.parse_args())
    except LabError as error:
        print(str(error).splitlines()[0], flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
