"""What probes say of a tunnel, and what may be believed.

A tunnel is UP once a probe that carries the right names came back through it. It is DOWN when it stays silent while
another tunnel of the same bundle answers. When the whole bundle falls silent at once nothing is known: the peer's
reflector may be gone while its kernel forwards. A tunnel of which nothing is known stays where it is (see
`ikeorch.core.desired.choose_members`), and a group is never emptied on measurements alone (D6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ikeorch.core.ids import TunnelId
from ikeorch.core.units import Seconds

SILENCE = Seconds(3.0)
"""How long a tunnel may be silent before it is compared with its siblings."""
NEVER_ANSWERED = 15
"""Probes without any answer after which a tunnel that never answered is compared with its siblings."""
WITNESS = Seconds(1.0)
"""How recent a sibling's answer must be to bear witness that the peer's reflector lives."""


class Verdict(Enum):
    """What is known of a tunnel's forwarding."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeState:
    """What the prober has seen of one tunnel.

    Attributes:
        sent: probes sent.
        received: good replies.
        last_reply: monotonic seconds of the last good reply, None if there was none.
        rtt: seconds, smoothed as TCP does (RFC 6298), without the reflector's own delay; None before the first reply.
        mispaired: the name that answered instead of the right one, "" if none did.
    """

    sent: int = 0
    received: int = 0
    last_reply: Seconds | None = None
    rtt: Seconds | None = None
    mispaired: str = ""


def judge_tunnels(
    probes: Mapping[TunnelId, ProbeState],
    previous: Mapping[TunnelId, Verdict],
    now: Seconds,
) -> dict[TunnelId, Verdict]:
    """The verdict on each probed tunnel.

    Args:
        probes: what was seen.
        previous: the last verdicts; a tunnel that was down stays so until it answers.
        now: monotonic seconds.
    """
    verdicts = {}
    for tunnel, state in probes.items():
        silent = None if state.last_reply is None else now - state.last_reply
        if state.mispaired:
            verdicts[tunnel] = Verdict.DOWN
        elif silent is not None and silent <= SILENCE:
            verdicts[tunnel] = Verdict.UP
        elif _answered_lately(probes, tunnel.peer, now) and (silent is not None or state.sent >= NEVER_ANSWERED):
            verdicts[tunnel] = Verdict.DOWN
        else:
            verdicts[tunnel] = Verdict.DOWN if previous.get(tunnel) is Verdict.DOWN else Verdict.UNKNOWN
    return verdicts


def _answered_lately(probes: Mapping[TunnelId, ProbeState], peer: str, now: Seconds) -> bool:
    return any(
        state.last_reply is not None and now - state.last_reply <= WITNESS
        for tunnel, state in probes.items()
        if tunnel.peer == peer
    )
