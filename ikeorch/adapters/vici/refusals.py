"""charon's log lines about a refusal, read into `Refusal`. No I/O.

Before 6.0.3 charon has no event for it: the end that refuses says why in its log only, which VICI carries as ``log``
events (level 1 of every group, strongSwan: src/libcharon/plugins/vici/vici_logger.c). The lines below were read from
5.9.8 and compared with 6.1's sources (libcharon/sa/ikev2/tasks/ike_init.c, ike_auth.c, child_create.c,
task_manager_v2.c, libstrongswan/credentials/credential_manager.c, auth_cfg.c); a line that is not known says nothing.

A refusal is spread over several lines of one IKE_SA; what the earlier ones said is kept by charon's unique id, for the
last `MAX_ATTEMPTS` IKE_SAs, since a hostile peer can begin as many as it likes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from ipaddress import ip_address

from ikeorch.adapters.vici.wire import Section
from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.refusal import Cause, Refusal

MAX_ATTEMPTS = 256
UNNAMED = "(unnamed)"
"""What charon calls an IKE_SA for which no connection has been chosen yet."""
MAX_TEXT = 200
"""Characters of anything that came from the peer."""

_MARKS = (
    b" is initiating ",
    b"looking for peer configs",
    b"no matching peer config",
    b" proposals",
    b"no acceptable ",
    b"no issuer certificate",
    b"  issuer is",
    b"  self-signed certificate",
    b"certificate invalid",
    b"certificate was revoked",
    b"using trusted ca",
    b"constraint check failed",
    b"no alternative config",
    b"signature validation failed",
    b" public key found for '",
    b" unacceptable",
    b"no IKE config found",
    b"selected proposal: IKE",
    b" notify error",
    b" notify, no CHILD_SA",
)
"""Every line of the groups IKE and CFG that is read holds one of these."""

_NOTIFIES = frozenset(
    {
        "AUTHENTICATION_FAILED",
        "FAILED_CP_REQUIRED",
        "INVALID_MAJOR_VERSION",
        "INVALID_SELECTORS",
        "INVALID_SYNTAX",
        "NO_ADDITIONAL_SAS",
        "NO_PROPOSAL_CHOSEN",
        "SINGLE_PAIR_REQUIRED",
        "TS_UNACCEPTABLE",
        "UNSUPPORTED_CRITICAL_PAYLOAD",
    }
)
"""Refusals for good; what charon tries again by itself (INVALID_KE_PAYLOAD, TEMPORARY_FAILURE) is none."""

_BEGINS = re.compile(r"(\S+) is initiating an? IKE_SA|(\S+) is initiating IKE_SA ")
_MATCHING = re.compile(r"looking for peer configs matching ([^\[\s]+)\[(.*?)\]\.\.\.([^\[\s]+)\[(.*)\]")
_NOTHING = re.compile(r"no IKE config found for (\S+?)\.\.\.(\S+), sending ")
_UNTRUSTED = re.compile(r"no trusted \S+ public key found for '(.*)'")
_VALIDITY = re.compile(r"(?:subject|issuer) certificate invalid \(valid from (.*) to (.*)\)")
_ISSUER = re.compile(r'  issuer is "(.*)"')
_ANCHOR = re.compile(r'  using trusted ca certificate "(.*)"')
_OTHER_CA = re.compile(r"constraint check failed: peer not authenticated by CA '(.*)'")
_SELF_SIGNED = re.compile(r'  self-signed certificate "(.*)" is not trusted')
_SELECTORS = re.compile(r"traffic selectors (.*) === (.*) unacceptable")
_NOTIFY = re.compile(r"received (\S+) notify(?: error|, no CHILD_SA built)")
_GIVEN_UP = re.compile(r"generating (?:IKE_AUTH|INFORMATIONAL) (?:response|request) \d+ \[.* N\(AUTH_FAILED\) .*\]")
"""Where charon still trusts an earlier certificate of the peer's name, as after each renewal, it says no other no: it
tries that one's key, the signature does not fit, and what is wrong with the new one has been said before."""
_LATE = re.compile(r"parsed INFORMATIONAL request \d+ \[.* N\(AUTH_FAILED\) .*\]")


def may_tell(packet: bytes) -> bool:
    """Whether an event's bytes may hold a line that is read here; nearly all of charon's lines are not even decoded."""
    if b"\x00\x03IKE" in packet or b"\x00\x03CFG" in packet:
        return any(mark in packet for mark in _MARKS)
    return b"N(AUTH_FAILED)" in packet


@dataclass(slots=True)
class _Attempt:
    """What the lines of one IKE_SA have said so far."""

    local: IPAddress | None = None
    remote: IPAddress | None = None
    local_id: str = ""
    remote_id: str = ""
    received: str = ""
    configured: str = ""
    problem: Cause = Cause.CERTIFICATE
    detail: str = ""
    required: str = ""
    anchor: str = ""
    authenticating: bool = False
    told: bool = False


@dataclass(slots=True)
class RefusalReader:
    """Reads the log of one charon process, line by line."""

    _attempts: OrderedDict[int, _Attempt] = field(default_factory=OrderedDict)

    def read(self, event: Section) -> Refusal | None:
        """Take one ``log`` event; the refusal that it completes, if any."""
        group, line = _text(event, "group"), _text(event, "msg")
        if group not in {"IKE", "CFG", "ENC"}:
            return None
        name, number = _text(event, "ikesa-name"), _text(event, "ikesa-uniqueid")
        tunnel = TunnelId.from_connection(name)
        if tunnel is None and name not in {"", UNNAMED}:
            return None  # of a connection that is not ours
        ike_id = int(number) if number.isascii() and number.isdigit() and len(number) <= 10 else 0
        attempt = self._attempt(ike_id)
        if group != "ENC":
            cause = self._refused(line, attempt)
        else:
            cause = attempt.problem if not attempt.told and _GIVEN_UP.fullmatch(line) else None
        notify = _notify(line, attempt) if group == "IKE" else ""
        late = group == "ENC" and _LATE.fullmatch(line) is not None
        if late:
            notify = "AUTHENTICATION_FAILED"
        if cause is None and not notify:
            return None
        attempt.told = True
        return Refusal(
            cause=Cause.BY_PEER if notify else cause or Cause.CERTIFICATE,
            tunnel=tunnel,
            ike_id=ike_id,
            local=attempt.local,
            remote=attempt.remote,
            local_id=attempt.local_id,
            remote_id=attempt.remote_id,
            offered="" if notify else attempt.received if cause is Cause.PROPOSAL else attempt.detail,
            configured=attempt.configured if cause is Cause.PROPOSAL else attempt.required,
            notify=notify,
            authenticating=attempt.authenticating,
            late=late,
        )

    def _attempt(self, ike_id: int) -> _Attempt:
        """What is known of an IKE_SA; id 0 stands for none and keeps nothing."""
        if ike_id == 0:
            return _Attempt()
        attempt = self._attempts.setdefault(ike_id, _Attempt())
        self._attempts.move_to_end(ike_id)
        if len(self._attempts) > MAX_ATTEMPTS:
            self._attempts.popitem(last=False)
        return attempt

    def _refused(self, line: str, attempt: _Attempt) -> Cause | None:
        """Note what a line says of an attempt; why this end refused it, if this line says that it did."""
        if line in {"received proposals unacceptable", "no acceptable proposal found"}:
            return Cause.PROPOSAL
        if line == "no matching peer config found":
            return Cause.IDENTITY
        if line == "no alternative config found":
            return attempt.problem
        if line == "no acceptable traffic selectors found":
            return Cause.SELECTORS
        if found := _UNTRUSTED.fullmatch(line):
            attempt.remote_id = _clean(found[1])
            return attempt.problem
        if found := _SELECTORS.fullmatch(line):
            attempt.detail = _clean(f"{found[2]} === {found[1]}")
            return Cause.SELECTORS
        if found := _NOTHING.match(line):
            attempt.local, attempt.remote = _address(found[1]), _address(found[2])
            return Cause.NOT_CONFIGURED
        self._note(line, attempt)
        return None

    @staticmethod
    def _note(line: str, attempt: _Attempt) -> None:
        """Lines that come before the one that says no."""
        if line.startswith("received proposals: "):
            attempt.received = _clean(line.removeprefix("received proposals: "))
        elif line.startswith("configured proposals: "):
            attempt.configured = _clean(line.removeprefix("configured proposals: "))
        elif line.startswith("selected proposal: IKE:"):
            attempt.authenticating = True
        elif found := _BEGINS.match(line):
            attempt.remote = _address(found[1] or found[2])
        elif found := _MATCHING.fullmatch(line):
            attempt.local = _address(found[1])
            attempt.local_id, attempt.remote_id = _identity(found[2]), _identity(found[4])
            attempt.remote = attempt.remote or _address(found[3])
            attempt.authenticating = True
        elif (found := _ISSUER.fullmatch(line)) or (found := _SELF_SIGNED.fullmatch(line)):
            attempt.problem, attempt.detail = Cause.UNKNOWN_CA, _clean(found[1])
        elif line.startswith("no issuer certificate found for"):
            attempt.problem = Cause.UNKNOWN_CA
        elif found := _VALIDITY.fullmatch(line):
            attempt.problem, attempt.detail = Cause.EXPIRED, _clean(f"valid from {found[1]} to {found[2]}")
        elif found := _ANCHOR.fullmatch(line):
            attempt.anchor = _clean(found[1])
        elif found := _OTHER_CA.fullmatch(line):
            attempt.problem, attempt.detail, attempt.required = Cause.UNKNOWN_CA, attempt.anchor, _clean(found[1])
        elif line.startswith("constraint check failed: "):
            attempt.problem, attempt.detail = _constraint(line), _clean(line.removeprefix("constraint check failed: "))
        elif line.startswith("signature validation failed"):
            attempt.detail = attempt.detail or "its signature does not fit its certificate"
        elif line.startswith("certificate was revoked"):
            attempt.problem, attempt.detail = Cause.CERTIFICATE, _clean(line)


def _constraint(line: str) -> Cause:
    """Which rule of the connection's ``remote`` section the peer did not meet."""
    return Cause.IDENTITY if "identity '" in line and "certificate does not" not in line else Cause.CERTIFICATE


def _notify(line: str, attempt: _Attempt) -> str:
    """The NOTIFY of a peer that refused for good, "" for any other line."""
    found = _NOTIFY.fullmatch(line)
    if found is None or found[1] not in _NOTIFIES:
        return ""
    attempt.authenticating = attempt.authenticating or found[1] != "NO_PROPOSAL_CHOSEN"
    return found[1]


def _text(section: Section, key: str) -> str:
    value = section.get(key)
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _clean(text: str) -> str:
    """Printable ASCII on one line, of bounded length."""
    plain = "".join(char if " " <= char <= "~" else "?" for char in text[: MAX_TEXT + 1].strip())
    return plain if len(plain) <= MAX_TEXT else f"{plain[: MAX_TEXT - 3]}..."


def _identity(text: str) -> str:
    return "" if text == "%any" else _clean(text)


def _address(text: str) -> IPAddress | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
