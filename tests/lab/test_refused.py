"""Two real charons that refuse one another: each end says what it knows, and forgets it when it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
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
    status,
    wait_carrying,
)
from lab.waiting import wait_until
from pki.issue import GatewayCredentials, issue_gateway, new_key, new_serial
from pki.profiles import GatewayProfile
from pki.store import open_ca, save_gateway

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

FILE = "/etc/ikeorch/ikeorch.yaml"
RECOVERING = {"tunnel-recovering"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two sites with certificates and daemons, and no tunnel yet."""
    with Lab.start(TWO_DC) as running:
        issue_certificates(running)
        start_daemons(running)
        yield running
        running.save_logs(Path("build/lab-logs"))


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
    return wait_until(lambda: told(node, code, words), f"{node.name} says {code} {words}", 15, interval=0.5)


def begin_anew(node: Node, *tunnels: str) -> None:
    """End a tunnel's IKE_SA, as its peer or an operator may; the end that initiates begins another by itself."""
    for tunnel in tunnels:
        node.run(["swanctl", "--terminate", "--ike", f"ikeorch.{tunnel}", "--force", "--timeout", "1"], check=False)


def wait_forgotten(lab: Lab) -> None:
    """Wait until nobody is refused any more; a tunnel that was down may still be recovering."""
    for name in GATEWAYS:
        node = lab.node(name)
        wait_until(lambda: set(conditions(node)) <= RECOVERING, f"nothing is wrong on {name}", 30, interval=0.5)  # noqa: B023


@contextmanager
def changed(node: Node, change: Callable[[str], str]) -> Iterator[None]:
    """The operator changes the file, and takes that back afterwards; nobody waits for the tunnels."""
    file = node.path(FILE)
    before = file.read_text()
    after = change(before)
    assert after != before
    for text in (after, before):
        file.write_text(text)
        ikeorch(node, "apply", "--no-wait", "--accept-risk=change-identity")
        if text is after:
            yield


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
    """The gateway has another certificate and its CA for a while; IKE_SAs that stand keep theirs."""
    folder = node.path(PKI_FOLDER)
    files = [folder / name for name in (f"{node.name}.key", f"{node.name}.pem", "ca.pem")]
    kept = [file.read_bytes() for file in files]
    signer, key = open_ca(lab.node("gw-a").path(authority)), new_key()
    profile = GatewayProfile(identity=f"{node.name}.dc.example")
    issued = issue_gateway(profile, key.public_key(), signer, serial=new_serial(), now=datetime.now(UTC))
    if expired:
        issued = signer.sign(over(issued, datetime.now(UTC) - timedelta(seconds=30)))
    save_gateway(folder, node.name, GatewayCredentials(certificate=issued, key=key), signer.certificate)
    passes = status(node)["pass"]
    node.kill("ikeorchd", 1)
    try:
        wait_until(lambda: status(node)["pass"] > passes, "the certificate is looked at", 20, interval=0.5)
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
    wait_carrying(lab, 2)
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
        assert {tunnel["state"] for tunnel in status(a)["tunnels"]} == {"carrying"}
    begin_anew(a, "gw-b.0", "gw-b.1")
    wait_forgotten(lab)


def test_a_wrong_identity(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B expects another name: said and configured side by side there, AUTHENTICATION_FAILED here."""
    a, b = ends
    with changed(b, lambda text: text.replace("identity: gw-a.dc.example", "identity: gw-z.dc.example")):
        begin_anew(a, "gw-b.0")
        refused = wait_told(b, "refused-identity", "says that it is t0.gw-a.dc.example and asks for t0.gw-b.dc.example")
        assert "configured here is t0.gw-z.dc.example asking for t0.gw-b.dc.example" in refused["message"]
        assert refused["subject"] == "gw-a/0"
        wait_told(a, "refused-by-peer", "answered AUTHENTICATION_FAILED: it does not take our identity t0.gw-a")
    wait_forgotten(lab)


def test_a_certificate_of_an_unknown_ca(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B has a CA of its own: it refuses A's certificate and names the issuer."""
    a, b = ends
    ikeorch(a, "pki", "init", "--ca-dir", "/var/lib/other-ca", "--name", "other CA")
    with certificate(b, lab, authority="/var/lib/other-ca"):
        begin_anew(a, "gw-b.1")
        refused = wait_told(b, "refused-unknown-ca", "is from CN=lab CA G1, ours is CN=other CA G1")
        assert refused["message"].startswith("the certificate of t1.gw-a.dc.example ")
        assert refused["subject"] == "gw-a/1"
        assert "gateway.credentials.ca" in refused["hint"]
        wait_told(a, "refused-by-peer", "answered AUTHENTICATION_FAILED: it does not take our identity t1.gw-a")
    wait_forgotten(lab)


def test_an_expired_certificate(lab: Lab, ends: tuple[Node, Node]) -> None:
    """B, which answers, has one: A refuses an IKE_SA that B has taken for established, and says why."""
    a, b = ends
    with certificate(b, lab, authority=CA_FOLDER, expired=True):
        begin_anew(a, "gw-b.0")
        refused = wait_told(a, "refused-expired", "the certificate of t0.gw-b.dc.example is valid from ")
        assert refused["subject"] == "gw-b/0"
        assert "clocks" in refused["hint"]
        answered = wait_told(
            b, "refused-by-peer", "answered AUTHENTICATION_FAILED: it does not take our identity t0.gw-b"
        )
        assert answered["subject"] == "gw-a/0"
    wait_forgotten(lab)
