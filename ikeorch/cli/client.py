"""Talk to the daemon: HTTP on its unix socket, and its refusals turned back into errors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ikeorch.cli.http import BadAnswerError, exchange
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
        hint = "start it: systemctl start ikeorchd, or name its socket with --socket"
        try:
            content = b"" if body is None else json.dumps(body).encode()
            patience = QUICK if quick else PATIENCE
            raw = exchange(str(self._path), method, target, content, patience=patience, limit=MAX_ANSWER)
        except PermissionError:
            raise NotPermittedError("may not be used by this user", where=str(self._path), hint="try as root") from None
        except (OSError, BadAnswerError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            what = f"ikeorchd does not answer ({reason})"
            raise DaemonUnreachableError(what, where=str(self._path), hint=hint) from None
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
