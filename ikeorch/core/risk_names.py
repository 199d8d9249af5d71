"""The risks that an operator must accept by name: words that commands, API and documents share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FLAG = "--accept-risk"


class RiskName(Enum):
    """What a change may cost; the value is the word behind ``--accept-risk=``."""

    WITHDRAW_LAST_PATH = "withdraw-last-path"
    OUTAGE = "outage"
    MOST_TUNNELS = "most-tunnels"
    CHANGE_IDENTITY = "change-identity"
    RENUMBER_INNER = "renumber-inner"
    RESET_FABRIC = "reset-fabric"
    DROP_TRAFFIC = "drop-traffic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """One risk of one change.

    Attributes:
        name: which.
        subject: whom it concerns: a prefix, a peer, a tunnel, "" for the gateway.
        message: what would happen, one sentence that names the subject.
    """

    name: RiskName
    subject: str
    message: str

    @property
    def flag(self) -> str:
        """The option that accepts it."""
        return f"{FLAG}={self.name.value}"
