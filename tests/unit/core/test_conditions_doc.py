"""docs/conditions.md against the registry: a user who meets a code finds it there, with the same words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ikeorch.core.conditions import REGISTRY, Code, Condition

DOCUMENT = Path(__file__).parents[3] / "docs" / "conditions.md"
_SECTION = re.compile(r"^### `(?P<code>[^`]+)`\n\n(?P<body>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def sections() -> list[tuple[str, str]]:
    """Each code of the document with what stands under it."""
    return [(found["code"], found["body"]) for found in _SECTION.finditer(DOCUMENT.read_text(encoding="utf-8"))]


def test_every_code_is_in_the_document_once_and_no_other() -> None:
    """A new condition needs its section, and one that is gone loses it."""
    assert sorted(code.value for code in Code) == sorted(code for code, _ in sections())


@pytest.mark.parametrize("code", list(Code), ids=lambda code: str(code.value))
def test_the_document_says_what_status_says(code: Code) -> None:
    """Severity, class, damping and hint to the letter, a subject, and what the condition means."""
    condition = Condition(code=code, subject="", message="")
    (body,) = (body for name, body in sections() if name == code.value)
    lines = body.splitlines()
    assert f"- Severity: {condition.severity.value}" in lines
    assert f"- Class: {condition.kind.value}" in lines
    assert f"- Hint: {condition.hint}" in lines
    damping = REGISTRY[code].damping
    assert [line for line in lines if line.startswith("- Damping: ")] == (
        [f"- Damping: {damping:g} s"] if damping else []
    )
    assert any(line.startswith("- Subject: ") for line in lines)
    assert [line for line in lines if line and not line.startswith("- ")]
