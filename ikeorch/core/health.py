"""What is known of a tunnel, as the prober reports it (`ikeorch.core.liveness` decides it).

A tunnel of which nothing is known stays where it is (see `ikeorch.core.desired.choose_members`), and a group is never
emptied on measurements alone (D6).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ikeorch.core.units import Seconds


class Verdict(Enum):
    """What is known of a tunnel's forwarding."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"
    SPARED = "spared"
    """It is up, and the peer asks to send nothing but probes into it: it is about to replace the SAs."""
    RECOVERING = "recovering"
    """It failed and answers again, but not for long enough yet to be trusted beside others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeState:
    """What the prober says of one tunnel.

    Attributes:
        verdict: whether it forwards.
        sent: rounds of probes sent.
        received: STAMP replies with the right name.
        rtt: seconds, smoothed as TCP does (RFC 6298), without the reflector's own delay; None before the first reply.
        mispaired: the name that answered instead of the right one, "" if none did.
        reflector_silent: the peer's kernel answers echoes, its prober does not answer STAMP.
        spare: the peer asks that nothing but probes be sent into it for a moment.
        mtu: bytes of the full-sized probes, 0 while none are sent.
        fits: whether these come through; None while that is not known.
        calls_itself: the peer's own name where it is another one than ours for it, else "".
    """

    verdict: Verdict = Verdict.UNKNOWN
    sent: int = 0
    received: int = 0
    rtt: Seconds | None = None
    mispaired: str = ""
    reflector_silent: bool = False
    spare: bool = False
    mtu: int = 0
    fits: bool | None = None
    calls_itself: str = ""
