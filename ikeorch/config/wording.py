"""pydantic's findings in our words: what is wrong, the range with its unit, and what to write instead.

Everything that a message says of a field comes from `ikeorch.config.fields`.
"""

from __future__ import annotations

from pydantic_core import ErrorDetails

from ikeorch.config.fields import Field, all_fields, field_at, near_fields
from ikeorch.config.problems import Location, Problem
from ikeorch.config.sources import Tree
from ikeorch.config.values import shown

_LONGEST = 400
_SECTION_KINDS = {"model_type", "model_attributes_type", "dict_type"}
_RANGE_KINDS = {"greater_than_equal", "less_than_equal", "greater_than", "less_than"}
_NUMBER_KINDS = {"int_type", "int_from_float", "int_parsing", "int_parsing_size", "float_type", "finite_number"}


def translate(tree: Tree, item: ErrorDetails) -> Problem:
    """One of pydantic's errors as a problem of the file."""
    location, found = _real_location(tree, item["loc"])
    field = field_at(location)
    reason, hint = _say(item, location, found, field)
    reason = reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 3]}..."
    return tree.problem(location, reason, hint)


def _say(item: ErrorDetails, location: Location, found: object, field: Field | None) -> tuple[str, str]:
    """Reason and hint."""
    kind = item["type"]
    if kind == "extra_forbidden":
        return "unknown key", _spelling(location)
    if field is None:
        return f"{shown(found)} is refused", "`ikeorch config explain` lists every key"
    if kind == "missing":
        below = f"its keys: {', '.join(field.keys)}"
        return "is missing", f"add it ({field.description}); {below if field.keys else f'such as `{field.example}`'}"
    if kind == "value_error":
        reason, _, hint = str(item["ctx"]["error"]).rpartition("; ")
        return (reason, hint) if reason else (hint, _advice(field))
    if found is None:
        return "nothing is written here", _advice(field)
    context = item.get("ctx", {})
    if kind in _RANGE_KINDS:
        return f"{shown(found)} is outside {field.limits}{_unit(field)}", _advice(field)
    if kind in _NUMBER_KINDS:
        text = " in quotes" if isinstance(found, str) and found.strip().isdecimal() else ""
        return f"{shown(found)}{text} is no whole number", _advice(field)
    if kind in {"too_short", "too_long"}:
        return f"{context['actual_length']} entries are outside {field.limits}", _advice(field)
    if kind in {"string_too_short", "string_too_long"}:
        return f"{shown(found)} is outside {field.limits}", _advice(field)
    if kind == "literal_error":
        return f"{shown(found)} is not {' or '.join(field.choices)}", _advice(field)
    if kind in _SECTION_KINDS:
        what = "map" if not field.keys else "section"
        return f"{shown(found)} is no {what}", _advice(field)
    if kind == "list_type":
        return f"{shown(found)} is no list", _advice(field)
    if kind in {"string_type", "string_pattern_mismatch"}:
        sort = field.kind.removeprefix("list: ").removeprefix("map: ").partition(" to ")[0]
        return f"{shown(found)} is no {sort}", _advice(field)
    return f"{shown(found)} is refused", _advice(field)


def _unit(field: Field) -> str:
    """The unit behind a range; limits that carry units of their own need none."""
    return f" {field.unit}" if field.unit and field.limits[-1:].isdigit() else ""


def _advice(field: Field) -> str:
    if field.keys:
        start = "write each entry as a section with" if field.kind.startswith("list") else "write below it, indented:"
        return f"{start} {', '.join(field.keys)}"
    unit = _unit(field)
    kind = field.kind.replace("list: ", "a list: ").replace("map: ", "a map: ")
    limits = f", {field.limits}{unit}" if field.limits and field.limits != field.kind else ""
    form = field.form or f"{kind}{limits}"
    return f"write {form}, such as `{field.example}`"


def _spelling(location: Location) -> str:
    """Which key may have been meant: one of the same section, or one that stands elsewhere."""
    section = field_at(location[:-1]) if location[:-1] else None
    known = section.keys if section else tuple(field.path for field in all_fields() if "." not in field.path)
    key = str(location[-1])
    near = near_fields(key)
    here = [path.rpartition(".")[2] for path in near if path.rpartition(".")[2] in known]
    if here:
        return f"did you mean {here[0]}?"
    exact = [path for path in near if path.rpartition(".")[2] == key]
    if exact:
        return f"its place is {' or '.join(exact)}"
    return f"remove it or correct its spelling; known here: {', '.join(known)}"


def _real_location(tree: Tree, location: tuple[int | str, ...]) -> tuple[Location, object]:
    """Pydantic names the members of a union in its location; only what stands in the file is kept, with its value."""
    node: object = tree.data
    real: list[int | str] = []
    for position, part in enumerate(location):
        last = position == len(location) - 1
        if isinstance(node, dict):
            if part not in node and not last:
                continue
            real.append(part)
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            real.append(part)
            node = node[part]
        elif part == "[key]":
            node = real[-1]
    return tuple(real), node
