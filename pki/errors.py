"""The CA's errors: what is wrong, where, what to do next."""

from __future__ import annotations


class PkiError(Exception):
    """Base of all errors of the CA.

    Args:
        what: what is wrong, one sentence.
        where: file or field, "" when `what` says it.
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


class ProfileError(PkiError):
    """A request that the profile does not allow."""


class StoreError(PkiError):
    """A file of the store is missing, in the way, not readable, or open to others."""
