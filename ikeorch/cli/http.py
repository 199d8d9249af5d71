"""One HTTP request on a unix socket.

The standard library's client loads the whole of TLS and e-mail first, which is a third of the time of a command that
only shows something. This one knows what ikeorchd's API needs: HTTP/1.0, and an answer that ends with the connection.
"""

from __future__ import annotations

import socket
import time

CHUNK = 1024 * 1024


class BadAnswerError(Exception):
    """What came is no HTTP answer, or not all of one."""


def exchange(path: str, method: str, target: str, content: bytes, *, patience: float, limit: int) -> bytes:
    """Ask, and read the answer to its end.

    Args:
        path: the socket.
        method: such as GET.
        target: path and query, already quoted.
        content: JSON, may be empty.
        patience: seconds for all of it.
        limit: bytes of an answer.

    Returns:
        The answer's body.

    Raises:
        OSError: nobody is there, or not within the time.
        BadAnswerError: it is no HTTP, cut off, or larger than the limit.
        ValueError: a target that would be more than one line.
    """
    if not target.isascii() or not target.isprintable() or " " in target:
        raise ValueError(f"{target!r} is no target of a request")
    head = (
        f"{method} {target} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    ends = time.monotonic() + patience
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(patience)
        connection.connect(path)
        connection.sendall(head.encode() + content)
        received = bytearray()
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
            chunk = connection.recv(CHUNK)
            if not chunk:
                return _body(bytes(received))
            received += chunk
            if len(received) > limit:
                raise BadAnswerError("the answer is too large")


def _body(answer: bytes) -> bytes:
    head, separator, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    if not separator or not status.startswith(b"HTTP/1."):
        raise BadAnswerError(
            "the answer is cut off" if not answer or status.startswith(b"HTTP/1.") else "it is no HTTP"
        )
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip() != str(len(body)).encode():
            raise BadAnswerError("the answer is cut off")
    return body
