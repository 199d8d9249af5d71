"""charon's lines about refusals, as 5.9.8 wrote them between two gateways of the lab, and what is read from them."""

from __future__ import annotations

import string
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vici.protocol import Message

from ikeorch.adapters.vici.refusals import MAX_ATTEMPTS, MAX_TEXT, RefusalReader, may_tell
from ikeorch.core.ids import TunnelId
from ikeorch.core.refusal import Cause, Refusal

OURS, THEIRS = "192.0.2.2", "192.0.2.1"
BEGIN = f"IKE {THEIRS} is initiating an IKE_SA"
MATCHING = f"CFG looking for peer configs matching {OURS}[t0.gw-b.example]...{THEIRS}[t0.gw-a.example]"
SELECTED = "CFG selected peer config 'ikeorch.gw-a.0'"
UNTRUSTED = "IKE no trusted ECDSA public key found for 't0.gw-a.example'"


def event(line: str, *, name: str = "(unnamed)", ike_id: str = "1") -> dict[str, bytes]:
    """One log event; the line begins with its group."""
    group, _, text = line.partition(" ")
    keys = {"group": group, "level": "1", "thread": "7", "ikesa-name": name, "ikesa-uniqueid": ike_id, "msg": text}
    return {key: value.encode() for key, value in keys.items()}


def read(*lines: str, name: str = "(unnamed)") -> list[Refusal]:
    """The refusals in a log of one IKE_SA."""
    reader = RefusalReader()
    found = [reader.read(dict(event(line, name=name))) for line in lines]
    return [refusal for refusal in found if refusal is not None]


def test_no_ike_proposal_in_common() -> None:
    """Offered and configured stand side by side; only addresses are known."""
    (refusal,) = read(
        BEGIN,
        "CFG received proposals: IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/ECP_256",
        "CFG configured proposals: IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384",
        "IKE received proposals unacceptable",
    )
    assert refusal.cause is Cause.PROPOSAL
    assert refusal.offered == "IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/ECP_256"
    assert refusal.configured == "IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384"
    assert (refusal.remote, refusal.tunnel, refusal.authenticating) == (ip_address(THEIRS), None, False)


def test_no_esp_proposal_in_common() -> None:
    """It comes after authentication, and the connection is known."""
    (refusal,) = read(
        "CFG selected proposal: IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384",
        MATCHING,
        "CFG received proposals: ESP:AES_GCM_16_128/EXT_SEQ",
        "CFG configured proposals: ESP:AES_GCM_16_256/ECP_384/EXT_SEQ",
        "IKE no acceptable proposal found",
        "IKE failed to establish CHILD_SA, keeping IKE_SA",
        name="ikeorch.gw-a.0",
    )
    assert (refusal.cause, refusal.tunnel, refusal.authenticating) == (Cause.PROPOSAL, TunnelId("gw-a", 0), True)
    assert refusal.offered == "ESP:AES_GCM_16_128/EXT_SEQ"


def test_identities_that_nothing_is_configured_for() -> None:
    """Both identities and both addresses are known."""
    (refusal,) = read(BEGIN, MATCHING, "CFG no matching peer config found")
    assert refusal.cause is Cause.IDENTITY
    assert (refusal.local_id, refusal.remote_id) == ("t0.gw-b.example", "t0.gw-a.example")
    assert (refusal.local, refusal.remote) == (ip_address(OURS), ip_address(THEIRS))


@pytest.mark.parametrize(
    ("lines", "cause", "offered"),
    [
        (
            ['CFG no issuer certificate found for "CN=gw-a.example"', 'CFG   issuer is "CN=other G1"'],
            Cause.UNKNOWN_CA,
            "CN=other G1",
        ),
        (['CFG   self-signed certificate "CN=gw-a" is not trusted'], Cause.UNKNOWN_CA, "CN=gw-a"),
        (
            ["CFG subject certificate invalid (valid from Nov 27 12:33:03 2026 to Nov 28 12:34:03 2026)"],
            Cause.EXPIRED,
            "valid from Nov 27 12:33:03 2026 to Nov 28 12:34:03 2026",
        ),
        (
            ["CFG certificate was revoked on Nov 28 12:34:03 UTC 2026, reason: key compromise"],
            Cause.CERTIFICATE,
            "certificate was revoked on Nov 28 12:34:03 UTC 2026, reason: key compromise",
        ),
        ([], Cause.CERTIFICATE, ""),
    ],
)
def test_certificates_that_are_not_trusted(lines: list[str], cause: Cause, offered: str) -> None:
    """The line that says no is the same for all; the ones before it say why."""
    (refusal,) = read(BEGIN, MATCHING, SELECTED, *lines, UNTRUSTED, name="ikeorch.gw-a.0")
    assert (refusal.cause, refusal.offered, refusal.remote_id) == (cause, offered, "t0.gw-a.example")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("CFG constraint check failed: identity 't0.gw-b.example' required ", Cause.IDENTITY),
        ("CFG constraint check failed: RULE_CRL_VALIDATION is FAILED, but requires at least GOOD", Cause.CERTIFICATE),
    ],
)
def test_rules_of_the_connection_that_the_peer_does_not_meet(line: str, cause: Cause) -> None:
    """The initiator finds it in the responder's answer."""
    lines = [line, "CFG selected peer config 'ikeorch.gw-b.0' unacceptable: constraint checking failed"]
    (refusal,) = read(*lines, "CFG no alternative config found", name="ikeorch.gw-b.0")
    assert refusal.cause is cause
    assert refusal.offered == line.removeprefix("CFG constraint check failed: ").rstrip()


def test_a_ca_that_charon_knows_but_the_connection_does_not_want() -> None:
    """As after a change of the CA, or where another connection of the host has one: both names stand side by side."""
    (refusal,) = read(
        BEGIN,
        MATCHING,
        'CFG   using trusted ca certificate "CN=lab CA G1"',
        "CFG constraint check failed: peer not authenticated by CA 'CN=other CA G1'",
        "CFG selected peer config 'ikeorch.gw-a.0' unacceptable: non-matching authentication done",
        "CFG no alternative config found",
        name="ikeorch.gw-a.0",
    )
    assert (refusal.cause, refusal.offered, refusal.configured) == (Cause.UNKNOWN_CA, "CN=lab CA G1", "CN=other CA G1")


def test_a_certificate_is_refused_while_an_earlier_one_of_the_same_name_is_trusted() -> None:
    """charon tries the earlier one's key and says no other no than that it gives up, at either end."""
    lines = (
        'IKE received end entity cert "CN=gw-b.example"',
        "IKE signature validation failed, looking for another key",
        'CFG   using certificate "CN=gw-b.example"',
        "CFG subject certificate invalid (valid from Nov 27 12:33:03 2026 to Nov 28 12:34:03 2026)",
    )
    for end in ("INFORMATIONAL request 2 [ N(AUTH_FAILED) ]", "IKE_AUTH response 1 [ N(AUTH_FAILED) ]"):
        (refusal,) = read(*lines, f"ENC generating {end}", name="ikeorch.gw-b.0")
        assert (refusal.cause, refusal.tunnel) == (Cause.EXPIRED, TunnelId("gw-b", 0))
        assert refusal.offered.startswith("valid from Nov 27")
    (refusal,) = read(*lines[:2], "ENC generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]", name="ikeorch.gw-b.0")
    assert (refusal.cause, refusal.offered) == (Cause.CERTIFICATE, "its signature does not fit its certificate")


def test_what_was_told_is_not_told_again_when_the_notify_is_sent() -> None:
    """The reason comes first, then the packet."""
    given_up = "ENC generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]"
    assert len(read(BEGIN, MATCHING, "CFG no matching peer config found", given_up)) == 1


def test_an_address_that_nothing_is_configured_for() -> None:
    """Who asks, and where."""
    (refusal,) = read(f"IKE no IKE config found for {OURS}...{THEIRS}, sending NO_PROPOSAL_CHOSEN")
    assert (refusal.cause, refusal.local, refusal.remote) == (
        Cause.NOT_CONFIGURED,
        ip_address(OURS),
        ip_address(THEIRS),
    )


def test_selectors_that_nobody_has() -> None:
    """The peer's first."""
    (refusal,) = read("IKE traffic selectors 10.1.0.0/16 === 10.2.0.0/16 unacceptable", name="ikeorch.gw-a.0")
    assert (refusal.cause, refusal.offered) == (Cause.SELECTORS, "10.2.0.0/16 === 10.1.0.0/16")


@pytest.mark.parametrize(
    ("line", "notify"),
    [
        ("IKE received NO_PROPOSAL_CHOSEN notify error", "NO_PROPOSAL_CHOSEN"),
        ("IKE received AUTHENTICATION_FAILED notify error", "AUTHENTICATION_FAILED"),
        ("IKE received TS_UNACCEPTABLE notify, no CHILD_SA built", "TS_UNACCEPTABLE"),
        ("ENC parsed INFORMATIONAL request 2 [ N(AUTH_FAILED) ]", "AUTHENTICATION_FAILED"),
    ],
)
def test_a_peer_that_refuses(line: str, notify: str) -> None:
    """What it sent, and whether this end had taken the IKE_SA for established."""
    (refusal,) = read(line, name="ikeorch.gw-b.0")
    assert (refusal.cause, refusal.notify, refusal.tunnel) == (Cause.BY_PEER, notify, TunnelId("gw-b", 0))
    assert refusal.late is line.startswith("ENC")


@pytest.mark.parametrize(
    "line",
    [
        "IKE received TEMPORARY_FAILURE notify error",
        "IKE received INVALID_KE_PAYLOAD notify error",
        "ENC parsed INFORMATIONAL request 2 [ D ]",
        "NET received AUTHENTICATION_FAILED notify error",
        "IKE IKE_SA ikeorch.gw-b.0[1] established between 192.0.2.1[a]...192.0.2.2[no matching peer config found]",
        "CFG selected proposal: ESP:AES_GCM_16_256/EXT_SEQ",
    ],
)
def test_what_is_no_refusal(line: str) -> None:
    """Ordinary lines, collisions that charon solves itself, and words in the wrong place."""
    assert read(line, name="ikeorch.gw-b.0") == []


def test_the_lines_of_two_ike_sas_are_kept_apart() -> None:
    """They come interleaved."""
    reader = RefusalReader()
    for ike_id, address in (("1", "192.0.2.11"), ("2", "192.0.2.12")):
        assert reader.read(dict(event(f"IKE {address} is initiating an IKE_SA", ike_id=ike_id))) is None
    found = [reader.read(dict(event("IKE received proposals unacceptable", ike_id=each))) for each in ("1", "2")]
    assert [str(refusal.remote) for refusal in found if refusal] == ["192.0.2.11", "192.0.2.12"]


def test_a_flood_of_attempts_is_forgotten_but_for_the_last_ones() -> None:
    """The memory is bounded, whatever a peer begins."""
    reader = RefusalReader()
    for number in range(1, 10 * MAX_ATTEMPTS):
        reader.read(dict(event(BEGIN, ike_id=str(number))))
    assert len(reader._attempts) == MAX_ATTEMPTS


def test_other_connections_of_the_same_charon_are_not_ours() -> None:
    """Nothing of them is told."""
    assert read("IKE received AUTHENTICATION_FAILED notify error", name="office") == []


def test_hostile_text_is_one_bounded_line() -> None:
    """An identity with line ends, colours and a length of its own choice."""
    hostile = "\x1b[31mgw\n" + "x" * 5000
    (refusal,) = read(BEGIN, "CFG received proposals: " + hostile, "IKE received proposals unacceptable")
    assert refusal.offered.startswith("?[31mgw?xxx")
    assert len(refusal.offered) == MAX_TEXT


def test_an_identity_cannot_change_the_address() -> None:
    """Whatever it looks like: who asked is known from the line before."""
    hostile = f"CFG looking for peer configs matching {OURS}[a]...9.9.9.9[b]...{THEIRS}[c]"
    (refusal,) = read(BEGIN, hostile, "CFG no matching peer config found")
    assert refusal.remote == ip_address(THEIRS)


LINES = st.one_of(
    st.sampled_from([BEGIN, MATCHING, UNTRUSTED, "IKE received proposals unacceptable"]),
    st.text(alphabet=string.printable, max_size=80).map(lambda text: f"CFG looking for peer configs matching {text}"),
    st.text(max_size=60).map(lambda text: f"IKE {text}"),
)


@given(st.lists(LINES, max_size=12), st.text(max_size=12))
def test_whatever_comes_is_read_or_passed_over(lines: list[str], ike_id: str) -> None:
    """No line, and no id, makes the reader fail."""
    reader = RefusalReader()
    for line in lines:
        keys = {key: value.decode() for key, value in event("IKE x").items()}
        group, _, text = line.partition(" ")
        keys |= {"group": group, "msg": text, "ikesa-uniqueid": ike_id}
        reader.read({key: value.encode(errors="replace") for key, value in keys.items()})


def test_the_bytes_of_lines_that_say_nothing_are_known_before_decoding() -> None:
    """Rekeys, DPD and packets; and no line that is read here gets lost."""
    quiet = (
        "ENC generating CREATE_CHILD_SA request 3 [ N(REKEY_SA) N(ESP_TFC_PAD_N) SA No KE TSi TSr ]",
        "NET sending packet: from 192.0.2.1[500] to 192.0.2.2[500] (417 bytes)",
        "IKE sending DPD request",
        "CFG selected proposal: ESP:AES_GCM_16_256/EXT_SEQ",
        "IKE CHILD_SA ikeorch.gw-a.0{1} established with SPIs c5d7eaae_i cc5a651b_o and TS 0.0.0.0/0 === 0.0.0.0/0",
    )
    assert [line for line in quiet if may_tell(bytes(Message.serialize(event(line))))] == []
    given_up = "ENC generating IKE_AUTH response 1 [ N(AUTH_FAILED) ]"
    told = "CFG no matching peer config found"
    telling = (BEGIN, MATCHING, UNTRUSTED, told, "IKE received proposals unacceptable", given_up)
    assert all(may_tell(bytes(Message.serialize(event(line)))) for line in telling)
