"""One description a field: the JSON Schema, `config explain` and docs/configuration.md say the same, and all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from ikeorch.cli.main import run
from ikeorch.config.fields import Field, all_fields, find_field, near_fields
from ikeorch.config.json_schema import DIALECT, configuration_schema
from ikeorch.config.loader import load_config
from ikeorch.config.reference import render_reference
from ikeorch.config.schema import File
from tests.examples import GATEWAY_A, GATEWAY_B
from tests.unit.config.broken import GOOD, deleted_keys, unknown_keys, wrong_values
from tests.unit.config.test_loader import BROKEN

ROOT = Path(__file__).parents[3]
EXAMPLES = {
    "gateway A": GATEWAY_A,
    "gateway B": GATEWAY_B,
    "every key": GOOD,
    **{str(path.relative_to(ROOT)): path.read_text() for path in sorted(ROOT.glob("lab/configs/*/*/ikeorch.yaml"))},
}


def plain(text: str) -> Any:
    """What a program sees that reads YAML 1.2."""
    return YAML(typ="safe", pure=True).load(text)


def validator() -> Draft202012Validator:
    """With our schema."""
    return Draft202012Validator(configuration_schema())


def test_the_schema_is_valid_2020_12() -> None:
    """It says which dialect it is in, has an id, and refuses unknown keys in every section."""
    schema = configuration_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DIALECT
    assert schema["$id"] == "urn:ikeorch:configuration:1"
    assert schema["title"] == "ikeorch configuration"
    for section in (schema, *schema["$defs"].values()):
        assert section["additionalProperties"] is False
    assert schema["properties"]["suites"]["additionalProperties"] is False


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_the_repository_validates(name: str) -> None:
    """The lab's files, the tests' files, and one that uses every key; all load too."""
    errors = [error.message for error in validator().iter_errors(plain(EXAMPLES[name]))]
    assert not errors
    load_config(EXAMPLES[name], name)


SHAPE_ERRORS = [
    (old, new)
    for old, new, _, words in BROKEN
    if words
    and not any(
        rule in words
        for rule in (
            "in none of the uplink",  # rules between values, which `config check` knows
            "did you mean",
            "has room for",
            "overlaps",
            "run through itself",
            "is no address of a host",
            "in IPv6's form",
            "holds no addresses that a host",
            "own address",
            "own name",
            "our own site",
            "stands already",
            "there is no suite",
            "write 1/6 or less",
            "duplicate key",
            "YAML",
        )
    )
]


def test_most_of_the_table_is_about_shape() -> None:
    """The list of exceptions must not eat the cases."""
    assert len(SHAPE_ERRORS) >= 18


@pytest.mark.parametrize(("old", "new"), SHAPE_ERRORS)
def test_every_error_of_shape_is_rejected(old: str, new: str) -> None:
    """What the loader refuses for its shape, the schema refuses too."""
    assert list(validator().iter_errors(plain(GATEWAY_A.replace(old, new, 1))))


@pytest.mark.parametrize("case", [*wrong_values(), *deleted_keys(), *unknown_keys()], ids=lambda case: str(case.name))
def test_mutations_of_the_shape_are_rejected(case: Any) -> None:
    """The same mutations that the loader refuses."""
    assert list(validator().iter_errors(plain(case.text)))


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, for a file of its own."""
    assert run(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == configuration_schema()


def properties(section: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All keys of all sections of the schema."""
    for each in (section, *section["$defs"].values()):
        yield from each["properties"].items()


def test_every_field_is_described_with_unit_and_example() -> None:
    """A new field without them is not finished."""
    for key, entry in properties(configuration_schema()):
        assert entry.get("description"), key
        assert not entry["description"].endswith("."), key
        assert entry.get("examples"), key
    for field in all_fields():
        quantity = field.kind in {"rate", "duration"} or field.kind.startswith("whole number")
        assert bool(field.unit) is quantity, field.path
        assert field.required or field.default or field.keys or "left out" in field.description, field.path


@pytest.mark.parametrize("field", all_fields(), ids=lambda field: str(field.path))
def test_every_example_and_default_is_accepted(field: Field) -> None:
    """Each alone, against the schema of its field; those of sections only show the form."""
    schema = configuration_schema()
    entry = next(entry for path, entry in walk(schema, schema) if path == field.path)
    checker = Draft202012Validator({"$defs": schema["$defs"], **entry})
    if not field.keys:
        assert not list(checker.iter_errors(plain(field.example)[field.name]))
        assert not field.default or not list(checker.iter_errors(plain(f"x: {field.default}")["x"]))


def walk(section: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and schema of every field."""
    for key, entry in section["properties"].items():
        yield f"{prefix}{key}", entry
        array = next((each for each in entry.get("anyOf", [entry]) if "items" in each), None)
        reference = (array["items"] if array else entry).get("$ref")
        if reference:
            below = schema["$defs"][reference.rpartition("/")[2]]
            yield from walk(below, schema, f"{prefix}{key}{'[]' if array else ''}.")


def test_explain_knows_every_field_of_the_models() -> None:
    """Nothing is lost between pydantic and the command."""
    schema = configuration_schema()
    assert {path for path, _ in walk(schema, schema)} == {field.path for field in all_fields()}
    assert set(File.model_fields) == {field.path for field in all_fields() if "." not in field.path}


def test_the_document_holds_the_table_as_it_is_made() -> None:
    """`python -m ikeorch.config.reference` prints it."""
    document = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert render_reference() in document
    for field in all_fields():
        assert f"| `{field.path}` |" in document


def test_explain_tells_all_about_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    """Meaning, type, unit, range, default, what it stands for, an example."""
    assert run(["config", "explain", "peers[].tunnels.replay_window"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "peers[].tunnels.replay_window: how far ESP packets may be reordered; "
        "sequence numbers are always extended (ESN)",
        "  type:       whole number",
        "  unit:       packets",
        "  range:      64 to 4096",
        "  default:    1024",
        "  stands for: swanctl: replay_window",
        "  example:    replay_window: 1024",
    ]


def test_explain_of_a_section_lists_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """With their defaults; JSON holds the same."""
    assert run(["config", "explain", "fabric"]) == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[-4:]] == [
        "neighbors",
        "gateways_in_site",
        "when_unreachable",
        "bandwidth_scale",
    ]
    assert run(["config", "explain", "fabric", "--output", "json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["field"]["path"] == "fabric"
    assert [key["path"] for key in view["keys"]][-1] == "fabric.bandwidth_scale"


def test_explain_without_a_field_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole tree, as text and as JSON."""
    assert run(["config", "explain", "--output", "plain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [field.path for field in all_fields()]
    assert run(["config", "explain", "--output", "json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["format_version"] == 1
    assert len(view["fields"]) == len(lines)


@pytest.mark.parametrize("name", ["peers[].inner", "peers.inner", "peers[3].inner[0]", " peers[].inner "])
def test_a_field_may_be_written_as_an_error_names_it(name: str) -> None:
    """With or without brackets and positions."""
    found = find_field(name)
    assert found is not None
    assert found.path == "peers[].inner"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rekey_time", "peers[].tunnels.rekey_time"),
        ("peers[].rekey_tme", "peers[].tunnels.rekey_time"),
        ("gateway.uplink", "gateway.uplinks"),
        ("fabric.when_unreachabel", "fabric.when_unreachable"),
    ],
)
def test_an_unknown_field_exits_64_with_near_ones(name: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The path that was probably meant."""
    assert run(["config", "explain", name]) == 64
    error = capsys.readouterr().err
    assert f"there is no field {name!r}" in error
    assert near in error
    assert near in near_fields(name)
