"""A refusal: one end of an IKE exchange said no, and why as far as this end knows.

Only the end that refused knows the reason; the other one gets a NOTIFY that names a kind (RFC 7296, 3.10.1). Whatever
comes from the peer (identities, proposals, names in certificates) is text to be shown, never to be believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ikeorch.core.ids import TunnelId
from ikeorch.core.kernel_state import IPAddress


class Cause(Enum):
    """Why this end refused, or that the peer did."""

    NOT_CONFIGURED = "not-configured"
    """Nothing is loaded for the pair of addresses."""
    PROPOSAL = "proposal"
    """No IKE or ESP proposal in common."""
    IDENTITY = "identity"
    """Nothing is loaded for the pair of identities."""
    EXPIRED = "expired"
    """The peer's certificate, or its issuer's, is not valid now."""
    UNKNOWN_CA = "unknown-ca"
    """The peer's certificate was issued by a CA that this end does not trust."""
    CERTIFICATE = "certificate"
    """Something else about the peer's certificate or signature: it lacks the identity, is revoked, breaks a rule."""
    SELECTORS = "selectors"
    """No traffic selector in common."""
    BY_PEER = "by-peer"
    """The peer refused; its NOTIFY is in `notify`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One refusal.

    Attributes:
        cause: why.
        tunnel: whose connection it was; None when charon had not chosen one of ours yet.
        ike_id: charon's unique id of the IKE_SA, 0 while not known.
        local: our address, None when not known.
        remote: the peer's address, None when not known.
        local_id: our identity as the peer asked for it, "" when it said none.
        remote_id: the peer's identity as it said it, "" when not known.
        offered: what the peer offered: proposals, selectors, or the certificate's issuer or validity.
        configured: what stands here against it, "" when nothing was compared.
        notify: the NOTIFY that the peer sent, such as ``NO_PROPOSAL_CHOSEN``; "" when we refused.
        authenticating: whether IKE_SA_INIT was over.
        late: the peer refused an IKE_SA that this end had taken for established.
    """

    cause: Cause
    tunnel: TunnelId | None = None
    ike_id: int = 0
    local: IPAddress | None = None
    remote: IPAddress | None = None
    local_id: str = ""
    remote_id: str = ""
    offered: str = ""
    configured: str = ""
    notify: str = ""
    authenticating: bool = False
    late: bool = False
