"""A paced UDP stream with sequence numbers over many flows: ``stream receive`` and ``stream send``.

The sender spreads its packets over a number of sockets, so that they run over all tunnels, or sends them as one flow
from a given source port. Each packet carries its sequence number and a text that must never be seen in clear. The
receiver says when the first one has come, ends by itself, after the sender's last packet or after a silence, and tells
which numbers are missing.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import struct
import sys
import time
from collections.abc import Set as AbstractSet

MAGIC = b"IKEORCH-PLAINTEXT-MAGIC-7f3a91c5"
"""What captures on the underlay look for."""
_HEADER = struct.Struct("!Q Q")
MAX_PACKETS = 1_000_000
LAST_COPIES = 5
SO_RCVBUFFORCE = 33
"""asm-generic/socket.h; Python's socket module does not name it."""
BUFFER = 8 * 1024 * 1024


def send(
    address: str, port: int, *, rate: float, count: int, flows: int, size: int, source_port: int = 0
) -> dict[str, object]:
    """Send `count` packets at `rate` a second, over `flows` sockets in turn; fewer when SIGTERM comes before.

    With a source port the sockets have it and those that follow it, and are not connected: a connected socket gives its
    packets a random hash, which a gateway in the same kernel would use instead of addresses and ports
    (sk_set_txhash, fib_multipath_hash), so that nobody could tell before which way they go.

    Returns:
        How many were sent, how long it took, and how late the latest was.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sockets = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(flows)]
    for number, each in enumerate(sockets):
        if source_port:
            each.bind(("", source_port + number))
        else:
            each.connect((address, port))
    target = (address, port) if source_port else None
    padding = MAGIC * (max(size - _HEADER.size, len(MAGIC)) // len(MAGIC))
    began = time.monotonic()
    refused = 0
    latest = 0.0
    ended = False

    def end(_number: int, _frame: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    for number in range(count):
        if ended:
            count = number
            break
        pause = began + number / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        latest = max(latest, -pause)
        try:
            _send(sockets[number % flows], _HEADER.pack(number, count) + padding, target)
        except OSError:
            refused += 1
    took = time.monotonic() - began
    for _ in range(LAST_COPIES):
        for each in sockets[:4]:
            try:
                _send(each, _HEADER.pack(count, count) + padding, target)
            except OSError:
                refused += 1
        time.sleep(0.05)
    for each in sockets:
        each.close()
    return {"sent": count, "refused": refused, "seconds": round(took, 3), "late_seconds": round(latest, 3)}


def _send(sock: socket.socket, packet: bytes, target: tuple[str, int] | None) -> None:
    if target is None:
        sock.send(packet)
    else:
        sock.sendto(packet, target)


def receive(address: str, port: int, *, silence: float, longest: float) -> dict[str, object]:
    """Receive until the sender's end mark, a silence after the first packet, or the longest time.

    Returns:
        Counts of received, lost and duplicated packets, and the first and last lost numbers.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    listener.bind((address, port))
    listener.settimeout(longest)
    print("ready", flush=True)
    seen: set[int] = set()
    duplicates = 0
    total = 0
    ends = time.monotonic() + longest
    while time.monotonic() < ends:
        try:
            packet = listener.recv(65536)
        except TimeoutError:
            break
        if len(packet) < _HEADER.size or MAGIC not in packet:
            continue
        number, total = _HEADER.unpack_from(packet)
        if number >= total:
            # the end mark: what is still on its way gets a moment
            listener.settimeout(0.3)
            continue
        listener.settimeout(silence)
        if number in seen:
            duplicates += 1
        elif len(seen) < MAX_PACKETS:
            if not seen:
                print("running", flush=True)
            seen.add(number)
    return {"duplicated": duplicates, **describe_losses(total, seen)}


def describe_losses(total: int, seen: AbstractSet[int]) -> dict[str, object]:
    """What is missing of a stream.

    Args:
        total: how many packets were sent, numbered from 0.
        seen: the numbers that arrived.

    Returns:
        Counts of sent, received and lost packets, the first 20 lost numbers, and the last one (None without a loss).
    """
    lost = sorted(set(range(total)) - seen)
    return {
        "total": total,
        "received": len(seen),
        "lost": len(lost),
        "first_lost": lost[:20],
        "last_lost": lost[-1] if lost else None,
    }


def main() -> None:
    """Run one end; the result is one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("send", "receive"))
    parser.add_argument("address")
    parser.add_argument("--port", type=int, default=5002)
    parser.add_argument("--rate", type=float, default=500.0, help="packets a second")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--flows", type=int, default=64)
    parser.add_argument("--source-port", type=int, default=0, help="of the first flow; any when 0")
    parser.add_argument("--size", type=int, default=200, help="bytes of payload")
    parser.add_argument("--silence", type=float, default=5.0, help="seconds")
    parser.add_argument("--longest", type=float, default=120.0, help="seconds")
    arguments = parser.parse_args()
    if arguments.mode == "receive":
        result = receive(arguments.address, arguments.port, silence=arguments.silence, longest=arguments.longest)
    else:
        result = send(
            arguments.address,
            arguments.port,
            rate=arguments.rate,
            count=min(arguments.count, MAX_PACKETS),
            flows=max(1, min(arguments.flows, 1000)),
            size=arguments.size,
            source_port=arguments.source_port,
        )
    json.dump(result, sys.stdout)
    print()


if __name__ == "__main__":
    main()
