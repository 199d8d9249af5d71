"""The lab kernel's end of the channel: runs commands and carries their streams.

In a guest it reads the serial line that the host gave it; on the host's own kernel a socket. It is the parent of
everything that is run there, so a command's life ends with its own (the guest powers off, or the PID namespace
dies). One thread, one selector, no time-outs: the other end decides how long a command may take.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import selectors
import signal
import struct
import subprocess
import termios
import tty
from collections.abc import Callable
from pathlib import Path

from lab.control import LabError, RemoteChild
from lab.wire import HALTED, Exit, Feed, Halt, Output, Ready, Resize, Signal, Splitter, Start, Taken, chunks, encode

_READ = 16384


class LocalChild:
    """A process outside all nodes."""

    def __init__(self, start: Start, fds: tuple[int, int, int]) -> None:
        self._process = subprocess.Popen(
            start.argv,
            stdin=fds[0],
            stdout=fds[1],
            stderr=fds[2],
            env={**os.environ, **start.env},
            cwd=start.cwd,
            start_new_session=not start.tty,
            preexec_fn=_own_terminal if start.tty else None,  # noqa: PLW1509 - no threads here
        )
        self._pidfd = os.pidfd_open(self._process.pid)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable at the end of the process."""
        return self._pidfd

    def wait(self) -> int:
        """Return the exit code of the ended process."""
        return self._process.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process's group."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def close(self) -> None:
        """Let go of the process's descriptor."""
        os.close(self._pidfd)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Command:
    """One running command: its process and the ends of its streams that stay here."""

    def __init__(self, start: Start) -> None:
        self.id = start.id
        self.streams: dict[int, int] = {}
        if start.tty:
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", start.rows, start.cols, 0, 0))
            inner = (slave, slave, slave)
            self.stdin: int | None = master
            self.streams[master] = 1
        else:
            (child_in, self.stdin), (out, child_out), (err, child_err) = os.pipe(), os.pipe(), os.pipe()
            inner = (child_in, child_out, child_err)
            self.streams |= {out: 1, err: 2}
        self.is_tty = start.tty
        self._left = b""
        if not start.tty and self.stdin is not None:
            os.set_blocking(self.stdin, False)
        try:
            self.child: LocalChild | RemoteChild = (
                LocalChild(start, inner)
                if start.node is None
                else RemoteChild(Path(start.node), start.argv, inner, env=start.env, cwd=start.cwd, tty=start.tty)
            )
        except BaseException:
            for fd in {*self.streams, *inner} | ({self.stdin} if self.stdin is not None else set()):
                os.close(fd)
            raise
        for fd in set(inner):
            os.close(fd)

    def feed(self, data: bytes) -> bool:
        """Pass input on; no data close it.

        Returns:
            Whether all is passed on; else `resume` does the rest once the command reads.
        """
        if self.stdin is None:
            return True
        if not data and not self.is_tty:
            self._close_stdin()
            return True
        self._left = data or b"\x04"
        return self.resume()

    def resume(self) -> bool:
        """Pass on what is left; whether that is all of it."""
        try:
            while self._left and self.stdin is not None:
                self._left = self._left[os.write(self.stdin, self._left) :]
        except BlockingIOError:
            return False
        except OSError:
            self._close_stdin()
        return True

    def _close_stdin(self) -> None:
        if self.stdin is not None and not self.is_tty:
            os.close(self.stdin)
        self.stdin = None

    def close(self) -> None:
        """Close what is still open here."""
        self._close_stdin()
        for fd in self.streams:
            os.close(fd)
        self.child.close()


class Agent:
    """Serves one channel until it closes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._splitter = Splitter()
        self._commands: dict[int, Command] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(fd, selectors.EVENT_READ, self._on_channel)
        self._halted = False

    def serve(self) -> None:
        """Run until the channel closes or says so; then kill what still runs."""
        self._send(Ready(pid=os.getpid()))
        while not self._halted:
            for key, _ in self._selector.select():
                handler: Callable[[], None] = key.data
                handler()
        for command in self._commands.values():
            command.child.send_signal(signal.SIGKILL)
        os.sync()  # a guest is killed next: what it wrote to its shares must be on the host by then
        with contextlib.suppress(OSError):
            self._send(Exit(id=HALTED, code=0))

    def _send(self, message: Ready | Output | Taken | Exit) -> None:
        data = encode(message)
        while data:
            data = data[os.write(self._fd, data) :]

    def _on_channel(self) -> None:
        try:
            data = os.read(self._fd, _READ)
        except OSError:
            data = b""
        if not data:
            self._halted = True
        for message in self._splitter.feed(data):
            match message:
                case Start():
                    self._start(message)
                case Feed() if message.id in self._commands:
                    self._feed(self._commands[message.id], message.data)
                case Signal() if message.id in self._commands:
                    self._commands[message.id].child.send_signal(message.number)
                case Resize() if message.id in self._commands and self._commands[message.id].stdin is not None:
                    size = struct.pack("HHHH", message.rows, message.cols, 0, 0)
                    fcntl.ioctl(self._commands[message.id].stdin or 0, termios.TIOCSWINSZ, size)
                case Halt():
                    self._halted = True
                case _:
                    pass

    def _feed(self, command: Command, data: bytes) -> None:
        if command.feed(data):
            self._send(Taken(id=command.id))
        elif (stdin := command.stdin) is not None:
            self._selector.register(stdin, selectors.EVENT_WRITE, lambda: self._resume(command, stdin))

    def _resume(self, command: Command, stdin: int) -> None:
        if command.resume():
            self._selector.unregister(stdin)
            self._send(Taken(id=command.id))

    def _start(self, start: Start) -> None:
        try:
            command = Command(start)
        except (OSError, LabError, ValueError) as error:
            self._send(Exit(id=start.id, code=127, error=str(error)))
            return
        self._commands[start.id] = command
        for fd in command.streams:
            self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._on_output(command, fd))
        self._selector.register(command.child, selectors.EVENT_READ, lambda: self._on_exit(command))

    def _on_output(self, command: Command, fd: int) -> bool:
        """Carry one read's worth of output; return False at its end."""
        try:
            data = os.read(fd, _READ) if fd in command.streams else b""
        except OSError:  # a terminal whose last user has gone
            data = b""
        for piece in chunks(data):
            self._send(Output(id=command.id, stream=command.streams[fd], data=piece))
        if not data and fd in command.streams:
            self._selector.unregister(fd)
            del command.streams[fd]
            os.close(fd)
            if command.is_tty:
                command.stdin = None
        return bool(data)

    def _on_exit(self, command: Command) -> None:
        code = command.child.wait()
        self._selector.unregister(command.child)
        # What is in the pipes now was written before the end; what a left-over child writes later is not waited for.
        for fd in list(command.streams):
            os.set_blocking(fd, False)
            while self._on_output(command, fd):
                pass
        for fd in command.streams:
            self._selector.unregister(fd)
        if command.stdin is not None and command.stdin in self._selector.get_map():
            self._selector.unregister(command.stdin)
        command.close()
        del self._commands[command.id]
        self._send(Exit(id=command.id, code=code if code >= 0 else 128 - code))


def main() -> None:
    """Serve the device or descriptor of the command line."""
    parser = argparse.ArgumentParser(prog="lab.agent")
    parser.add_argument("--device", help="a serial line to serve")
    parser.add_argument("--fd", type=int, help="an open socket to serve")
    options = parser.parse_args()
    if options.device:
        fd = os.open(options.device, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(fd)
    else:
        fd = options.fd
    os.set_inheritable(fd, False)
    Agent(fd).serve()


if __name__ == "__main__":
    main()
