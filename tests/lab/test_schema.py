"""The published topologies against containerlab's own schema, which is not part of this project."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from lab.runner import ONE_PAIR, THREE_DC, TWO_DC

SCHEMA = os.environ.get("IKEORCH_CLAB_SCHEMA")


@pytest.mark.skipif(not SCHEMA, reason="IKEORCH_CLAB_SCHEMA does not name containerlab's clab.schema.json")
@pytest.mark.parametrize("path", [TWO_DC, THREE_DC, ONE_PAIR], ids=lambda path: path.name)
def test_topology_is_valid_for_containerlab(path: Path) -> None:
    """It validates, and the same file with an unknown key does not (so the schema is looked at)."""
    assert SCHEMA is not None
    # Python's regular expressions have no Unicode properties; the schema uses them for zone names only.
    schema = json.loads(Path(SCHEMA).read_text().replace(r"\\p{N}\\p{L}", r"\\w"))
    topology = YAML(typ="safe").load(path.read_text())
    jsonschema.validate(topology, schema)
    topology["topology"]["nodes"]["gw-a"]["colour"] = "red"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(topology, schema)
