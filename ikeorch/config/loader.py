"""Read a configuration: files, text, shape, rules, spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from ikeorch.config.build import build_spec, known_suites
from ikeorch.config.check import find_conflicts
from ikeorch.config.files import read_sources
from ikeorch.config.migrate import CURRENT
from ikeorch.config.problems import InvalidConfigError, Problem
from ikeorch.config.schema import File
from ikeorch.config.sources import Source, Tree, merge_sources
from ikeorch.config.warn import find_warnings
from ikeorch.config.wording import translate
from ikeorch.core.spec import GatewaySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConfig:
    """A configuration that was accepted.

    Attributes:
        sources: the files it stands in, the main one first.
        tree: the files as one tree of plain values, each with its place.
        file: the same in its checked shape, with the defaults.
        spec: what it means.
        warnings: what works but is probably not meant.
    """

    sources: tuple[Source, ...]
    tree: Tree
    file: File
    spec: GatewaySpec
    warnings: tuple[Problem, ...]


def read_config(path: Path) -> LoadedConfig:
    """Read and check a file and all that it includes.

    Raises:
        ConfigError: it is not there; InvalidConfigError with all its problems.
        NotPermittedError: this user may not read it.
    """
    main, *included = read_sources(path)
    return load_config(main.text, main.name, included)


def load_config(text: str, source: str, included: Sequence[Source] = ()) -> LoadedConfig:
    """Check the text of a configuration.

    Args:
        text: YAML.
        source: the file's name, for people.
        included: the files that its ``include`` stands for; nothing is read here.

    Raises:
        InvalidConfigError: with all problems at once.
    """
    main = Source(source, text)
    tree = merge_sources(main, included)
    try:
        file = File.model_validate(tree.data)
    except ValidationError as error:
        raise InvalidConfigError(source, [translate(tree, item) for item in error.errors()]) from None
    suites = known_suites(file)
    problems = [
        tree.problem(("peers", position, "tunnels", "suite"), f"there is no suite {peer.tunnels.suite!r}", hint)
        for position, peer in enumerate(file.peers)
        if peer.tunnels.suite not in suites
        for hint in (f"name one of {', '.join(sorted(suites))}, or define it under suites",)
    ]
    if problems:
        raise InvalidConfigError(source, problems)
    spec = build_spec(file)
    problems = [tree.problem(*finding) for finding in find_conflicts(spec)]
    if problems:
        raise InvalidConfigError(source, problems)
    warnings = [tree.problem(*finding) for finding in find_warnings(spec)]
    if tree.version != CURRENT:
        reason = f"written for schema_version {tree.version}, read as {CURRENT}"
        hint = "`ikeorch config show --effective` prints it as this version writes it"
        warnings.insert(0, tree.problem(("schema_version",), reason, hint))
    return LoadedConfig(sources=(main, *included), tree=tree, file=file, spec=spec, warnings=tuple(warnings))
