"""The gate before every change that an operator asks for: its risks must be accepted by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ikeorch.config.loader import LoadedConfig
from ikeorch.core.planner import plan_changes
from ikeorch.core.risk import find_risks, not_accepted
from ikeorch.core.risk_names import Risk, RiskName
from ikeorch.daemon.config_file import Gate
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.errors import RiskError, UsageError


def gate(reconciler: Reconciler, accepted: Collection[RiskName]) -> Gate:
    """A gate that lets through what has no risk, or only accepted ones."""

    async def require_accepted(loaded: LoadedConfig) -> None:
        world, _ = await reconciler.look(loaded.spec)
        risks = find_risks(reconciler.spec, loaded.spec, plan_changes(loaded.spec, world).actions)
        refuse_risks(not_accepted(risks, accepted))

    return require_accepted


def refuse_risks(risks: Iterable[Risk]) -> None:
    """Refuse what nobody accepted.

    Raises:
        RiskError: there is something; it names each risk and the options that accept them.
    """
    found = tuple(risks)
    if found:
        flags = " ".join(dict.fromkeys(risk.flag for risk in found))
        what = ", and ".join(dict.fromkeys(risk.message for risk in found))
        raise RiskError(what, hint=f"nothing was changed; if that is meant, add {flags}")


def accepted_risks(body: Mapping[str, Any]) -> frozenset[RiskName]:
    """The names in a request's ``accept_risks``.

    Raises:
        UsageError: it is no list of known names.
    """
    names = body.get("accept_risks", [])
    known = {risk.value: risk for risk in RiskName}
    if not isinstance(names, list) or not all(isinstance(name, str) and name in known for name in names):
        raise UsageError("accept_risks must be a list of risks", hint=f"known ones: {', '.join(known)}")
    return frozenset(known[name] for name in names)
