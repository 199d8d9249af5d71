"""The command line's HTTP: whole answers, and anything else is no answer. What listens there may be anything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ikeorch.cli.client import Client
from ikeorch.cli.http import BadAnswerError, exchange
from ikeorch.errors import DaemonUnreachableError


@contextmanager
def listening(path: Path, answer: bytes, *, hang: bool = False) -> Iterator[list[bytes]]:
    """Something that takes one request and answers with these bytes."""
    heard: list[bytes] = []
    done = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            heard.append(connection.recv(65536))
            connection.sendall(answer)
            if hang:
                done.wait(10)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield heard
        finally:
            done.set()
            thread.join(10)


def ask(path: Path, *, patience: float = 5.0, limit: int = 1000) -> bytes:
    """A request with a body."""
    return exchange(str(path), "POST", "/v1/x?y=1", b"{}", patience=patience, limit=limit)


def test_a_whole_answer_is_returned(tmp_path: Path) -> None:
    """And the request names its length, so that the daemon knows its end."""
    with listening(tmp_path / "s", b"HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\n{\r\n}") as heard:
        assert ask(tmp_path / "s") == b"{\r\n}"
    assert heard[0].startswith(b"POST /v1/x?y=1 HTTP/1.0\r\n")
    assert heard[0].endswith(b"Content-Length: 2\r\n\r\n{}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "cut off"),
        (b"HTTP/1.0 200 OK\r\nContent-Le", "cut off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", "cut off"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n{}", "no HTTP"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 1000, "too large"),
    ],
)
def test_what_is_no_whole_answer_is_refused(tmp_path: Path, answer: bytes, said: str) -> None:
    """The half of an answer is never taken for one; the command exits 4 and says why."""
    with listening(tmp_path / "s", answer), pytest.raises(BadAnswerError, match=said):
        ask(tmp_path / "s")
    if said != "too large":
        with listening(tmp_path / "t", answer), pytest.raises(DaemonUnreachableError, match=said):
            Client(tmp_path / "t").get("/v1/status")


def test_the_time_is_for_the_whole_answer(tmp_path: Path) -> None:
    """One who sends a little and then nothing does not hold the command."""
    with listening(tmp_path / "s", b"HTTP/1.0 200 OK\r\n", hang=True), pytest.raises(TimeoutError):
        ask(tmp_path / "s", patience=0.2)


@pytest.mark.parametrize("target", ["/v1/a b", "/v1/\r\nX: y", "/v1/\xe9"])
def test_a_target_is_one_word(tmp_path: Path, target: str) -> None:
    """Names are quoted by whoever puts them into a path; nothing else may end the line."""
    with pytest.raises(ValueError, match="no target"):
        exchange(str(tmp_path / "s"), "GET", target, b"", patience=1, limit=10)
