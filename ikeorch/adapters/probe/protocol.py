"""What ikeorchd and the prober say to one another: JSON, one message a line. No I/O.

ikeorchd says which tunnels to probe, all of them each time; the prober says what it has seen, of all tunnels or of
those that changed. Whatever does not have that form is refused as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from ikeorch.adapters.probe.session import ProbeTarget
from ikeorch.adapters.probe.stamp import Sender
from ikeorch.core.health import ProbeState, Verdict
from ikeorch.core.ids import TunnelId
from ikeorch.core.units import Seconds

FORMAT_VERSION = 1
MIN_MTU = 576
"""Bytes; every IPv4 host takes packets of this size (RFC 791), and a probe with its names fits."""
MAX_LINE = 4 * 1024 * 1024
"""Bytes; ten times what a thousand tunnels need."""


_WRONG = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""All that reading a value of the wrong kind raises."""


class ProtocolError(ValueError):
    """A line is no message of the other side's."""


def encode_targets(targets: Mapping[TunnelId, ProbeTarget]) -> bytes:
    """All tunnels that are to be probed, as a line."""
    entries = [
        {
            "tunnel": str(tunnel),
            "interface": target.interface,
            "local": str(target.local),
            "remote": str(target.remote),
            "us": [target.us.gateway, target.us.index],
            "peer": [target.peer.gateway, target.peer.index],
            "known": sorted(target.known),
            "also": target.also,
            "spare": target.spare,
            "proven": target.proven,
            "mtu": target.mtu,
        }
        for tunnel, target in targets.items()
    ]
    return _line({"format_version": FORMAT_VERSION, "targets": entries})


def decode_targets(line: bytes) -> dict[TunnelId, ProbeTarget]:
    """Read `encode_targets`.

    Raises:
        ProtocolError: it is something else.
    """
    try:
        return {
            _tunnel(entry["tunnel"]): ProbeTarget(
                interface=_text(entry["interface"]),
                local=ip_address(_text(entry["local"])),
                remote=ip_address(_text(entry["remote"])),
                us=_sender(entry["us"]),
                peer=_sender(entry["peer"]),
                known=frozenset(_text(name) for name in entry.get("known", [])),
                also=_text(entry.get("also", "")),
                spare=entry["spare"] is True,
                proven=entry["proven"] is True,
                mtu=_mtu(entry.get("mtu", 0)),
            )
            for entry in _message(line)["targets"]
        }
    except _WRONG as error:
        raise ProtocolError(f"these are no targets: {error!r}") from None


def encode_states(states: Mapping[TunnelId, ProbeState], *, whole: bool) -> bytes:
    """What was seen, as a line; `whole` says that there are no other tunnels."""
    entries = [
        {
            "tunnel": str(tunnel),
            "verdict": state.verdict.value,
            "sent": state.sent,
            "received": state.received,
            "rtt": state.rtt,
            "mispaired": state.mispaired,
            "reflector_silent": state.reflector_silent,
            "spare": state.spare,
            "mtu": state.mtu,
            "fits": state.fits,
            "calls_itself": state.calls_itself,
        }
        for tunnel, state in states.items()
    ]
    return _line({"format_version": FORMAT_VERSION, "whole": whole, "states": entries})


def decode_states(line: bytes) -> tuple[dict[TunnelId, ProbeState], bool]:
    """Read `encode_states`: the states, and whether they are all.

    Raises:
        ProtocolError: it is something else.
    """
    try:
        message = _message(line)
        states = {
            _tunnel(entry["tunnel"]): ProbeState(
                verdict=Verdict(entry["verdict"]),
                sent=int(entry["sent"]),
                received=int(entry["received"]),
                rtt=None if entry["rtt"] is None else Seconds(float(entry["rtt"])),
                mispaired=_text(entry["mispaired"]),
                reflector_silent=entry["reflector_silent"] is True,
                spare=entry["spare"] is True,
                mtu=_mtu(entry.get("mtu", 0)),
                fits=entry["fits"] if type(entry.get("fits")) is bool else None,
                calls_itself=_text(entry.get("calls_itself", "")),
            )
            for entry in message["states"]
        }
        return states, message["whole"] is True
    except _WRONG as error:
        raise ProtocolError(f"these are no states: {error!r}") from None


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def _message(line: bytes) -> Any:  # noqa: ANN401 - JSON
    message = json.loads(line)
    if message["format_version"] != FORMAT_VERSION:
        raise ProtocolError(f"format_version is not {FORMAT_VERSION}: the two programs are of different versions")
    return message


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 64 or not value.isprintable():
        raise ProtocolError(f"{value!r:.80} is no name")
    return value


def _mtu(value: object) -> int:
    if type(value) is not int or not (value == 0 or MIN_MTU <= value <= 65535):
        raise ProtocolError(f"{value!r:.80} is no MTU")
    return value


def _tunnel(value: object) -> TunnelId:
    tunnel = TunnelId.parse(_text(value))
    if tunnel is None:
        raise ProtocolError(f"{value!r} is no tunnel")
    return tunnel


def _sender(value: object) -> Sender:
    match value:
        case [str(gateway), int(index)] if gateway.isascii() and len(gateway) <= 32 and 0 <= index <= 255:
            return Sender(gateway, index)
    raise ProtocolError(f"{value!r:.80} names no end of a tunnel")
