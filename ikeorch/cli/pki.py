"""``ikeorch pki``: the internal CA."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from ikeorch.cli.options import output_option, print_json
from ikeorch.cli.waiting import DURATION
from ikeorch.errors import ExitCode, IkeorchError

DEFAULT_CA = "/var/lib/ikeorch-ca"
DEFAULT_OUT = "/etc/ikeorch/pki"


@click.group()
def pki() -> None:
    """The internal CA: make one, issue certificates."""


@pki.command()
@click.option("--ca-dir", type=click.Path(path_type=Path), default=DEFAULT_CA, show_default=True)
@click.option("--name", default="ikeorch CA", show_default=True, help="The CA's name; its generation is appended.")
@output_option
def init(ca_dir: Path, name: str, output: str) -> int:
    """Make a new CA with a P-384 key in its own folder."""
    from pki.errors import PkiError
    from pki.issue import create_ca, new_key, new_serial
    from pki.profiles import CaProfile
    from pki.store import save_ca

    try:
        key = new_key()
        signer = create_ca(CaProfile(name=name), key, serial=new_serial(), now=datetime.now(UTC))
        save_ca(ca_dir, signer, key)
    except PkiError as error:
        raise IkeorchError(error.what, where=error.where, hint=error.hint) from None
    subject = signer.certificate.subject.rfc4514_string()
    until = signer.certificate.not_valid_after_utc
    if output == "json":
        print_json({"format_version": 1, "folder": str(ca_dir), "subject": subject, "not_after": until.isoformat()})
    else:
        click.echo(f"made CA {subject!r} in {ca_dir}, valid until {until:%Y-%m-%d}")
    return ExitCode.OK


@pki.command()
@click.argument("identity")
@click.option("--ca-dir", type=click.Path(path_type=Path), default=DEFAULT_CA, show_default=True)
@click.option("--out-dir", type=click.Path(path_type=Path), default=DEFAULT_OUT, show_default=True)
@click.option("--name", help="Base name of the files.  [default: first label of IDENTITY]")
@click.option("--tunnels", type=click.IntRange(16, 256), default=16, show_default=True, help="Most tunnels a bundle.")
@click.option("--lifetime", type=DURATION, default="30d", show_default=True)
@output_option
def issue(
    *, identity: str, ca_dir: Path, out_dir: Path, name: str | None, tunnels: int, lifetime: float, output: str
) -> int:
    """Issue a certificate with a new key for the gateway IDENTITY, such as gw-a.dc.example.

    It names the gateway and its tunnels t0 to t(N-1). Writes NAME.pem, NAME.key (0600) and ca.pem.
    """
    from pki.errors import PkiError
    from pki.issue import GatewayCredentials, issue_gateway, new_key, new_serial
    from pki.profiles import GatewayProfile
    from pki.store import open_ca, record_issued, save_gateway

    try:
        profile = GatewayProfile(identity=identity, tunnel_names=tunnels, lifetime=timedelta(seconds=lifetime))
        signer = open_ca(ca_dir)
        key = new_key()
        certificate = issue_gateway(profile, key.public_key(), signer, serial=new_serial(), now=datetime.now(UTC))
        record_issued(ca_dir, certificate)
        credentials = GatewayCredentials(certificate=certificate, key=key)
        paths = save_gateway(out_dir, name or identity.split(".", maxsplit=1)[0], credentials, signer.certificate)
    except PkiError as error:
        raise IkeorchError(error.what, where=error.where, hint=error.hint) from None
    until = certificate.not_valid_after_utc
    if output == "json":
        files = {kind: str(path) for kind, path in paths.items()}
        names = list(profile.names)
        print_json({"format_version": 1, "names": names, "files": files, "not_after": until.isoformat()})
    else:
        click.echo(f"issued {identity} and t0 to t{tunnels - 1}, valid until {until:%Y-%m-%d}")
        for kind, path in paths.items():
            click.echo(f"  {kind}: {path}")
    return ExitCode.OK
