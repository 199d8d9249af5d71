"""Messages between a lab's keeper on the host and the agent on the lab kernel.

One JSON object a line, in both directions, over a byte stream (a serial line of the guest, or a socket). The
messages are frozen dataclasses; bytes travel as base64. There is no I/O here: text in, messages out.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from dataclasses import dataclass, field

MAX_CHUNK = 2048
"""Bytes of output or input that one message carries at most: a serial line's buffer holds 4096."""

HALTED = -1
"""The id of the Exit by which an agent says that everything is ended and written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The agent is up and takes commands."""

    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a command.

    Attributes:
        id: Chosen by the sender, unique among its running commands.
        argv: Program and arguments; no shell is involved.
        cwd: Working directory, or None for the agent's own.
        env: Variables to add to the agent's environment.
        tty: Whether the command gets a terminal of its own (stdout and stderr then are one stream).
        rows: Height of that terminal.
        cols: Width of that terminal.
        node: Path of a node's control socket, to run inside that node; None for outside all nodes.
    """

    id: int
    argv: tuple[str, ...]
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    tty: bool = False
    rows: int = 24
    cols: int = 80
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Bytes for a command's standard input; no bytes mean end of file."""

    id: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The command's end has taken the last Feed; the next one may come: a serial line loses what does not fit it."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """The terminal of a command has a new size."""

    id: int
    rows: int
    cols: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Send a signal to a command's process group."""

    id: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Bytes that a command wrote; stream 1 is stdout, 2 is stderr."""

    id: int
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A command has ended.

    Attributes:
        id: The command's id.
        code: Exit code as a shell shows it (128 + signal); 127 when it could not be started.
        error: Why it could not be started, else empty.
    """

    id: int
    code: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """End the agent, and the lab kernel with it where it has one of its own."""


Message = Ready | Start | Feed | Taken | Resize | Signal | Output | Exit | Halt
_KINDS: dict[str, type[Message]] = {
    kind.__name__.lower(): kind for kind in (Ready, Start, Feed, Taken, Resize, Signal, Output, Exit, Halt)
}


def encode(message: Message) -> bytes:
    """Return a message as one line.

    Args:
        message: What to send.

    Returns:
        ASCII JSON with its newline.
    """
    body: dict[str, object] = {"kind": type(message).__name__.lower()}
    for item in dataclasses.fields(message):
        value = getattr(message, item.name)
        body[item.name] = base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
    return json.dumps(body, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of one line.

    Args:
        line: One line, with or without its newline.

    Returns:
        The message.

    Raises:
        ValueError: The line holds no message of ours.
    """
    body = json.loads(line)
    if not isinstance(body, dict) or body.get("kind") not in _KINDS:
        raise ValueError(f"not a lab message: {line[:80]!r}")
    kind = _KINDS[body.pop("kind")]
    if "data" in body:
        body["data"] = base64.b64decode(body["data"])
    if "argv" in body:
        body["argv"] = tuple(body["argv"])
    try:
        return kind(**body)
    except TypeError as error:
        raise ValueError(f"not a lab message: {error}") from error


class Splitter:
    """Cuts a byte stream into messages; keeps the unfinished last line."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Message]:
        """Take what arrived and return the messages that are complete.

        Args:
            data: Bytes as they were read.

        Returns:
            Complete messages in their order; lines that are no JSON object (a kernel's chatter) are skipped.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [decode(line) for line in lines if line.startswith(b"{")]


def chunks(data: bytes) -> list[bytes]:
    """Cut bytes into pieces that one message may carry.

    Args:
        data: Any bytes.

    Returns:
        Pieces of at most MAX_CHUNK bytes; none for no bytes.
    """
    return [data[start : start + MAX_CHUNK] for start in range(0, len(data), MAX_CHUNK)]
