"""Conditions: everything that may be wrong and that a user is told of, registered once.

A condition is raised while its cause lasts and cleared when it is gone; logs, `status` and JSON show the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ikeorch.core.units import Seconds


class Severity(Enum):
    """How urgent a condition is."""

    WARNING = "warning"
    ERROR = "error"


class Code(Enum):
    """Every condition: its stable code; severity and hint stand in `_REGISTRY`."""

    CHARON_UNREACHABLE = "charon-unreachable"
    KERNEL_UNREADABLE = "kernel-unreadable"
    CONFIG_INVALID = "config-invalid"
    CREDENTIALS_UNREADABLE = "credentials-unreadable"
    STORE_FAILED = "store-failed"
    CERTIFICATE_LACKS_NAME = "certificate-lacks-name"
    CERTIFICATE_EXPIRES = "certificate-expires"
    RENEWAL_PENDING = "renewal-pending"
    CHANGE_UNPROVEN = "change-unproven"
    CHANGE_UNDONE = "change-undone"
    SUITE_PENDING = "suite-pending"
    PEER_NAME_DIFFERS = "peer-name-differs"
    AWAITING_CONFIRMATION = "awaiting-confirmation"
    RESTART_NEEDED = "restart-needed"
    UPLINK_MISSING = "uplink-missing"
    ACTION_FAILED = "action-failed"
    TUNNEL_PENDING = "tunnel-pending"
    TUNNEL_DOWN = "tunnel-down"
    TUNNEL_RECOVERING = "tunnel-recovering"
    TUNNEL_MISPAIRED = "tunnel-mispaired"
    TUNNEL_ORPHANED = "tunnel-orphaned"
    MTU_TOO_LARGE = "mtu-too-large"
    SITE_DARK = "site-dark"
    REFLECTOR_SILENT = "reflector-silent"
    EXABGP_UNREACHABLE = "exabgp-unreachable"
    FABRIC_SESSION_DOWN = "fabric-session-down"
    FABRIC_REFUSED = "fabric-refused"
    PROBER_UNREACHABLE = "prober-unreachable"


_REGISTRY: dict[Code, tuple[Severity, str]] = {
    Code.CHARON_UNREACHABLE: (Severity.ERROR, "start it: systemctl start strongswan; tunnels that are up go on"),
    Code.KERNEL_UNREADABLE: (Severity.ERROR, "the daemon needs CAP_NET_ADMIN; nothing is changed meanwhile"),
    Code.CONFIG_INVALID: (
        Severity.ERROR,
        "correct the file (`ikeorch config check`); the last good one is in force",
    ),
    Code.CREDENTIALS_UNREADABLE: (Severity.ERROR, "make them with `ikeorch pki issue`; live tunnels stay"),
    Code.STORE_FAILED: (
        Severity.ERROR,
        "make room on its disk; until then new tunnels' numbers are kept in memory only",
    ),
    Code.CERTIFICATE_LACKS_NAME: (Severity.ERROR, "reissue it with more names: ikeorch pki issue --tunnels N"),
    Code.CERTIFICATE_EXPIRES: (Severity.ERROR, "issue another: ikeorch pki issue; then systemctl reload ikeorchd"),
    Code.RENEWAL_PENDING: (
        Severity.WARNING,
        "change the peer too, it is tried again by itself; or take the change back: ikeorch rollback",
    ),
    Code.CHANGE_UNPROVEN: (Severity.ERROR, "correct the configuration, or take the change back: ikeorch rollback"),
    Code.CHANGE_UNDONE: (
        Severity.WARNING,
        "correct it and apply it again: `ikeorch history` shows why it was undone, `ikeorch history N` its text",
    ),
    Code.SUITE_PENDING: (
        Severity.WARNING,
        "change the suite at the peer too, then the old one is refused by itself; or take the change back: "
        "ikeorch rollback",
    ),
    Code.PEER_NAME_DIFFERS: (
        Severity.WARNING,
        "write its own name into peers[].name and `ikeorch apply`, or give it its old one there (gateway.name)",
    ),
    Code.AWAITING_CONFIRMATION: (Severity.WARNING, "keep it: ikeorch confirm; or go back now: ikeorch rollback"),
    Code.RESTART_NEEDED: (Severity.WARNING, "systemctl restart ikeorchd; no packet is lost"),
    Code.UPLINK_MISSING: (Severity.ERROR, "check the cable, or gateway.uplinks[].interface"),
    Code.ACTION_FAILED: (Severity.ERROR, "it is tried again; see the reason and the daemon's log"),
    Code.TUNNEL_PENDING: (Severity.WARNING, "configure the peer too (ikeorch peer add), and check the underlay path"),
    Code.TUNNEL_DOWN: (Severity.ERROR, "check its path: the provider, then the peer's uplink"),
    Code.TUNNEL_RECOVERING: (Severity.WARNING, "nothing to do: it joins its group by itself"),
    Code.TUNNEL_MISPAIRED: (
        Severity.ERROR,
        "the two ends' SAs are crossed; compare identities and if_ids",
    ),
    Code.TUNNEL_ORPHANED: (
        Severity.WARNING,
        "it forwards until its SAs expire; the end that initiates replaces them when it notices (dpd_delay)",
    ),
    Code.MTU_TOO_LARGE: (
        Severity.ERROR,
        "set peers[].tunnels.mtu lower at both ends, or ask the provider why its path takes less",
    ),
    Code.SITE_DARK: (Severity.ERROR, "check its gateways, then the providers; it heals by itself"),
    Code.REFLECTOR_SILENT: (Severity.WARNING, "start the peer's prober: systemctl start ikeorch-probe, on the peer"),
    Code.EXABGP_UNREACHABLE: (
        Severity.ERROR,
        "start it, or kill it if it hangs: systemctl restart ikeorch-exabgp; a leaf keeps its routes for 20 s "
        "where this is the site's one gateway",
    ),
    Code.FABRIC_SESSION_DOWN: (
        Severity.ERROR,
        "compare fabric.neighbors with the leaf's configuration: address, AS numbers, and whether its BGP runs",
    ),
    Code.FABRIC_REFUSED: (Severity.WARNING, "see the reason; the session itself is up"),
    Code.PROBER_UNREACHABLE: (
        Severity.ERROR,
        "start it: systemctl start ikeorch-probe; meanwhile no tunnel leaves or joins a group",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that is wrong now.

    Attributes:
        code: which.
        subject: whom it concerns: a tunnel, a peer, an uplink, "" for the gateway.
        message: what is wrong in this case.
        since: Unix seconds of its beginning.
    """

    code: Code
    subject: str
    message: str
    since: Seconds = Seconds(0)

    @property
    def severity(self) -> Severity:
        """From the registry."""
        return _REGISTRY[self.code][0]

    @property
    def hint(self) -> str:
        """What to do next, from the registry."""
        return _REGISTRY[self.code][1]


def carry_over(found: Iterable[Condition], before: Iterable[Condition], now: Seconds) -> tuple[Condition, ...]:
    """The conditions of this pass, each with the time since when it has been raised.

    Args:
        found: this pass's, `since` not filled in.
        before: the last pass's.
        now: Unix seconds.
    """
    since = {(condition.code, condition.subject): condition.since for condition in before}
    result: dict[tuple[Code, str], Condition] = {}
    for condition in found:
        key = (condition.code, condition.subject)
        result[key] = Condition(
            code=condition.code,
            subject=condition.subject,
            message=condition.message,
            since=since.get(key, now),
        )
    return tuple(sorted(result.values(), key=lambda condition: (condition.code.value, condition.subject)))
