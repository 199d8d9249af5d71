"""Conditions: everything that may be wrong and that a user is told of, registered once.

A condition is raised while its cause lasts and cleared when it is gone; logs, `status` and JSON show the same ones. One
that may come and go is raised at once and cleared only when it has been absent for its damping time, so that nobody
sees it flap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from ikeorch.core.units import Seconds


class Severity(Enum):
    """How urgent a condition is."""

    WARNING = "warning"
    ERROR = "error"


class Kind(Enum):
    """Where the remedy lies (the class of a condition)."""

    CONFIG = "config"
    """In a file or a command of this gateway."""
    INFRA = "infra"
    """In a process, a device or a path of this gateway."""
    PEER = "peer"
    """At the other end: a peer, or a neighbour in the fabric."""


class Code(Enum):
    """Every condition: its stable code; all else that is fixed about it stands in `REGISTRY`."""

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
    FILE_NOT_APPLIED = "file-not-applied"
    HISTORY_UNWRITTEN = "history-unwritten"
    SUITE_PENDING = "suite-pending"
    PEER_NAME_DIFFERS = "peer-name-differs"
    AWAITING_CONFIRMATION = "awaiting-confirmation"
    RESTART_NEEDED = "restart-needed"
    UPLINK_MISSING = "uplink-missing"
    ACTION_FAILED = "action-failed"
    REFUSED_PROPOSAL = "refused-proposal"
    REFUSED_IDENTITY = "refused-identity"
    REFUSED_EXPIRED = "refused-expired"
    REFUSED_UNKNOWN_CA = "refused-unknown-ca"
    REFUSED_CERTIFICATE = "refused-certificate"
    REFUSED_SELECTORS = "refused-selectors"
    REFUSED_UNKNOWN = "refused-unknown"
    REFUSED_BY_PEER = "refused-by-peer"
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


DAMPED = Seconds(3.0)
"""Damping of what a reconnect or another machine takes away and gives back; as long as a tunnel recovers."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is fixed about a condition.

    Attributes:
        kind: its class.
        severity: how urgent it is.
        hint: what to do next.
        damping: seconds for which its cause must be gone before it is cleared; it is raised at once.
    """

    kind: Kind
    severity: Severity
    hint: str
    damping: Seconds = Seconds(0)


REGISTRY: dict[Code, Entry] = {
    Code.CHARON_UNREACHABLE: Entry(
        Kind.INFRA, Severity.ERROR, "start it: systemctl start strongswan; tunnels that are up go on", DAMPED
    ),
    Code.KERNEL_UNREADABLE: Entry(
        Kind.INFRA, Severity.ERROR, "the daemon needs CAP_NET_ADMIN; nothing is changed meanwhile", DAMPED
    ),
    Code.CONFIG_INVALID: Entry(
        Kind.CONFIG, Severity.ERROR, "correct the file (`ikeorch config check`); the last good one is in force"
    ),
    Code.CREDENTIALS_UNREADABLE: Entry(
        Kind.CONFIG, Severity.ERROR, "make them with `ikeorch pki issue`; live tunnels stay"
    ),
    Code.STORE_FAILED: Entry(
        Kind.INFRA, Severity.ERROR, "make room on its disk; until then new tunnels' numbers are kept in memory only"
    ),
    Code.CERTIFICATE_LACKS_NAME: Entry(
        Kind.CONFIG, Severity.ERROR, "reissue it with more names: ikeorch pki issue --tunnels N"
    ),
    Code.CERTIFICATE_EXPIRES: Entry(
        Kind.CONFIG, Severity.ERROR, "issue another: ikeorch pki issue; then systemctl reload ikeorchd"
    ),
    Code.RENEWAL_PENDING: Entry(
        Kind.PEER,
        Severity.WARNING,
        "change the peer too, it is tried again by itself; or take the change back: ikeorch rollback",
    ),
    Code.CHANGE_UNPROVEN: Entry(
        Kind.CONFIG, Severity.ERROR, "correct the configuration, or take the change back: ikeorch rollback"
    ),
    Code.CHANGE_UNDONE: Entry(
        Kind.CONFIG,
        Severity.WARNING,
        "correct it and apply it again: `ikeorch history` shows why it was undone, `ikeorch history N` its text",
    ),
    Code.FILE_NOT_APPLIED: Entry(
        Kind.CONFIG,
        Severity.WARNING,
        "look at it with `ikeorch plan`, then `ikeorch apply` it; or take the file back: ikeorch rollback REVISION",
    ),
    Code.HISTORY_UNWRITTEN: Entry(
        Kind.INFRA,
        Severity.ERROR,
        "make room on the disks of /etc/ikeorch and /var/lib/ikeorch; the gateway itself is as the message says",
    ),
    Code.SUITE_PENDING: Entry(
        Kind.PEER,
        Severity.WARNING,
        "change the suite at the peer too, then the old one is refused by itself; or take the change back: "
        "ikeorch rollback",
    ),
    Code.PEER_NAME_DIFFERS: Entry(
        Kind.PEER,
        Severity.WARNING,
        "write its own name into peers[].name and `ikeorch apply`, or give it its old one there (gateway.name)",
    ),
    Code.AWAITING_CONFIRMATION: Entry(
        Kind.CONFIG, Severity.WARNING, "keep it: ikeorch confirm; or go back now: ikeorch rollback"
    ),
    Code.RESTART_NEEDED: Entry(Kind.CONFIG, Severity.WARNING, "systemctl restart ikeorchd; no packet is lost"),
    Code.UPLINK_MISSING: Entry(Kind.INFRA, Severity.ERROR, "check the cable, or gateway.uplinks[].interface", DAMPED),
    Code.ACTION_FAILED: Entry(Kind.INFRA, Severity.ERROR, "it is tried again; see the reason and the daemon's log"),
    Code.REFUSED_PROPOSAL: Entry(
        Kind.PEER,
        Severity.ERROR,
        "give both ends a suite in common (suites.default, or the peer's tunnels.suite), then `ikeorch apply`",
    ),
    Code.REFUSED_IDENTITY: Entry(
        Kind.PEER,
        Severity.ERROR,
        "compare gateway.identity there with the peer's identity here, and both ends' numbers of tunnels",
    ),
    Code.REFUSED_EXPIRED: Entry(
        Kind.PEER,
        Severity.ERROR,
        "issue the peer's certificate anew (ikeorch pki issue) and reload ikeorchd there; compare both clocks",
    ),
    Code.REFUSED_UNKNOWN_CA: Entry(
        Kind.PEER, Severity.ERROR, "both ends need certificates of one CA: compare gateway.credentials.ca of both"
    ),
    Code.REFUSED_CERTIFICATE: Entry(
        Kind.PEER, Severity.ERROR, "issue the peer's certificate anew, with enough names: ikeorch pki issue --tunnels N"
    ),
    Code.REFUSED_SELECTORS: Entry(
        Kind.PEER, Severity.ERROR, "tunnels are route-based: the peer must offer 0.0.0.0/0 and ::/0"
    ),
    Code.REFUSED_UNKNOWN: Entry(
        Kind.PEER, Severity.WARNING, "if it is a peer, configure it (ikeorch peer add); if not, nothing: it got no SA"
    ),
    Code.REFUSED_BY_PEER: Entry(
        Kind.PEER,
        Severity.ERROR,
        "only the peer knows more: read `ikeorch status` there, or its IKE daemon's log",
    ),
    Code.TUNNEL_PENDING: Entry(
        Kind.PEER, Severity.WARNING, "configure the peer too (ikeorch peer add), and check the underlay path"
    ),
    Code.TUNNEL_DOWN: Entry(Kind.INFRA, Severity.ERROR, "check its path: the provider, then the peer's uplink"),
    Code.TUNNEL_RECOVERING: Entry(Kind.INFRA, Severity.WARNING, "nothing to do: it joins its group by itself"),
    Code.TUNNEL_MISPAIRED: Entry(
        Kind.PEER, Severity.ERROR, "the two ends' SAs are crossed; compare identities and if_ids"
    ),
    Code.TUNNEL_ORPHANED: Entry(
        Kind.INFRA,
        Severity.WARNING,
        "it forwards until its SAs expire; the end that initiates replaces them when it notices (dpd_delay)",
    ),
    Code.MTU_TOO_LARGE: Entry(
        Kind.INFRA,
        Severity.ERROR,
        "set peers[].tunnels.mtu lower at both ends, or ask the provider why its path takes less",
    ),
    Code.SITE_DARK: Entry(Kind.INFRA, Severity.ERROR, "check its gateways, then the providers; it heals by itself"),
    Code.REFLECTOR_SILENT: Entry(
        Kind.PEER, Severity.WARNING, "start the peer's prober: systemctl start ikeorch-probe, on the peer", DAMPED
    ),
    Code.EXABGP_UNREACHABLE: Entry(
        Kind.INFRA,
        Severity.ERROR,
        "start it, or kill it if it hangs: systemctl restart ikeorch-exabgp; a leaf keeps its routes for 20 s "
        "where this is the site's one gateway",
        DAMPED,
    ),
    Code.FABRIC_SESSION_DOWN: Entry(
        Kind.PEER,
        Severity.ERROR,
        "compare fabric.neighbors with the leaf's configuration: address, AS numbers, and whether its BGP runs",
        DAMPED,
    ),
    Code.FABRIC_REFUSED: Entry(Kind.PEER, Severity.WARNING, "see the reason; the session itself is up", DAMPED),
    Code.PROBER_UNREACHABLE: Entry(
        Kind.INFRA,
        Severity.ERROR,
        "start it: systemctl start ikeorch-probe; meanwhile no tunnel leaves or joins a group",
        DAMPED,
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
        absent_since: monotonic seconds since when its cause has been gone; None while it lasts.
    """

    code: Code
    subject: str
    message: str
    since: Seconds = Seconds(0)
    absent_since: Seconds | None = None

    @property
    def kind(self) -> Kind:
        """Its class, from the registry."""
        return REGISTRY[self.code].kind

    @property
    def severity(self) -> Severity:
        """From the registry."""
        return REGISTRY[self.code].severity

    @property
    def hint(self) -> str:
        """What to do next, from the registry."""
        return REGISTRY[self.code].hint

    @property
    def clears_at(self) -> Seconds | None:
        """When it is cleared if its cause does not return, monotonic seconds; None while that lasts."""
        return None if self.absent_since is None else Seconds(self.absent_since + REGISTRY[self.code].damping)


def carry_over(
    found: Iterable[Condition], before: Iterable[Condition], *, wall: Seconds, now: Seconds
) -> tuple[Condition, ...]:
    """The conditions of this pass, each with the time since when it has been raised, and those not yet cleared.

    Args:
        found: this pass's, `since` not filled in.
        before: the last pass's.
        wall: Unix seconds, for people.
        now: monotonic seconds, for damping.
    """
    known = {(condition.code, condition.subject): condition for condition in before}
    result: dict[tuple[Code, str], Condition] = {}
    for condition in found:
        key = (condition.code, condition.subject)
        result[key] = replace(condition, since=known[key].since if key in known else wall, absent_since=None)
    for key, condition in known.items():
        if key not in result:
            absent = replace(condition, absent_since=now if condition.absent_since is None else condition.absent_since)
            if absent.clears_at is not None and absent.clears_at > now:
                result[key] = absent
    return tuple(sorted(result.values(), key=lambda condition: (condition.code.value, condition.subject)))


def next_clearing(conditions: Iterable[Condition]) -> Seconds | None:
    """When the next condition is cleared whose cause is gone, monotonic seconds; None when there is none."""
    return min((condition.clears_at for condition in conditions if condition.clears_at is not None), default=None)
