"""The package's errors, in one tree.

An error that reaches a user has a stable code, says what is wrong, where, and what to do next, and knows its exit
code (DESIGN.md, section 7; `ExitCode`). Adapters translate foreign errors into these once; only the loop decides to
retry. Errors of programming are never caught.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command."""

    OK = 0
    ERROR = 1
    CHANGES_PENDING = 2
    DEGRADED = 3
    DAEMON_UNREACHABLE = 4
    CHARON_UNREACHABLE = 5
    USAGE = 64
    TRY_AGAIN = 75
    NOT_PERMITTED = 77


class IkeorchError(Exception):
    """Base of all errors that a user may see.

    Args:
        what: what is wrong, one sentence.
        where: file:line:column, socket, object; "" when `what` says it.
        hint: what to do next; "" only when nothing helps.
    """

    code = "error"
    exit_code = ExitCode.ERROR

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """``where: what; hint``, on one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text


class ConfigError(IkeorchError):
    """The configuration is refused; nothing was changed."""

    code = "config-invalid"


class UsageError(IkeorchError):
    """The command was called with words that do not fit together."""

    code = "usage"
    exit_code = ExitCode.USAGE


class RiskError(IkeorchError):
    """The change may cost something that nobody has accepted by name; nothing was changed."""

    code = "risk-not-accepted"


class UnknownNameError(UsageError):
    """A peer, tunnel or revision of this name is not there."""

    code = "unknown-name"


class NotNowError(UsageError):
    """What was asked for makes sense, but not in the state in which things are now."""

    code = "not-now"


class DaemonUnreachableError(IkeorchError):
    """ikeorchd does not answer on its socket."""

    code = "daemon-unreachable"
    exit_code = ExitCode.DAEMON_UNREACHABLE


class NotPermittedError(IkeorchError):
    """The operating system or the daemon refuses this user."""

    code = "not-permitted"
    exit_code = ExitCode.NOT_PERMITTED


class PendingError(IkeorchError):
    """It will come by itself, or after another try: the peer or the path is not ready yet."""

    code = "pending-on-peer"
    exit_code = ExitCode.TRY_AGAIN


class CharonUnreachableError(IkeorchError):
    """No conversation with charon: socket missing, refused, closed, or silent beyond the deadline."""

    code = "charon-unreachable"
    exit_code = ExitCode.CHARON_UNREACHABLE


class CharonRefusedError(IkeorchError):
    """charon answered a command with success=no; its errmsg is in `what`."""

    code = "charon-refused"


class KernelError(IkeorchError):
    """The kernel refused a request; `what` names the object and the errno."""

    code = "kernel-refused"


class ForeignObjectError(KernelError):
    """Something that we do not own stands where our object belongs; it is left alone."""

    code = "foreign-object"


class KernelFeatureError(KernelError):
    """The kernel lacks a feature that the gateway cannot work without (XFRM interfaces, next-hop objects)."""

    code = "kernel-feature-missing"
