"""What charon is told over VICI, as swanctl(8) and swanctl.conf(5) write it.

Two things keep these lines from being a script: swanctl.conf takes no dot in a section's name, where VICI does (tried
with 5.9.8), and ``swanctl --load-conns``, ``--load-authorities`` and ``--load-creds`` unload all that their files do
not have (swanctl/commands/load_*.c). So a section has dashes in its name, and the command is a comment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from ikeorch.adapters.vici.convert import to_load_conn
from ikeorch.core.charon_state import Connection
from ikeorch.core.spec import CredentialsSpec

DEFAULT_SOCKET = Path("/run/charon.vici")
"""swanctl's own (libvici: VICI_DEFAULT_URI)."""
_PLAIN = re.compile(r"[A-Za-z0-9._:/@%+,-]+")
_INDENT = "    "


def section_name(name: str) -> str:
    """A connection's name as swanctl.conf takes it."""
    return name.replace(".", "-")


def connection_lines(connection: Connection, files: CredentialsSpec) -> list[str]:
    """A connection as a section of swanctl.conf; the certificates by their files.

    Raises:
        ValueError: a value that charon would not take as meant.
    """
    ((name, section),) = to_load_conn(connection).items()
    assert isinstance(section, Mapping)
    return [
        f"# VICI load-conn {name}; swanctl --load-conns would unload all connections that its file does not have",
        "connections {",
        *_section(section_name(name), section, {"certs": files.certificate, "cacerts": files.ca}, 1),
        "}",
    ]


def authority_lines(name: str, files: CredentialsSpec) -> list[str]:
    """A trust anchor as a section of swanctl.conf."""
    return [
        f"# VICI load-authority {name}; swanctl --load-authorities would unload all that its file does not have",
        "authorities {",
        *_section(section_name(name), {"cacert": str(files.ca)}, {}, 1),
        "}",
    ]


def key_lines(files: CredentialsSpec) -> list[str]:
    """How the private key is given to charon; the key itself is not read here."""
    return [f"# VICI load-key {shlex.quote(str(files.key))}; swanctl --load-creds takes it from /etc/swanctl/private"]


def unload_lines(name: str) -> list[str]:
    """How a connection is taken away."""
    return [f"# VICI unload-conn {name}; swanctl --load-conns does it with a file that does not have it"]


def initiate_lines(connection: str, socket: Path) -> list[str]:
    """How an IKE_SA with its CHILD_SA is begun; without waiting for its end, which would hold a thread of charon's."""
    return [_swanctl(socket, "--initiate", "--ike", connection, "--child", connection, "--timeout", "-1")]


def terminate_lines(ike_id: int, socket: Path, *, force: bool) -> list[str]:
    """How one IKE_SA is ended."""
    force_it = ("--force",) if force else ()
    return [_swanctl(socket, "--terminate", "--ike-id", str(ike_id), *force_it, "--timeout", "-1")]


def _swanctl(socket: Path, *words: str) -> str:
    where = () if socket == DEFAULT_SOCKET else ("--uri", f"unix://{socket}")
    return shlex.join(("swanctl", *words, *where))


def _section(name: str, section: Mapping[str, object], files: Mapping[str, Path], depth: int) -> Iterator[str]:
    """A section and those in it; values of `files` stand for what would be read from them."""
    yield f"{_INDENT * depth}{name} {{"
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _section(section_name(key), value, files, depth + 1)
        else:
            yield f"{_INDENT * (depth + 1)}{key} = {_value(files.get(key, value))}"
    yield f"{_INDENT * depth}}}"


def _value(value: object) -> str:
    text = ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
    if all(_PLAIN.fullmatch(word) for word in text.split(" ")):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
