"""Two real charons that refuse one another: each end says what it knows, and forgets it when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from lab.node import Node
from lab.runner import TWO_DC, Lab
from lab.scenarios.faults import conditions
from lab.scenarios.sites import (
    CA_FOLDER,
    GATEWAYS,
    IKEORCH,
    PKI_FOLDER,
    ikeorch,
    issue_certificates,
    read_block,
    start_daemons,
    wait_carrying,
)
from lab.waiting import wait_until
from pki.issue import GatewayCredentials, issue_gateway, new_key, new_serial
from pki.profiles import GatewayProfile
from pki.store import open_ca, save_gateway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

FILE = "/etc/ikeorch/ikeorch.yaml"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two sites with certificates and daemons, and no tunnel yet."""
    with Lab.start(TWO_DC) as running:
        issue_certificates(running)
        start_daemons(running)
        yield running


@pytest.fixture
def ends(lab: Lab) -> tuple[Node, Node]:
    """The two gateways."""
    return lab.node("gw-a"), lab.node("gw-b")


def told(node: Node, code: str, words: str) -> Any:
    """The condition with this code, once its message holds the words."""
    found = conditions(node).get(code)
    return found if found and words in found["message"] else None


def wait_told(node: Node, code: str, words: str) -> Any:
    """Wait for it."""
    return wait_until(lambda: told(node, code, words), f"{node.name} says {code} {words}", 15, interval=0.2)


def wait_forgotten(lab: Lab) -> None:
    """Wait until nothing is wrong any more on either end; all tunnels carry."""
    wait_carrying(lab, 2)
    for name in GATEWAYS:
        wait_until(lambda: conditions(lab.node(name)) == {}, f"nothing is wrong on {name}", 30, interval=0.2)  # noqa: B023


@contextmanager
def changed(node: Node, change: Callable[[str], str]) -> Iterator[None]:
    """The operator changes the file, and takes that back afterwards; nobody waits for the tunnels."""
    file = node.path(FILE)
    before = file.read_text()
    after = change(before)
    assert after != before
    for text in (after, before):
        file.write_text(text)
        ikeorch(node, "apply", "--no-wait")
        if text is after:
            yield


def renewing(text: str) -> str:
    """A change that makes the end that initiates begin new IKE_SAs."""
    return text.replace("tunnels: {count: 2", "tunnels: {rekey_time: 3h, count: 2")


def over(certificate: x509.Certificate, ended: datetime) -> x509.CertificateBuilder:
    """The same certificate, but for its end."""
    builder = x509.CertificateBuilder(
        issuer_name=certificate.issuer,
        subject_name=certificate.subject,
        public_key=certificate.public_key(),
        serial_number=new_serial(),
        not_valid_before=certificate.not_valid_before_utc,
        not_valid_after=ended,
    )
    for extension in certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder


@contextmanager
def certificate(node: Node, lab: Lab, *, authority: str, expired: bool = False) -> Iterator[None]:
    """The gateway has another certificate for a while; tunnels that are up keep theirs."""
    folder = node.path(PKI_FOLDER)
    files = [folder / f"{node.name}.{kind}" for kind in ("key", "pem")]
    kept = [file.read_bytes() for file in files]
    trusted = (folder / "ca.pem").read_bytes()
    signer, key = open_ca(lab.node("gw-a").path(authority)), new_key()
    profile = GatewayProfile(identity=f"{node.name}.dc.example")
    issued = issue_gateway(profile, key.public_key(), signer, serial=new_serial(), now=datetime.now(UTC))
    if expired:
        issued = signer.sign(over(issued, datetime.now(UTC) - timedelta(seconds=30)))
    save_gateway(folder, node.name, GatewayCredentials(certificate=issued, key=key), signer.certificate)
    (folder / "ca.pem").write_bytes(trusted)
    node.kill("ikeorchd", 1)
    try:
        yield
    finally:
        for file, content in zip(files, kept, strict=True):
            file.write_bytes(content)
        node.kill("ikeorchd", 1)


def test_a_gateway_that_nobody_knows_yet_is_named_until_it_is_known(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B has no peer: one condition with A's addresses there, and B's answer on A; both go when B takes the block."""
    a, b = ends
    with a.popen([IKEORCH, "tunnel", "add", "gw-b", "--count", "2", "--timeout", "60s"]) as adding:
        assert adding.stdout is not None
        block = read_block(adding.stdout)
        refused = wait_told(a, "refused-by-peer", "answered NO_PROPOSAL_CHOSEN: it has no IKE proposal in common")
        assert refused["subject"].startswith("gw-b/")
        assert "nothing configured for" in refused["message"]
        assert (refused["class"], refused["severity"]) == ("peer", "error")
        stranger = wait_told(b, "refused-unknown", "no tunnel is configured between these addresses")
        assert stranger["subject"] == ""
        assert "192.0.2.1 at 198.51.100.1" in stranger["message"]
        assert "ikeorch peer add" in stranger["hint"]
        ikeorch(b, "peer", "add", "-f", "-", "--timeout", "60s", text=block)
        assert adding.wait(60) == 0
    wait_forgotten(lab)


def test_no_proposal_in_common(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B shows both, A says what it had offered; the old IKE_SAs carry on meanwhile."""
    a, b = ends
    with changed(a, lambda text: text + "suites: {default: aes128gcm16-prfsha256-ecp256}\n"):
        refused = wait_told(b, "refused-proposal", "configured here is IKE:AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384")
        assert "offers IKE:AES_GCM_16_128/PRF_HMAC_SHA2_256/ECP_256" in refused["message"]
        assert refused["subject"] in {"gw-a/0", "gw-a/1"}
        answered = wait_told(a, "refused-by-peer", "in common with aes128gcm16-prfsha256-ecp256")
        assert "ikeorch status" in answered["hint"]
        wait_until(lambda: set(conditions(a)) == {"refused-by-peer", "renewal-pending"}, "both are told", 10)
        wait_carrying(lab, 2)
    wait_until(lambda: "renewal-pending" not in conditions(a), "the change was taken back", 20)
    with changed(a, renewing):
        wait_until(lambda: conditions(a) == conditions(b) == {}, "the new IKE_SAs settle it", 40, interval=0.2)
    wait_forgotten(lab)


def test_a_wrong_identity(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B expects another name: said and configured side by side there, AUTHENTICATION_FAILED here."""
    a, b = ends
    with changed(b, lambda text: text.replace("identity: gw-a.dc.example", "identity: gw-z.dc.example")):
        with changed(a, renewing):
            refused = wait_told(b, "refused-identity", ".gw-a.dc.example and asks for ")
            tunnel = refused["subject"].removeprefix("gw-a/")
            assert f"says that it is t{tunnel}.gw-a.dc.example and asks for t{tunnel}.gw-b" in refused["message"]
            assert f"configured here is t{tunnel}.gw-z.dc.example asking for t{tunnel}.gw-b" in refused["message"]
            wait_told(a, "refused-by-peer", f"FAILED: it does not take our identity t{tunnel}.gw-a")
        wait_carrying(lab, 2)
    with changed(a, renewing):
        wait_until(lambda: conditions(a) == conditions(b) == {}, "the new IKE_SAs settle it", 40, interval=0.2)
    wait_forgotten(lab)


def test_a_certificate_of_an_unknown_ca(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B, which answers, has one: A refuses and names the issuer; B had taken the IKE_SA for established."""
    a, b = ends
    ikeorch(a, "pki", "init", "--ca-dir", "/var/lib/other-ca", "--name", "other CA")
    with certificate(b, lab, authority="/var/lib/other-ca"), changed(a, renewing):
        refused = wait_told(a, "refused-unknown-ca", "is not from our CA: CN=other CA G1")
        assert refused["subject"] in {"gw-b/0", "gw-b/1"}
        assert "gateway.credentials.ca" in refused["hint"]
        wait_told(b, "refused-by-peer", "answered AUTHENTICATION_FAILED")
        wait_carrying(lab, 2)
    wait_forgotten(lab)


def test_an_expired_certificate(lab: Lab, ends: tuple[Node, Node]) -> None:
    """A, which asks, has one: B refuses and says from when to when it was valid."""
    a, b = ends
    with certificate(a, lab, authority=CA_FOLDER, expired=True), changed(a, renewing):
        refused = wait_told(b, "refused-expired", "the certificate of t")
        assert "is valid from " in refused["message"]
        assert "clocks" in refused["hint"]
        wait_told(a, "refused-by-peer", "answered AUTHENTICATION_FAILED")
        wait_carrying(lab, 2)
    wait_forgotten(lab)
