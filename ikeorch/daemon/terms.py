"""The terms of a change as the API takes them."""

from __future__ import annotations

from ipaddress import ip_address

from ikeorch.core.kernel_state import IPAddress
from ikeorch.core.revision import Terms
from ikeorch.core.units import Seconds
from ikeorch.daemon.views import Json
from ikeorch.errors import UsageError

LONGEST = 7 * 86400


def read_terms(body: Json) -> Terms:
    """``confirm_within`` and ``wait_for_peer`` (seconds), ``max_lost`` (0 to 1), ``operator`` (an IP address).

    Raises:
        UsageError: a value is something else.
    """
    share = body.get("max_lost")
    if share is None:
        share = Terms().max_lost
    elif type(share) not in {int, float} or not 0 <= share <= 1:
        raise UsageError("max_lost must be a share from 0 to 1")
    return Terms(
        within=_seconds(body, "confirm_within"),
        wait_for_peer=_seconds(body, "wait_for_peer"),
        max_lost=float(share),
        operator=_address(body),
    )


def _seconds(body: Json, name: str) -> Seconds | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) not in {int, float} or not 1 <= value <= LONGEST:
        raise UsageError(f"{name} must be a number of seconds from 1 to {LONGEST}")
    return Seconds(value)


def _address(body: Json) -> IPAddress | None:
    value = body.get("operator")
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return ip_address(value)
    except ValueError:
        pass
    raise UsageError("operator must be an IP address")
