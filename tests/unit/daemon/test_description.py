"""The API's description against the code: the same paths and methods, the same words in every enumeration."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, cast

import jsonschema
import pytest
from aiohttp import web

from ikeorch.core.charon_state import ChildState, IkeState
from ikeorch.core.conditions import Code, Kind, Severity
from ikeorch.core.ids import MAX_IF_ID, MAX_TUNNELS_PER_BUNDLE
from ikeorch.core.plan import Impact, Symbol
from ikeorch.core.revision import Outcome
from ikeorch.core.spec import WhenUnreachable
from ikeorch.core.status import TunnelState
from ikeorch.daemon.api import Api
from ikeorch.daemon.description import api_description
from ikeorch.daemon.terms import LONGEST

METHODS = {"get", "put", "post", "delete", "patch"}
SCHEMAS = api_description()["components"]["schemas"]
OPERATIONS = [
    (path, method, operation) for path, item in api_description()["paths"].items() for method, operation in item.items()
]


def routes() -> set[tuple[str, str]]:
    """Every path and method that the daemon serves."""
    nobody = cast("Any", None)
    application: web.Application = Api(nobody, nobody, nobody).application()
    served = ((route.resource, route.method.lower()) for route in application.router.routes())
    return {(resource.canonical, method) for resource, method in served if resource and method in METHODS}


def test_every_route_is_described_and_no_other() -> None:
    """A path without its description, or one that is gone, is an error."""
    assert routes() == {(path, method) for path, method, _ in OPERATIONS}


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=lambda each: str(each)[:40])
def test_each_operation_says_who_may_and_what_it_takes(path: str, method: str, operation: dict[str, Any]) -> None:
    """Path parameters are all described; what changes something needs the role for it; refusals have one form."""
    described = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
    assert set(re.findall(r"\{([^}]+)\}", path)) == described
    assert operation["x-role"] == ("view" if method == "get" else "operate")
    assert ("403" in operation["responses"]) is (operation["x-role"] == "operate")
    assert ("413" in operation["responses"]) is ("requestBody" in operation)
    for status, answer in operation["responses"].items():
        if status == "200":
            assert answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2] in SCHEMAS
        else:
            assert answer["$ref"].rpartition("/")[2] in api_description()["components"]["responses"]


def test_operation_ids_are_unique() -> None:
    """Programs are generated from them."""
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("schema", "keys", "enumeration"),
    [
        ("Condition", ("code",), Code),
        ("Condition", ("class",), Kind),
        ("Condition", ("severity",), Severity),
        ("Reason", ("code",), Code),
        ("Tunnel", ("state",), TunnelState),
        ("Tunnel", ("ike", "state"), IkeState),
        ("Tunnel", ("child", "state"), ChildState),
        ("Fabric", ("when_unreachable",), WhenUnreachable),
        ("Revision", ("outcome",), Outcome),
        ("RevisionFiles", ("outcome",), Outcome),
    ],
)
def test_enumerations_have_the_codes_words(schema: str, keys: tuple[str, ...], enumeration: type[Enum]) -> None:
    """A new word is described before anybody meets it."""
    described = SCHEMAS[schema]
    for key in keys:
        described = described["properties"][key]
    assert sorted(described["enum"]) == sorted(member.value for member in enumeration)


def test_a_plan_has_the_codes_words() -> None:
    """Its symbols and impacts."""
    action = SCHEMAS["Plan"]["properties"]["actions"]["items"]["properties"]
    assert action["symbol"]["enum"] == [member.value for member in Symbol]
    assert action["impact"]["enum"] == [member.value for member in Impact]


def test_limits_are_the_codes() -> None:
    """Of numbers that a caller sends, or meets."""
    paths = api_description()["paths"]
    counts = paths["/v1/peers/{peer}/tunnels"]["put"]["requestBody"]["content"]["application/json"]["schema"][
        "properties"
    ]
    assert {counts[key]["maximum"] for key in ("count", "at_least")} == {MAX_TUNNELS_PER_BUNDLE}
    apply = paths["/v1/apply"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {apply[key]["maximum"] for key in ("confirm_within", "wait_for_peer")} == {LONGEST}
    assert SCHEMAS["Tunnel"]["properties"]["if_id"]["maximum"] == MAX_IF_ID


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_each_schema_is_json_schema(name: str) -> None:
    """OpenAPI 3.1 takes JSON Schema 2020-12 as it is."""
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
