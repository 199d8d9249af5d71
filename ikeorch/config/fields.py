"""Every field of the file as people ask for it, read out of the JSON Schema.

`ikeorch config explain`, the messages of the loader and the table of docs/configuration.md say the same words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from ikeorch.config.json_schema import Json, configuration_schema
from ikeorch.config.problems import Location

_WORDS = {"integer": "whole number", "string": "text", "boolean": "true or false", "number": "number"}
_NEEDS_QUOTES = re.compile(r"[:#{}\[\],&*!|>%@`\"']|^[-? ]|^$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field.

    Attributes:
        path: ``peers[].tunnels.rekey_time``; ``[]`` stands for each entry of a list.
        description: a sentence with a small first letter and without a full stop.
        kind: its type, for people.
        form: how a text must look, "" where the type says it.
        unit: of a number or quantity, else "".
        limits: the range, "" if there is none.
        required: it must be written.
        default: as it would be written; "" when required, or when it follows from other fields.
        choices: the only words that are taken, if they can be listed.
        stands_for: the swanctl option, kernel object or design decision behind it, else "".
        example: one line of YAML.
        keys: the fields below it, by name.
    """

    path: str
    description: str
    kind: str
    form: str
    unit: str
    limits: str
    required: bool
    default: str
    choices: tuple[str, ...]
    stands_for: str
    example: str
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        """The key alone."""
        return self.path.rpartition(".")[2].removesuffix("[]")


@cache
def all_fields() -> tuple[Field, ...]:
    """All fields, a section before what stands in it."""
    schema = configuration_schema()
    return tuple(_walk(schema, schema["$defs"], ""))


def field_at(location: Location) -> Field | None:
    """The field of a place in the file, or of the nearest one around it."""
    parts = tuple(part for part in location if isinstance(part, str))
    for length in range(len(parts), 0, -1):
        found = _by_key().get(parts[:length])
        if found is not None:
            return found
    return None


def find_field(name: str) -> Field | None:
    """The field that a person names: ``peers[].inner``, ``peers.inner`` and ``peers[3].inner[0]`` are the same."""
    return _by_key().get(tuple(re.sub(r"\[[0-9]*\]", "", name.strip()).split(".")))


def near_fields(name: str, most: int = 5) -> tuple[str, ...]:
    """Paths that may have been meant: those with that last key, then those that are spelt alike."""
    key = re.sub(r"\[[0-9]*\]", "", name.strip()).rpartition(".")[2]
    paths = [field.path for field in all_fields()]
    same = [field.path for field in all_fields() if field.name == key]
    names = {field.name for field in all_fields()}
    alike = difflib.get_close_matches(key, sorted(names), n=2, cutoff=0.6)
    similar = [field.path for word in alike for field in all_fields() if field.name == word]
    whole = difflib.get_close_matches(name, paths, n=3, cutoff=0.6)
    return tuple(dict.fromkeys([*same, *whole, *similar]))[:most]


def write_value(value: object) -> str:
    """A value as YAML on one line."""
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return ""
        case list():
            return f"[{', '.join(write_value(each) for each in value)}]"
        case dict():
            return f"{{{', '.join(f'{key}: {write_value(each)}' for key, each in value.items())}}}"
        case str() if _NEEDS_QUOTES.search(value):
            return f'"{value}"'
        case _:
            return str(value)


@cache
def _by_key() -> dict[tuple[str, ...], Field]:
    return {tuple(field.path.replace("[]", "").split(".")): field for field in all_fields()}


def _walk(section: Json, definitions: Json, prefix: str) -> Iterator[Field]:
    required = section.get("required", [])
    for key, raw in section["properties"].items():
        entry = _resolve(raw, definitions)
        path = f"{prefix}{key}"
        listed = _listed(entry, definitions)
        below = entry if "properties" in entry else listed if listed and "properties" in listed else None
        yield Field(
            path=path,
            description=entry.get("description", ""),
            kind=_kind(entry, definitions),
            form=entry.get("x-form", ""),
            unit=entry.get("x-unit", ""),
            limits=_limits(entry),
            required=key in required,
            default="" if key in required or below is entry else write_value(entry.get("default")),
            choices=tuple(str(word) for word in _choices(entry)),
            stands_for=entry.get("x-stands-for", ""),
            example=f"{key}: {write_value(entry['examples'][0])}" if entry.get("examples") else "",
            keys=tuple(below["properties"]) if below else (),
        )
        if below:
            yield from _walk(below, definitions, f"{path}{'[]' if below is listed else ''}.")


def _resolve(entry: Json, definitions: Json) -> Json:
    """Follow a reference; what stands beside it is more precise than what it points to."""
    reference = entry.get("$ref")
    if reference is None:
        return entry
    return {**definitions[reference.rpartition("/")[2]], **{key: each for key, each in entry.items() if key != "$ref"}}


def _variants(entry: Json) -> list[Json]:
    """What may stand there; null only means that the key may be left empty."""
    return [each for each in entry.get("anyOf", [entry]) if each.get("type") != "null"]


def _listed(entry: Json, definitions: Json) -> Json | None:
    """The entries of a list, if it is one."""
    found = next((each["items"] for each in _variants(entry) if each.get("type") == "array"), None)
    return _resolve(found, definitions) if found is not None else None


def _kind(entry: Json, definitions: Json) -> str:
    if "x-type" in entry:
        return str(entry["x-type"])
    variants = _variants(entry)
    if len(variants) > 1:
        kinds = [_kind(_resolve(each, definitions), definitions) for each in variants]
        return f"{kinds[0]}, or a list of them" if kinds[1] == f"list: {kinds[0]}" else " or ".join(kinds)
    (only,) = variants
    if "const" in only or "enum" in only:
        return " or ".join(str(word) for word in _choices(only))
    if only.get("type") == "array":
        return f"list: {_kind(_resolve(only['items'], definitions), definitions)}"
    if "properties" in only:
        return "section"
    if "patternProperties" in only:
        (value,) = only["patternProperties"].values()
        return f"map: name to {_kind(_resolve(value, definitions), definitions)}"
    return str(only.get("x-type") or _WORDS[only["type"]])


def _choices(entry: Json) -> list[Any]:
    variants = _variants(entry)
    words = [word for each in variants for word in each.get("enum", [each["const"]] if "const" in each else [])]
    return words if all("enum" in each or "const" in each for each in variants) else []


def _limits(entry: Json) -> str:
    if "x-limits" in entry:
        return str(entry["x-limits"])
    for each in _variants(entry):
        for least, most, what in (
            ("minimum", "maximum", ""),
            ("minItems", "maxItems", " entries"),
            ("minLength", "maxLength", " characters"),
            ("minProperties", "maxProperties", " entries"),
        ):
            if most in each:
                low = each.get(least, 0)
                return f"{low} to {each[most]}{what}" if low or not what else f"at most {each[most]}{what}"
    return ""
