"""The JSON Schema (2020-12) of the file, made from the pydantic models; editors and CI of others can check with it.

It describes what YAML 1.2 reads (``yes`` is text there). Rules between values are not in it: `ikeorch config check`
knows them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ikeorch.config.migrate import CURRENT
from ikeorch.config.schema import File
from ikeorch.config.section import AUTO_MARK, LIST_MARK, Section

Json = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_OF_A_LIST = ("type", "items", "minItems", "maxItems")


class _InOrder(GenerateJsonSchema):
    """pydantic's, with the keys of examples in the order in which people write them."""

    def sort(self, value: Json, parent_key: str | None = None) -> Json:
        return value


@cache
def configuration_schema() -> Json:
    """The schema. The keywords ``x-type``, ``x-unit``, ``x-limits`` and ``x-stands-for`` are for people.

    Returns:
        One object for all callers: not to be changed.
    """
    body = File.model_json_schema(schema_generator=_InOrder)
    models = {model.__name__: model for model in Section.__subclasses__()}
    for name, section in {"File": body, **body["$defs"]}.items():
        written = models[name].model_construct().model_dump(mode="json")
        for key, entry in section["properties"].items():
            _amend(entry)
            if "default" in entry:
                entry["default"] = written[key]
    return {
        "$schema": DIALECT,
        "$id": f"urn:ikeorch:configuration:{CURRENT}",
        "title": "ikeorch configuration",
        **{key: value for key, value in body.items() if key != "title"},
        "description": "The configuration file of an ikeorch gateway.",
    }


def _amend(entry: Json) -> None:
    """Say what the validators before pydantic accept, and drop titles that only repeat the key."""
    entry.pop("title", None)
    if "patternProperties" in entry:
        entry["additionalProperties"] = False
    if entry.pop(AUTO_MARK, False):
        entry["anyOf"] = [{"const": "auto"} if each == {"type": "null"} else each for each in entry["anyOf"]]
    if entry.pop(LIST_MARK, False):
        many = {key: entry.pop(key) for key in _OF_A_LIST if key in entry}
        entry["anyOf"] = [many["items"], many]
