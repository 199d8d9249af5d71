"""How single values of the file are read, written and described: addresses, quantities with units, words.

Each type knows three things: how text becomes a value (a refusal says what to write instead), how the value is written
again (`ikeorch config show --effective`), and what the JSON Schema says of it. `x-type` in there is the type's name for
people; `ikeorch.config.fields` reads it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from ipaddress import IPv4Address, ip_address, ip_interface, ip_network
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, StrictInt, StrictStr, WithJsonSchema

from ikeorch.core.ids import NAME_PATTERN
from ikeorch.core.kernel_state import IPAddress, IPInterface, IPNetwork
from ikeorch.core.suites import AEAD_ALGORITHMS, KEY_EXCHANGES, PRF_ALGORITHMS, Suite, parse_suite
from ikeorch.core.units import BitsPerSecond, Seconds, format_duration, format_rate, parse_duration, parse_rate

_SWITCH_WORDS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_SCALE = r"1(?:/([1-9][0-9]{0,8}))?"
_SHOWN = 60


def shown(value: object) -> str:
    """A refused value for a message: quoted, on one line, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _text(value: object) -> str:
    if not isinstance(value, str):
        hint = "put it in quotes"
        if isinstance(value, list | dict) or value is None:
            hint = "one value must stand here, without brackets, dashes or keys of its own"
        raise ValueError(f"{shown(value)} is not text; {hint}")  # noqa: TRY004 - pydantic turns ValueError into a report
    return value


def _address(value: object) -> IPAddress:
    text = _text(value)
    try:
        if "%" not in text:
            return ip_address(text)
    except ValueError:
        pass
    raise ValueError(f"{shown(text)} is no IP address; write one like 192.0.2.1 or 2001:db8::1")


def _router_id(value: object) -> IPv4Address:
    address = _address(value) if isinstance(value, str) and ":" not in value else None
    if not isinstance(address, IPv4Address) or int(address) == 0:
        raise ValueError(
            f"{shown(value)} is no BGP identifier; write four numbers like 10.0.255.1, not 0.0.0.0 (RFC 6286)"
        )
    return address


def _interface_address(value: object) -> IPInterface:
    text = _text(value)
    try:
        if re.fullmatch(r"[^/%]+/[0-9]{1,3}", text):
            return ip_interface(text)
    except ValueError:
        pass
    raise ValueError(f"{shown(text)} is no address with its prefix length; write one like 192.0.2.1/24")


def parse_network(value: object) -> IPNetwork:
    """A prefix.

    Raises:
        ValueError: it is none, or has bits set beyond its length.
    """
    text = _text(value)
    try:
        better = ip_network(text, strict=False) if re.fullmatch(r"[^/%]+/[0-9]{1,3}", text) else None
    except ValueError:
        better = None
    if better is None:
        raise ValueError(f"{shown(text)} is no prefix; write one like 10.2.0.0/16 or 2001:db8::/48")
    if int(ip_interface(text).ip) != int(better.network_address):
        raise ValueError(f"{shown(text)} has bits set beyond its prefix length; did you mean {better}?")
    return better


def _switch(value: object) -> bool:
    """YAML 1.2 reads yes and no as text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCH_WORDS:
        return _SWITCH_WORDS[value.lower()]
    raise ValueError(f"{shown(value)} is neither yes nor no; write yes or no")


def _scale(value: object) -> Fraction:
    match = re.fullmatch(_SCALE, str(value)) if type(value) in {str, int} else None
    if match is None:
        raise ValueError(f"{shown(value)} is no scale; write 1, or a fraction like 1/8")
    return Fraction(1, int(match[1] or 1))


def _delay(value: object) -> float:
    """Charon counts whole seconds; what is rounded down to 0 would switch the detection off unasked."""
    delay = parse_duration(value)
    if 0 < delay < 1:
        raise ValueError(f"{shown(value)} is below charon's resolution; write at least 1s, or 0s to switch it off")
    return delay


def check_pattern(value: object) -> str:
    """One entry of ``include``.

    Raises:
        ValueError: it is no relative path, leads upwards, or is empty.
    """
    text = _text(value)
    parts = text.split("/")
    if not text or text.startswith("/") or ".." in parts or "**" in text or not text.isprintable():
        raise ValueError(
            f"{shown(text)} is no pattern below this file's folder; write one like conf.d/*.yaml, without .. or **"
        )
    return text


def one_or_list(value: object) -> object:
    """A lone value stands for a list of one."""
    return value if isinstance(value, list | dict) or value is None else [value]


def whole(value: object) -> object:
    """Python holds True and 1.0 for 1, and so does pydantic's Literal.

    Raises:
        ValueError: it is no whole number.
    """
    if type(value) is not int:
        raise ValueError(f"{shown(value)} is no whole number; write it without quotes, such as 1")
    return value


def auto_is_none(value: object) -> object:
    """The word ``auto`` as None; a written null is refused."""
    if value is None:
        raise ValueError("nothing is written here; write auto, or leave the key out")
    return None if value == "auto" else value


def _any_case(word: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" for letter in word)


def _alternatives(words: frozenset[str]) -> str:
    return "|".join(sorted(words))


def _schema(kind: str, pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^(?:{pattern})$", "x-type": kind})


_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?:{_OCTET}\.){{3}}{_OCTET}"
_IPV6 = r"(?=[^:]*:[^:]*:)[0-9A-Fa-f:]+(?::(?:[0-9]{1,3}\.){3}[0-9]{1,3})?"
_LENGTH4 = r"(?:3[0-2]|[12]?[0-9])"
_LENGTH6 = r"(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"
_NETWORK = rf"{_IPV4}/{_LENGTH4}|{_IPV6}/{_LENGTH6}"
_QUANTITY = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_FAMILY = PlainSerializer(str)

Name = Annotated[
    StrictStr,
    Field(
        pattern=f"^{NAME_PATTERN}$",
        json_schema_extra={"x-type": "name", "x-form": "lower-case letters, digits and hyphens, at most 32"},
    ),
]
DnsName = Annotated[
    StrictStr,
    Field(
        max_length=180,
        pattern=rf"^{_LABEL}(?:\.{_LABEL})+$",
        json_schema_extra={"x-type": "DNS name", "x-form": "a lower-case DNS name with at least one dot, at most 180"},
    ),
]
Identity = Annotated[
    StrictStr,
    Field(
        pattern=r"^[A-Za-z0-9@._:-]{1,253}$",
        json_schema_extra={"x-type": "IKE identity", "x-form": "letters, digits and @ . _ : -, at most 253"},
    ),
]
Device = Annotated[
    StrictStr,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}$",
        json_schema_extra={"x-type": "network device", "x-form": "letters, digits and _ . @ -, at most 15"},
    ),
]
AbsolutePath = Annotated[
    StrictStr,
    Field(
        pattern=r"^/[^\x00-\x1f]{1,254}$",
        json_schema_extra={"x-type": "absolute path", "x-form": "a path that begins with /, at most 255"},
    ),
]
Asn = Annotated[StrictInt, Field(ge=1, le=4294967294, json_schema_extra={"x-type": "AS number"})]
Address = Annotated[IPAddress, BeforeValidator(_address), _FAMILY, _schema("IP address", f"{_IPV4}|{_IPV6}")]
RouterId = Annotated[IPv4Address, BeforeValidator(_router_id), _FAMILY, _schema("BGP identifier", _IPV4)]
InterfaceAddress = Annotated[
    IPInterface, BeforeValidator(_interface_address), _FAMILY, _schema("IP address with prefix length", _NETWORK)
]
Network = Annotated[IPNetwork, BeforeValidator(parse_network), _FAMILY, _schema("IP prefix", _NETWORK)]
Rate = Annotated[
    int,
    BeforeValidator(parse_rate),
    PlainSerializer(lambda rate: format_rate(BitsPerSecond(rate))),
    _schema("rate", rf"{_QUANTITY}[kMGT](?:bit/s)?"),
]
_WRITE_DURATION = PlainSerializer(lambda duration: format_duration(Seconds(duration)) if duration else "0s")
_DURATION = _schema("duration", rf"{_QUANTITY}(?:ms|s|m|h|d)")
Duration = Annotated[float, BeforeValidator(parse_duration), _WRITE_DURATION, _DURATION]
Delay = Annotated[float, BeforeValidator(_delay), _WRITE_DURATION, _DURATION]
Switch = Annotated[
    bool,
    BeforeValidator(_switch),
    PlainSerializer(lambda value: "yes" if value else "no"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "string", "pattern": f"^(?:{'|'.join(_any_case(word) for word in _SWITCH_WORDS)})$"},
            ],
            "x-type": "yes or no",
        }
    ),
]
SuiteText = Annotated[
    Suite,
    BeforeValidator(lambda value: parse_suite(_text(value))),
    _FAMILY,
    _schema(
        "suite",
        rf"(?:{_alternatives(AEAD_ALGORITHMS)})-(?:{_alternatives(PRF_ALGORITHMS)})-(?:{_alternatives(KEY_EXCHANGES)})",
    ),
]
Scale = Annotated[
    Fraction,
    BeforeValidator(_scale),
    _FAMILY,
    WithJsonSchema({"anyOf": [{"const": 1}, {"type": "string", "pattern": f"^{_SCALE}$"}], "x-type": "1 or 1/N"}),
]
IncludePattern = Annotated[
    StrictStr,
    BeforeValidator(check_pattern),
    _schema("file pattern", r"(?!/)(?!(?:.*/)?\.\.(?:/|$))(?!.*\*\*)[^\x00-\x1f]+"),
]
Mtu = Annotated[
    Annotated[StrictInt, Field(ge=1280, le=65000)] | None,
    BeforeValidator(auto_is_none),
    PlainSerializer(lambda value: "auto" if value is None else value),
]
