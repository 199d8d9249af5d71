"""What every section of the file is, and how its fields are described."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

AUTO_MARK = "x-auto"
LIST_MARK = "x-one-or-list"
"""Marks that `ikeorch.config.json_schema` turns into alternatives: pydantic does not see what happens before it."""


class Section(BaseModel):
    """Base of all sections: unknown keys are refused, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


def described(
    description: str,
    *,
    example: object,
    unit: str = "",
    stands_for: str = "",
    limits: str = "",
    auto: bool = False,
    one_or_list: bool = False,
    **constraints: Any,  # noqa: ANN401 - pydantic's own
) -> Any:  # noqa: ANN401 - what pydantic's Field says that it returns
    """What a field is, for the JSON Schema, `ikeorch config explain` and docs/configuration.md.

    Args:
        description: a sentence with a small first letter and without a full stop.
        example: as it would stand in the file.
        unit: of the value, "" where its type says it.
        stands_for: the swanctl option, kernel object or design decision behind it.
        limits: the range, where the JSON Schema cannot say it.
        auto: the file writes the word ``auto`` where the model has None.
        one_or_list: the file may hold a lone item instead of the list.
        constraints: pydantic's own, such as `ge` and `max_length`.
    """
    extra: dict[str, Any] = {
        "x-unit": unit,
        "x-stands-for": stands_for,
        "x-limits": limits,
        AUTO_MARK: auto,
        LIST_MARK: one_or_list,
    }
    spoken = {key: value for key, value in extra.items() if value}
    return Field(description=description, examples=[example], json_schema_extra=spoken, **constraints)
