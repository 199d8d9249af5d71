"""Change the text of a configuration and nothing else in it: comments, order and quotes stay.

Each function takes text and returns text; the caller checks the result with `load_config` before it is written.
"""

from __future__ import annotations

import io

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from ikeorch.config.document import Document, new_yaml, parse_document
from ikeorch.config.entries import list_indent, with_entry, without_entry
from ikeorch.config.problems import InvalidConfigError, Problem
from ikeorch.errors import NotNowError, UnknownNameError


def raise_tunnel_count(text: str, peer: str, count: int, source: str) -> str:
    """As `set_tunnel_count`, but a larger count stays.

    Raises:
        UnknownNameError: there is no such peer.
        InvalidConfigError: the text is no configuration.
    """
    tunnels = _peer_section(parse_document(text, source), peer).get("tunnels")
    present = tunnels.get("count") if isinstance(tunnels, CommentedMap) else None
    if isinstance(present, int) and present > count:
        return text
    return set_tunnel_count(text, peer, count, source)


def set_tunnel_count(text: str, peer: str, count: int, source: str) -> str:
    """Set ``peers[].tunnels.count`` of one peer.

    Raises:
        UnknownNameError: there is no such peer.
        InvalidConfigError: the text is no configuration.
    """
    document = parse_document(text, source)
    section = _peer_section(document, peer)
    tunnels = section.get("tunnels")
    if not isinstance(tunnels, CommentedMap):
        tunnels = CommentedMap()
        tunnels.fa.set_flow_style()
        section["tunnels"] = tunnels
    if tunnels.get("count") == count:
        return text
    if "count" in tunnels:
        tunnels["count"] = count
    else:
        tunnels.insert(0, "count", count)
    return _written(document.root, text)


def add_peer(text: str, block: str, source: str, block_source: str) -> tuple[str, str]:
    """Append a peer's block to ``peers``; an equal one that is there already changes nothing.

    Args:
        text: the configuration.
        block: YAML: one peer as a mapping, as ``ikeorch tunnel add`` prints it, or a list of one.
        source: the configuration's name, for people.
        block_source: the block's name, for people.

    Returns:
        The new text and the peer's name.

    Raises:
        NotNowError: another block of that name is there.
        InvalidConfigError: one of the two is no YAML of that shape.
    """
    wrapped = parse_document(_wrap(block), block_source)
    entries = wrapped.root.get("peers")
    name = entries[0].get("name") if _is_one_peer(entries) else None
    if not isinstance(name, str):
        hint = "give it one peer as `ikeorch tunnel add` prints it on the other gateway"
        raise InvalidConfigError(block_source, [Problem(location=(), reason="no peer block", hint=hint)])
    document = parse_document(text, source)
    peers = document.root.get("peers")
    if not isinstance(peers, CommentedSeq):
        peers = CommentedSeq()
        document.root["peers"] = peers
    for position, present in enumerate(document.data.get("peers") or []):
        if isinstance(present, dict) and present.get("name") == name:
            if present == wrapped.data["peers"][0]:
                return text, name
            line, _ = document.place(("peers", position))
            raise NotNowError(
                f"another peer {name!r} is configured already",
                where=f"{source}:{line}",
                hint=f"more tunnels: `ikeorch tunnel add {name} --count N`; else edit it there, SIGHUP reloads it",
            )
    by_lines = with_entry(text, document, _entry_lines(entries[0], text), wrapped.data["peers"][0])
    if by_lines is not None:
        return by_lines, name
    if not peers:
        peers.fa.set_block_style()
    peers.append(entries[0])
    return _written(document.root, text), name


def remove_peer(text: str, peer: str, source: str) -> str:
    """Remove a peer with all its tunnels.

    Raises:
        UnknownNameError: there is no such peer.
        InvalidConfigError: the text is no configuration.
    """
    document = parse_document(text, source)
    section = _peer_section(document, peer)
    peers = document.root["peers"]
    position = next(at for at, entry in enumerate(peers) if entry is section)
    by_lines = without_entry(text, document, position)
    if by_lines is not None:
        return by_lines
    del peers[position]
    if not peers:
        document.root["peers"] = CommentedSeq()
        document.root["peers"].fa.set_flow_style()
        # a comment above the first peer would stand between the key and the empty list, and break what follows
        document.root.ca.items.pop("peers", None)
    return _written(document.root, text)


def _wrap(block: str) -> str:
    """A lone mapping, or a list, as the value of ``peers``; a whole ``peers:`` section is taken as it is."""
    lines = [line for line in block.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    first = lines[0] if lines else ""
    if first.startswith("peers:"):
        return block
    body = block.splitlines()
    if first.startswith("-"):
        return "peers:\n" + "\n".join(f"  {line}" for line in body) + "\n"
    return "peers:\n  -\n" + "\n".join(f"    {line}" for line in body) + "\n"


def _is_one_peer(entries: object) -> bool:
    return isinstance(entries, CommentedSeq) and len(entries) == 1 and isinstance(entries[0], CommentedMap)


def _peer_section(document: Document, peer: str) -> CommentedMap:
    entries = document.root.get("peers")
    names = []
    for entry in entries if isinstance(entries, CommentedSeq) else []:
        if isinstance(entry, CommentedMap):
            if entry.get("name") == peer:
                return entry
            names.append(str(entry.get("name")))
    known = ", ".join(names) or "none"
    raise UnknownNameError(
        f"there is no peer {peer!r}",
        where=document.source,
        hint=f"configured peers: {known}; `ikeorch peer add --help` says how one comes",
    )


def _entry_lines(entry: CommentedMap, text: str) -> str:
    """An entry of ``peers`` as lines, in the indentation that the file has."""
    root = CommentedMap()
    root["peers"] = CommentedSeq([entry])
    return _written(root, text).partition("\n")[2]


def _written(root: CommentedMap, text: str) -> str:
    """A tree as text, in the indentation that the file has."""
    yaml = new_yaml()
    if (found := list_indent(text)) is not None:
        offset, content = found
        yaml.indent(mapping=2, sequence=content, offset=offset)
    buffer = io.StringIO()
    yaml.dump(root, buffer)
    return buffer.getvalue()
