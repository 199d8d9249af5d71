"""The messages between a lab's keeper and its kernel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.wire import (
    MAX_CHUNK,
    Exit,
    Feed,
    Halt,
    Message,
    Output,
    Ready,
    Resize,
    Signal,
    Splitter,
    Start,
    Taken,
    chunks,
    decode,
    encode,
)

MESSAGES: list[Message] = [
    Ready(pid=7),
    Start(id=1, argv=("sh", "-c", "echo 'ü'"), cwd="/", env={"A": "b\nc"}, tty=True, rows=5, cols=6, node="gw-a"),
    Feed(id=1, data=b"\x00\xff\n"),
    Taken(id=1),
    Resize(id=1, rows=2, cols=3),
    Signal(id=1, number=15),
    Output(id=1, stream=2, data=b""),
    Exit(id=1, code=127, error="no such file"),
    Halt(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_survives_the_wire(message: Message) -> None:
    """What is decoded equals what was encoded, and each message is one line."""
    line = encode(message)
    assert line.count(b"\n") == 1
    assert message == decode(line)


@given(st.lists(st.sampled_from(MESSAGES), max_size=6), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_splitter_does_not_depend_on_how_bytes_arrive(messages: list[Message], cuts: list[int]) -> None:
    """Any fragmentation yields the same messages."""
    stream = b"".join(map(encode, messages))
    splitter, got, at = Splitter(), [], 0
    while at < len(stream):
        step = cuts[at % len(cuts)]
        got += splitter.feed(stream[at : at + step])
        at += step
    assert messages == got


def test_splitter_skips_chatter() -> None:
    """Lines of a kernel between the messages are not messages."""
    assert [Ready(pid=1)] == Splitter().feed(b"[    0.1] Linux\n" + encode(Ready(pid=1)) + b"oops\n")


@pytest.mark.parametrize("line", [b'{"kind":"start"}', b'{"kind":"reboot"}', b"[1]", b"{"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    """A line that holds no message of ours is a ValueError, never something half-made."""
    with pytest.raises(ValueError):
        decode(line)


@given(st.binary(max_size=3 * MAX_CHUNK + 1))
def test_chunks_are_small_and_complete(data: bytes) -> None:
    """Pieces join to the whole, and none is larger than a serial line takes."""
    pieces = chunks(data)
    assert data == b"".join(pieces)
    assert all(0 < len(piece) <= MAX_CHUNK for piece in pieces)
