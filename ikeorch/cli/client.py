"""Talk to the daemon: HTTP on its unix socket, and its refusals turned back into errors."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any

from ikeorch.errors import DaemonUnreachableError, ExitCode, IkeorchError, NotPermittedError

DEFAULT_SOCKET = "/run/ikeorch/api.sock"
PATIENCE = 35.0
"""Seconds to wait for one answer; the daemon holds a request that asks for it (``wait=``) for at most 30."""
QUICK = 12.0
"""Seconds to wait for a view that is there already, or nearly so."""
MAX_ANSWER = 64 * 1024 * 1024

Json = dict[str, Any]


class RefusedError(IkeorchError):
    """The daemon refused a request; text and exit code are its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = ExitCode(exit_code) if exit_code in set(ExitCode) else ExitCode.ERROR


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, patience: float) -> None:
        super().__init__("localhost", timeout=patience)
        self._path, self._patience = path, patience

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._patience)
        self.sock.connect(self._path)


class Client:
    """The daemon as seen from a command.

    Args:
        path: its socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, target: str) -> Json:
        """Read a view."""
        return self.request("GET", target)

    def request(self, method: str, target: str, body: Json | None = None) -> Json:
        """One request.

        Returns:
            The answer's JSON object.

        Raises:
            DaemonUnreachableError: nobody answers there.
            NotPermittedError: this user may not enter the socket.
            RefusedError: the daemon refused, with its text.
        """
        quick = method == "GET" and "wait=" not in target
        connection = _UnixConnection(str(self._path), QUICK if quick else PATIENCE)
        hint = "start it: systemctl start ikeorchd, or name its socket with --socket"
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, target, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            raw = response.read(MAX_ANSWER)
        except PermissionError:
            raise NotPermittedError("may not be used by this user", where=str(self._path), hint="try as root") from None
        except (OSError, http.client.HTTPException) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            what = f"ikeorchd does not answer ({reason})"
            raise DaemonUnreachableError(what, where=str(self._path), hint=hint) from None
        finally:
            connection.close()
        return _parse(raw, str(self._path))


def _parse(raw: bytes, where: str) -> Json:
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise DaemonUnreachableError("what answers there is not ikeorchd", where=where, hint="check --socket")
    error = answer.get("error")
    if isinstance(error, dict):
        raise RefusedError(str(error.get("message")), int(error.get("exit_code", 1)))
    return answer
