"""The table of docs/configuration.md, made from the fields: ``python -m ikeorch.config.reference`` prints it."""

from __future__ import annotations

import sys

from ikeorch.config.fields import Field, all_fields


def render_reference() -> str:
    """One line a field: key, what it is, what may be written, what stands when it is left out."""
    lines = ["| key | meaning | value | default |", "|---|---|---|---|"]
    lines += [
        f"| `{field.path}` | {_cell(field.description)} | {_cell(_value(field))} | {_default(field)} |"
        for field in all_fields()
    ]
    return "\n".join(lines) + "\n"


def _value(field: Field) -> str:
    unit = f" {field.unit}" if field.unit and field.limits[-1:].isdigit() else ""
    parts = [field.kind, f"{field.limits}{unit}" if field.limits != field.kind else ""]
    return ", ".join(part for part in parts if part)


def _default(field: Field) -> str:
    if field.required:
        return "required"
    return f"`{field.default}`" if field.default else ""


def _cell(text: str) -> str:
    """Text in a table of Markdown."""
    return text.replace("|", "\\|").replace("<", "\\<")


if __name__ == "__main__":
    sys.stdout.write(render_reference())
