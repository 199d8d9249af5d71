"""Count what passes an interface, by kind, and look for a text in clear: ``capture INTERFACE --magic TEXT``.

A packet socket sees every frame in both directions. Runs until SIGTERM or the time is over, then prints one line of
JSON: how many of each kind, how many with the text, and the kernel's count of frames that it could not keep up with.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import signal
import socket
import struct
import sys
import time
from collections import Counter

ETH_P_ALL = 3
SOL_PACKET = 263
LINGER = 0.3
"""Seconds after SIGTERM in which what is queued is still counted."""
PACKET_STATISTICS = 6
SO_RCVBUFFORCE = 33
"""asm-generic/socket.h; Python's socket module does not name it."""
BUFFER = 64 * 1024 * 1024
IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
ESP, UDP, TCP, ICMP, ICMPV6 = 50, 17, 6, 1, 58
IKE_PORTS = {500, 4500}
ND_AND_MLD = {130, 131, 132, 133, 134, 135, 136, 137, 143}
HOP_BY_HOP = 0


def classify(frame: bytes) -> str:
    """The kind of an Ethernet frame: esp, ike, arp, nd-mld, or what it is instead.

    Args:
        frame: from the destination address on.
    """
    if len(frame) < 14:
        return "short"
    (kind,) = struct.unpack_from("!H", frame, 12)
    if kind == ARP:
        return "arp"
    if kind == IPV4 and len(frame) >= 34:
        header = (frame[14] & 15) * 4
        return _transport(frame[23], frame[14 + header :])
    if kind == IPV6 and len(frame) >= 54:
        protocol, payload = frame[20], frame[54:]
        if protocol == HOP_BY_HOP and len(payload) >= 8:
            protocol, payload = payload[0], payload[8 + payload[1] * 8 :]
        return _transport(protocol, payload)
    return f"ethertype-{kind:04x}"


def _transport(protocol: int, payload: bytes) -> str:
    if protocol == ESP:
        return "esp"
    if protocol == UDP and len(payload) >= 4:
        return "ike" if IKE_PORTS & set(struct.unpack_from("!H H", payload)) else "udp"
    if protocol == ICMPV6 and payload:
        return "nd-mld" if payload[0] in ND_AND_MLD else f"icmpv6-{payload[0]}"
    return {TCP: "tcp", UDP: "udp", ICMP: f"icmp-{payload[0] if payload else '?'}"}.get(protocol, f"ip-{protocol}")


def capture(interface: str, magic: bytes, longest: float) -> dict[str, object]:
    """Count until SIGTERM or the longest time."""
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    listener.bind((interface, 0))
    listener.settimeout(0.1)
    deadline = time.monotonic() + longest

    def end(_number: int, _frame: object) -> None:
        nonlocal deadline
        deadline = time.monotonic() + LINGER

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    kinds: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    in_clear = 0
    while time.monotonic() < deadline:
        try:
            frame = listener.recv(65536)
        except TimeoutError:
            continue
        kind = classify(frame)
        kinds[kind] += 1
        if kind == "ike" and frame[12:14] == b"\x08\x00":
            sources[f"{socket.inet_ntoa(frame[26:30])}>{socket.inet_ntoa(frame[30:34])}"] += 1
        if magic and magic in frame:
            in_clear += 1
    statistics = listener.getsockopt(SOL_PACKET, PACKET_STATISTICS, ctypes.sizeof(ctypes.c_uint) * 2)
    _, dropped = struct.unpack("II", statistics)
    return {"kinds": dict(kinds), "ike": dict(sources), "magic": in_clear, "missed": dropped}


def main() -> None:
    """Run a capture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interface")
    parser.add_argument("--magic", default="")
    parser.add_argument("--longest", type=float, default=120.0, help="seconds")
    arguments = parser.parse_args()
    json.dump(capture(arguments.interface, arguments.magic.encode(), arguments.longest), sys.stdout)
    print()


if __name__ == "__main__":
    main()
