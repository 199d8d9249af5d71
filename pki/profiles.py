"""What a certificate may hold.

One profile for the CA and one for gateways. Leaf certificates carry no AIA and no CRL distribution point: with one,
charon fetches inside IKE_AUTH, perhaps through the very tunnel that is being set up. A wildcard name does not match an
IKE identity, so each tunnel's identity ``t<i>.<gateway>`` is a SAN of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from pki.errors import ProfileError

BACKDATE = timedelta(minutes=1)
"""notBefore lies this far back, for clocks that differ a little."""
MIN_TUNNEL_NAMES = 16
MAX_TUNNEL_NAMES = 256
COMMON_NAME_LIMIT = 64
"""ub-common-name, RFC 5280 appendix A.1."""
IKE_INTERMEDIATE = "1.3.6.1.5.5.8.2.2"
"""Extended key usage that some IKE implementations ask for."""

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaProfile:
    """A root CA.

    Attributes:
        name: organisation's words for it, 1 to 48 printable ASCII characters.
        generation: from 1; a new generation has a new DN, so that its CRL numbers start afresh.
        lifetime: of the CA certificate.
    """

    name: str
    generation: int = 1
    lifetime: timedelta = timedelta(days=3650)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ProfileError: a name that cannot stand in a DN, or a generation below 1.
        """
        if not re.fullmatch(r"[ -~]{1,48}", self.name) or self.name != self.name.strip():
            raise ProfileError(f"{self.name!r} cannot name a CA", hint="use 1 to 48 printable ASCII characters")
        if self.generation < 1:
            raise ProfileError("a CA's generation is at least 1")

    @property
    def common_name(self) -> str:
        """The DN's common name, different in each generation."""
        return f"{self.name} G{self.generation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProfile:
    """A gateway's certificate.

    Attributes:
        identity: the gateway's DNS name, lower case.
        tunnel_names: how many ``t<i>.<identity>`` it holds, 16 to 256.
        lifetime: 1 hour to 398 days; renewed at two thirds.
    """

    identity: str
    tunnel_names: int = MIN_TUNNEL_NAMES
    lifetime: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ProfileError: an identity that is no DNS name, or numbers out of range.
        """
        if not _DNS_NAME.fullmatch(self.identity) or len(self.identity) > 180:
            raise ProfileError(
                f"{self.identity!r} is no gateway identity",
                hint="use a DNS name in lower case, such as gw-a.dc.example",
            )
        if not MIN_TUNNEL_NAMES <= self.tunnel_names <= MAX_TUNNEL_NAMES:
            raise ProfileError(
                f"{self.tunnel_names} tunnel names are asked for",
                hint=f"a certificate holds {MIN_TUNNEL_NAMES} to {MAX_TUNNEL_NAMES}",
            )
        if not timedelta(hours=1) <= self.lifetime <= timedelta(days=398):
            raise ProfileError(f"a lifetime of {self.lifetime} is refused", hint="use 1 hour to 398 days")

    @property
    def names(self) -> tuple[str, ...]:
        """All DNS names, the gateway's own first."""
        return (self.identity, *(f"t{index}.{self.identity}" for index in range(self.tunnel_names)))
