"""Between VICI's text and our types: list-sas in, load-conn out. No I/O.

Reading is tolerant, since versions differ and SAs come and go: a key that is missing or odd gives the attribute's
default. Writing is strict: charon checks little, and one wrong key discards a whole connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from ipaddress import ip_address
from typing import TypeVar

from ikeorch.adapters.vici.wire import Outgoing, Section
from ikeorch.core.charon_state import ChildSa, ChildState, Connection, IkeSa, IkeState
from ikeorch.core.ids import MAX_IF_ID
from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.units import Seconds

MAX_REPLAY_WINDOW = 4096
"""Bits; the kernel's limit (XFRMA_REPLAY_ESN_MAX)."""
LIFE_FACTOR = 1.5
RAND_FACTOR = 0.1
"""life_time and rand_time as shares of rekey_time (D10)."""
SELECTORS = ("0.0.0.0/0", "::/0")

E = TypeVar("E", bound=Enum)


def to_ike_sas(message: Section) -> list[IkeSa]:
    """The IKE_SAs of one list-sa event: one section named after its connection."""
    return [_ike_sa(name, section) for name, section in message.items() if isinstance(section, dict)]


def _ike_sa(name: str, section: Section) -> IkeSa:
    children = section.get("child-sas")
    return IkeSa(
        connection=name,
        unique_id=_number(section, "uniqueid"),
        state=_enum(IkeState, section, IkeState.CREATED),
        initiator=_text(section, "initiator") == "yes",
        local_address=_address(section, "local-host"),
        remote_address=_address(section, "remote-host"),
        local_id=_identity(section, "local-id"),
        remote_id=_identity(section, "remote-id"),
        suite=_suite(section, ("encr-alg", "integ-alg", "prf-alg", "dh-group")),
        age=Seconds(_number(section, "established")),
        children=tuple(_child_sa(child) for child in children.values() if isinstance(child, dict))
        if isinstance(children, dict)
        else (),
    )


def _child_sa(section: Section) -> ChildSa:
    return ChildSa(
        name=_text(section, "name"),
        unique_id=_number(section, "uniqueid"),
        state=_enum(ChildState, section, ChildState.CREATED),
        reqid=_number(section, "reqid"),
        if_id_in=_number(section, "if-id-in", base=16),
        if_id_out=_number(section, "if-id-out", base=16),
        spi_in=_number(section, "spi-in", base=16),
        spi_out=_number(section, "spi-out", base=16),
        suite=_suite(section, ("encr-alg", "integ-alg", "dh-group")) + ("/ESN" if _text(section, "esn") == "1" else ""),
        bytes_in=_number(section, "bytes-in"),
        bytes_out=_number(section, "bytes-out"),
        packets_in=_number(section, "packets-in"),
        packets_out=_number(section, "packets-out"),
        age=Seconds(_number(section, "install-time")),
    )


def _text(section: Section, key: str) -> str:
    value = section.get(key)
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _number(section: Section, key: str, *, base: int = 10) -> int:
    try:
        return max(0, int(_text(section, key), base))
    except ValueError:
        return 0


def _enum(kind: type[E], section: Section, default: E) -> E:
    try:
        return kind(_text(section, "state"))
    except ValueError:
        return default


def _address(section: Section, key: str) -> IPAddress | None:
    try:
        return ip_address(_text(section, key))
    except ValueError:
        return None


def _identity(section: Section, key: str) -> str:
    text = _text(section, key)
    return "" if text == "%any" else text


def _suite(section: Section, keys: tuple[str, ...]) -> str:
    """``AES_GCM_16-256/PRF_HMAC_SHA2_384/ECP_384``: what was negotiated, without what is not there."""
    parts = []
    for key in keys:
        text = _text(section, key)
        size = _text(section, "encr-keysize") if key == "encr-alg" else ""
        if text:
            parts.append(f"{text}-{size}" if size else text)
    return "/".join(parts)


def to_load_conn(connection: Connection) -> Outgoing:
    """The load-conn message of a connection.

    Raises:
        ValueError: a value that charon would take without complaint and not as meant.
    """
    if not 1 <= connection.if_id <= MAX_IF_ID:
        raise ValueError(f"if_id {connection.if_id} is outside 1 to {MAX_IF_ID}")
    if not 0 <= connection.replay_window <= MAX_REPLAY_WINDOW:
        raise ValueError(f"replay_window {connection.replay_window} is outside 0 to {MAX_REPLAY_WINDOW}")
    return {connection.name: _connection(connection)}


def _connection(connection: Connection) -> Outgoing:
    rekey = round(connection.rekey_time)
    section: Mapping[str, str | bytes | int | list[str] | Outgoing] = {
        "version": 2,
        "local_addrs": [str(connection.local_address)],
        "remote_addrs": [str(connection.remote_address)],
        "proposals": list(connection.ike_proposals),
        "unique": "never",
        "mobike": "yes" if connection.mobike else "no",
        "send_certreq": "yes",
        "send_cert": "always",
        "keyingtries": 1,
        "dpd_delay": f"{round(connection.dpd_delay)}s",
        "reauth_time": "0s",
        "rekey_time": f"{rekey}s",
        "over_time": f"{round(rekey * (LIFE_FACTOR - 1))}s",
        "rand_time": f"{round(rekey * RAND_FACTOR)}s",
        "local": {"auth": "pubkey", "id": connection.local_id, "certs": [connection.certificate]},
        "remote": {"auth": "pubkey", "id": connection.remote_id, "cacerts": [connection.ca]},
        "children": {connection.name: _child(connection)},
    }
    return section


def _child(connection: Connection) -> Outgoing:
    rekey = round(connection.child_rekey_time)
    return {
        "mode": "tunnel",
        "local_ts": list(SELECTORS),
        "remote_ts": list(SELECTORS),
        "esp_proposals": list(connection.esp_proposals),
        "if_id_in": str(connection.if_id),
        "if_id_out": str(connection.if_id),
        "rekey_time": f"{rekey}s",
        "life_time": f"{round(rekey * LIFE_FACTOR)}s",
        "rand_time": f"{round(rekey * RAND_FACTOR)}s",
        "replay_window": str(connection.replay_window),
        "start_action": "none",
        "close_action": "none",
        "dpd_action": "clear",
        "policies": "yes",
        "hw_offload": "no",
    }
