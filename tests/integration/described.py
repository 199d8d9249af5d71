"""The API as its description says it is: answers held against it, and requests over the unix socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import jsonschema
import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from ikeorch.daemon.description import api_description

PATIENCE = 20.0
"""Seconds for one answer; the daemon holds none for longer than it is asked to."""


def conforms(answer: object, schema: str) -> None:
    """Hold an answer against a named schema.

    Raises:
        jsonschema.ValidationError: it is something else.
    """
    whole = {"$ref": f"#/components/schemas/{schema}", "components": api_description()["components"]}
    jsonschema.Draft202012Validator(whole).validate(answer)


class _Connection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


class _Pool(HTTPConnectionPool):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def _new_conn(self) -> _Connection:
        return _Connection(self._path)


class _Adapter(HTTPAdapter):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._pool = _Pool(path)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool

    def close(self) -> None:
        self._pool.close()
        super().close()


def unix_session(path: Path) -> requests.Session:
    """A session whose every request goes to the socket."""
    session = requests.Session()
    session.trust_env = False
    session.mount("http://", _Adapter(path))
    return session
