"""An edit of a configuration of several files: which of them it belongs to.

A peer is changed in the file where it stands; a new one goes to the main file. So an edit changes one file or none.
Takes sources, returns sources; the caller checks them with `load_config` before one is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from ikeorch.config.document import parse_document
from ikeorch.config.edit import add_peer
from ikeorch.config.sources import Source
from ikeorch.errors import ConfigError, UnknownNameError

Sources = tuple[Source, ...]


def pack_sources(sources: Sequence[Source]) -> str:
    """All files as one text, for the history."""
    return json.dumps([[source.name, source.text] for source in sources])


def unpack_sources(text: str) -> Sources:
    """Read `pack_sources`.

    Raises:
        ConfigError: it is something else.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not all(
        isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)
        for entry in entries
    ):
        raise ConfigError("the revision in the database is damaged", hint="take another one: ikeorch history")
    return tuple(Source(name, content) for name, content in entries)


def edit_peer(sources: Sequence[Source], peer: str, edit: Callable[[str, str, str], str]) -> Sources:
    """Change a peer where it stands.

    Args:
        sources: the main file first.
        peer: its name.
        edit: text of the file, name of the peer and name of the file in, new text out.

    Raises:
        UnknownNameError: there is no such peer.
        InvalidConfigError: a text is no configuration.
    """
    known: list[str] = []
    for at, source in enumerate(sources):
        names = _peer_names(source)
        if peer in names:
            return _with_text(sources, at, edit(source.text, peer, source.name))
        known.extend(names)
    raise UnknownNameError(
        f"there is no peer {peer!r}",
        where=sources[0].name,
        hint=f"configured peers: {', '.join(known) or 'none'}; `ikeorch peer add --help` says how one comes",
    )


def append_peer(sources: Sequence[Source], block: str, block_source: str) -> tuple[Sources, str]:
    """Add a peer's block to the main file; an equal one that stands in any file already changes nothing.

    Returns:
        The sources after it, and the peer's name.

    Raises:
        UsageError: another block of that name is there.
        InvalidConfigError: a text is no configuration, or the block is none.
    """
    text, name = add_peer("peers: []\n", block, sources[0].name, block_source)
    at = next((at for at, source in enumerate(sources) if name in _peer_names(source)), 0)
    text, name = add_peer(sources[at].text, block, sources[at].name, block_source)
    return _with_text(sources, at, text), name


def _with_text(sources: Sequence[Source], at: int, text: str) -> Sources:
    return (*sources[:at], replace(sources[at], text=text), *sources[at + 1 :])


def _peer_names(source: Source) -> list[str]:
    peers = parse_document(source.text, source.name, may_be_empty=True).data.get("peers")
    entries = peers if isinstance(peers, list) else []
    return [str(entry.get("name")) for entry in entries if isinstance(entry, dict)]
