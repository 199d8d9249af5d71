"""Send an echo request into each of many interfaces again and again until each came back.

Reads lines ``INTERFACE ADDRESS`` from stdin, prints ``ready``, and ends with one line of JSON: the tunnels that
answered, and after how many seconds all had (null if not within the time).
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import struct
import sys
import time

ECHO_REQUEST = 8
INTERVAL = 0.02


def checksum(data: bytes) -> int:
    """The internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def request(number: int) -> bytes:
    """An echo request; the kernel's ping socket fills in the identifier."""
    body = struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, 0, number & 0xFFFF)
    return struct.pack("!BBHHH", ECHO_REQUEST, 0, checksum(body), 0, number & 0xFFFF)


def run(targets: list[tuple[str, str]], longest: float) -> dict[str, object]:
    """Ask until each answered or the time is over."""
    began = time.monotonic()
    open_sockets: dict[str, socket.socket] = {}
    selector = selectors.DefaultSelector()
    waiting = dict(targets)
    while waiting and time.monotonic() - began < longest:
        for name, address in waiting.items():
            try:
                if name not in open_sockets:
                    each = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
                    each.setblocking(False)
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
                    each.connect((address, 0))
                    selector.register(each, selectors.EVENT_READ, name)
                    open_sockets[name] = each
                open_sockets[name].send(request(len(waiting)))
            except OSError:
                # the interface, its address or its SA is not there yet
                if name in open_sockets and not selector.get_map():
                    del open_sockets[name]
        for key, _ in selector.select(INTERVAL):
            try:
                packet = key.fileobj.recv(2048)  # type: ignore[union-attr]
            except OSError:
                continue
            if len(packet) >= 21 and packet[20] == 0:
                waiting.pop(key.data, None)
    took = time.monotonic() - began
    return {"answered": len(targets) - len(waiting), "seconds": None if waiting else round(took, 4)}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=float, default=60.0, help="seconds")
    arguments = parser.parse_args()
    targets = [(name, address) for name, address in (line.split() for line in sys.stdin)]
    print("ready", flush=True)
    print(json.dumps(run(targets, arguments.longest)))


if __name__ == "__main__":
    main()
