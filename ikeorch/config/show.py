"""The configuration for people: as written, or with every default filled in and every quantity with its unit.

No field holds a secret, only paths of files that do; those are never opened here.
"""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from ikeorch.config.build import known_suites, when_unreachable
from ikeorch.config.document import new_yaml
from ikeorch.config.loader import LoadedConfig


def effective(loaded: LoadedConfig) -> dict[str, Any]:
    """The configuration as one file, in the words of the current schema version, with all defaults.

    Loaded again it means the same.
    """
    file = loaded.file
    written: dict[str, Any] = file.model_dump(mode="json")
    del written["include"]
    written["suites"] = {name: str(suite) for name, suite in known_suites(file).items()}
    written["fabric"]["when_unreachable"] = when_unreachable(file.fabric).value
    for peer in written["peers"]:
        if peer["accept"] is None:
            peer["accept"] = peer["prefixes"]
    return written


def render_effective(loaded: LoadedConfig) -> str:
    """The effective configuration as YAML."""
    yaml = new_yaml()
    yaml.indent(mapping=2, sequence=4, offset=2)
    buffer = io.StringIO()
    yaml.dump(_styled(effective(loaded)), buffer)
    return buffer.getvalue()


def render_written(loaded: LoadedConfig) -> str:
    """Each file's text; several files have their names above them."""
    if len(loaded.sources) == 1:
        return loaded.sources[0].text
    parts = (f"# {source.name}\n{source.text.rstrip()}\n" for source in loaded.sources)
    return "\n".join(parts)


def configuration_view(loaded: LoadedConfig) -> dict[str, Any]:
    """The whole answer to "what is in force", for programs and for the command."""
    return {
        "sources": [source.name for source in loaded.sources],
        "written": loaded.tree.data,
        "effective": effective(loaded),
        "written_text": render_written(loaded),
        "effective_text": render_effective(loaded),
    }


def _styled(value: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    """Sections in block style, lists of plain values on one line, what holds a colon in quotes."""
    if isinstance(value, dict):
        return CommentedMap({key: _styled(each) for key, each in value.items()})
    if isinstance(value, list):
        styled = CommentedSeq(_styled(each) for each in value)
        if not any(isinstance(each, dict) for each in value):
            styled.fa.set_flow_style()
        return styled
    return DoubleQuotedScalarString(value) if isinstance(value, str) and ":" in value else value
