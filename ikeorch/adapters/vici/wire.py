"""VICI's bytes: packets and messages. No I/O.

What we send is encoded by the `vici` package. What charon sends is decoded here: the package's decoder takes a
truncated message for a whole one, passes over markers that it does not know and drops the first of two sections with
one name; this one refuses all three, and is held equal to the package's on everything else by a differential test.
Everything that comes from the socket is hostile until then: lengths and depth are bounded, and whatever the bytes are,
a decoder returns or raises `WireError` (strongSwan: src/libcharon/plugins/vici/README.md).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from vici.protocol import Message as Codec
from vici.protocol import Packet

HEADER = struct.Struct("!I")
MAX_SEGMENT = 512 * 1024
"""charon's own limit (vici_socket.c)."""

MAX_DEPTH = 16
"""Sections within sections; charon's deepest message, load-conn's own, has 4."""

_KINDS = frozenset({Packet.CMD_RESPONSE, Packet.CMD_UNKNOWN, Packet.EVENT_CONFIRM, Packet.EVENT_UNKNOWN, Packet.EVENT})

Value: TypeAlias = "bytes | list[bytes] | Section"
Section: TypeAlias = "dict[str, Value]"
Outgoing: TypeAlias = "Mapping[str, str | bytes | int | Sequence[str | bytes] | Outgoing]"


class WireError(ValueError):
    """Bytes that are not VICI, or values that VICI cannot carry."""


@dataclass(frozen=True, slots=True)
class Received:
    """One packet from charon.

    Attributes:
        kind: one of `Packet`'s numbers: CMD_RESPONSE, CMD_UNKNOWN, EVENT_CONFIRM, EVENT_UNKNOWN or EVENT.
        event: name of the event, "" for everything else.
        message: its content; empty where the kind has none.
    """

    kind: int
    event: str
    message: Section


def encode_request(command: str, message: Outgoing) -> bytes:
    """A framed command.

    Raises:
        WireError: a value of a type that VICI does not carry, or too long.
    """
    return _frame(Packet.request(command, _serialize(message)))


def encode_registration(event: str, *, register: bool) -> bytes:
    """A framed registration or deregistration of an event."""
    return _frame(Packet.register_event(event) if register else Packet.unregister_event(event))


def _serialize(message: Outgoing) -> bytes:
    try:
        return bytes(Codec.serialize(_plain(message)))
    except (struct.error, UnicodeEncodeError) as error:
        raise WireError(f"a message cannot be encoded: {error}") from None


def _plain(message: Outgoing) -> dict[str, object]:
    """Only what charon reads as meant: text, bytes, numbers, lists of text or bytes, and sections."""
    plain: dict[str, object] = {}
    for key, value in message.items():
        if isinstance(value, Mapping):
            plain[key] = _plain(value)
        elif isinstance(value, str | bytes):
            plain[key] = value
        elif type(value) is int:
            plain[key] = str(value)
        elif isinstance(value, list | tuple) and all(isinstance(item, str | bytes) for item in value):
            plain[key] = list(value)
        else:
            raise WireError(f"{key}: {type(value).__name__} is nothing that VICI carries")
    return plain


def _frame(packet: bytes) -> bytes:
    if len(packet) > MAX_SEGMENT:
        raise WireError(f"a packet of {len(packet)} bytes is longer than VICI allows")
    return HEADER.pack(len(packet)) + packet


def packet_length(header: bytes) -> int:
    """The length that a frame's header announces.

    Raises:
        WireError: zero, or more than VICI allows.
    """
    (length,) = HEADER.unpack(header)
    if not 1 <= length <= MAX_SEGMENT:
        raise WireError(f"a packet of {length} bytes is announced")
    return int(length)


def decode_packet(packet: bytes) -> Received:
    """Decode one packet without its frame.

    Raises:
        WireError: it is no well-formed packet.
    """
    if not packet or packet[0] not in _KINDS:
        raise WireError(f"no VICI packet: {f'type {packet[0]}' if packet else 'nothing in it'}")
    kind = packet[0]
    event, position = _name(packet, 1) if kind == Packet.EVENT else ("", 1)
    if kind in {Packet.CMD_RESPONSE, Packet.EVENT}:
        return Received(kind, event, decode_message(packet[position:]))
    return Received(kind, event, {})


def decode_message(payload: bytes) -> Section:
    """Decode a message.

    Raises:
        WireError: it is no well-formed message, or holds one name twice in a section.
    """
    root: Section = {}
    section, outer = root, list[Section]()
    position, end = 0, len(payload)
    while position < end:
        marker = payload[position]
        if marker == Codec.SECTION_END:
            if not outer:
                raise WireError(f"no VICI message: byte {position} ends a section that never began")
            section = outer.pop()
            position += 1
            continue
        name, position = _name(payload, position + 1)
        if name in section:
            raise WireError(f"no VICI message: {name!r} stands twice in one section")
        if marker == Codec.KEY_VALUE:
            section[name], position = _value(payload, position)
        elif marker == Codec.LIST_START:
            section[name], position = _items(payload, position)
        elif marker == Codec.SECTION_START:
            if len(outer) == MAX_DEPTH:
                raise WireError(f"no VICI message: more than {MAX_DEPTH} sections within each other")
            inner: Section = {}
            section[name] = inner
            outer.append(section)
            section = inner
        else:
            raise WireError(f"no VICI message: unknown marker {marker}")
    if outer:
        raise WireError("no VICI message: a section has no end")
    return root


def _items(data: bytes, position: int) -> tuple[list[bytes], int]:
    items: list[bytes] = []
    while position < len(data):
        marker = data[position]
        position += 1
        if marker == Codec.LIST_END:
            return items, position
        if marker != Codec.LIST_ITEM:
            raise WireError(f"no VICI message: marker {marker} in a list")
        item, position = _value(data, position)
        items.append(item)
    raise WireError("no VICI message: a list has no end")


def _name(data: bytes, position: int) -> tuple[str, int]:
    start = position + 1
    end = start + data[position] if position < len(data) else start
    if end > len(data):
        raise WireError(f"no VICI message: the name at byte {position} is cut off")
    try:
        return data[start:end].decode("utf-8"), end
    except UnicodeDecodeError:
        raise WireError(f"no VICI message: the name at byte {position} is not UTF-8") from None


def _value(data: bytes, position: int) -> tuple[bytes, int]:
    start = position + 2
    end = start + int.from_bytes(data[position:start], "big")
    if end > len(data):
        raise WireError(f"no VICI message: the value at byte {position} is cut off")
    return data[start:end], end
