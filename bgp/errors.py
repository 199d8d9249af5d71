"""The errors of this package: what is wrong, where, what to do next."""

from __future__ import annotations


class BgpError(Exception):
    """Base of all errors of this package.

    Args:
        what: what is wrong, one sentence.
        where: file, socket or neighbour, "" when `what` says it.
        hint: what to do next.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """``where: what; hint``, on one line."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text


class LinkLostError(BgpError):
    """The conversation with the shim is over: it went away, is silent, or wrote what nobody can read."""


class ConfigurationRefusedError(BgpError):
    """ExaBGP's configuration cannot be written, or ExaBGP would not take it."""


class SocketError(BgpError):
    """The socket on which the shim is awaited cannot be opened."""
