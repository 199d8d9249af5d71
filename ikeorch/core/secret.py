"""A value that must never be printed, logged or compared by its text."""

from __future__ import annotations


class Secret:
    """Holds secret bytes; its repr and str are ``***``.

    Args:
        value: the secret.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The secret itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        """Never shows the value."""
        return "***"

    __str__ = __repr__
