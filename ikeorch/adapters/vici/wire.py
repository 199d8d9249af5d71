"""VICI's bytes: packets and messages, on the `vici` package's codec. No I/O.

Everything that comes from the socket is hostile until it is decoded: lengths are bounded and every fault of the codec
becomes a `WireError` (strongSwan: src/libcharon/plugins/vici/README.md).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from vici.exception import DeserializationException
from vici.protocol import FiniteStream, Packet
from vici.protocol import Message as Codec

HEADER = struct.Struct("!I")
MAX_SEGMENT = 512 * 1024
"""charon's own limit (vici_socket.c)."""

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
    try:
        parsed = Packet.parse(packet)
        kind = int(parsed.response_type)
        event = parsed.event_type.decode("ascii") if kind == Packet.EVENT else ""
        if kind in {Packet.CMD_RESPONSE, Packet.EVENT}:
            return Received(kind, event, decode_message(parsed.payload.read()))
    except (DeserializationException, struct.error, UnicodeDecodeError) as error:
        raise WireError(f"no VICI packet: {error}") from None
    if kind not in {Packet.CMD_UNKNOWN, Packet.EVENT_CONFIRM, Packet.EVENT_UNKNOWN}:
        raise WireError(f"a packet of the unknown type {kind}")
    return Received(kind, event, {})


def decode_message(payload: bytes) -> Section:
    """Decode a message.

    Raises:
        WireError: it is no well-formed message.
    """
    try:
        section: Section = Codec.deserialize(FiniteStream(payload))
    except (DeserializationException, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"no VICI message: {error}") from None
    return section
