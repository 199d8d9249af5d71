"""Wait until tunnels carry proof packets, telling of the progress on stderr."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import click

from ikeorch.cli.client import Client, Json
from ikeorch.core.units import UnitError, parse_duration, parse_ratio
from ikeorch.errors import CharonUnreachableError, PendingError

REPEAT_PROGRESS = 2.0
"""Seconds after which the same line of progress is said again, so that a wait never looks dead."""


class DurationType(click.ParamType[float]):
    """A duration with its unit, such as ``30s``; seconds in Python."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it, or fail with what is right."""
        if isinstance(value, float):
            return value
        try:
            return float(parse_duration(value))
        except UnitError as error:
            self.fail(str(error), param, ctx)


class RatioType(click.ParamType[float]):
    """A share such as ``50%``; 0 to 1 in Python."""

    name = "percentage"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it, or fail with what is right."""
        if isinstance(value, float):
            return value
        try:
            return parse_ratio(value)
        except UnitError as error:
            self.fail(str(error), param, ctx)


DURATION = DurationType()
RATIO = RatioType()


def wait_until_carrying(client: Client, tunnels: Sequence[str], timeout: float) -> Json:
    """Wait until each of the tunnels has carried a proof packet.

    Args:
        client: the daemon.
        tunnels: their names.
        timeout: seconds.

    Returns:
        The status when all carry.

    Raises:
        PendingError: not all did in time; the tunnels come up by themselves later.
        CharonUnreachableError: charon did not answer, at the end.
    """
    began = time.monotonic()
    wanted = set(tunnels)
    view = client.get("/v1/status")
    said: tuple[str, float] = ("", 0.0)
    while True:
        states = {tunnel["tunnel"]: tunnel for tunnel in view["tunnels"] if tunnel["tunnel"] in wanted}
        now = time.monotonic()
        if len(states) == len(wanted) and all(state["state"] == "carrying" for state in states.values()):
            click.echo(f"{len(wanted)} of {len(wanted)} tunnels carry packets, after {now - began:.1f} s", err=True)
            return view
        line = _progress(states, len(wanted))
        if line != said[0] or now - said[1] >= REPEAT_PROGRESS:
            click.echo(f"{line} ({now - began:.0f} s)", err=True)
            said = (line, now)
        left = timeout - (now - began)
        if left <= 0:
            raise _give_up(view, states, timeout)
        view = client.get(f"/v1/status?after={view['pass']}&wait={min(left, REPEAT_PROGRESS):.3f}")


def _progress(states: dict[str, Json], wanted: int) -> str:
    counts = Counter(state["state"] for state in states.values())
    counts["carrying"] += 0
    parts = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()) if word != "carrying" and count)
    return f"{counts['carrying']} of {wanted} tunnels carry packets" + (f"; {parts}" if parts else "")


def _give_up(view: Json, states: dict[str, Json], timeout: float) -> PendingError | CharonUnreachableError:
    waiting = [state for state in states.values() if state["state"] != "carrying"]
    if not view["charon"]["reachable"]:
        found = [condition for condition in view["conditions"] if condition["code"] == "charon-unreachable"]
        message = found[0]["message"] if found else "charon does not answer"
        return CharonUnreachableError(message)
    reasons = sorted({f"{state['tunnel']}: {state['reason']}" for state in waiting})
    other = [condition["message"] for condition in view["conditions"] if condition["severity"] == "error"]
    because = "; ".join([*reasons[:4], *other[:2]]) or "the daemon has not taken them up yet"
    return PendingError(
        f"{len(waiting)} of {len(states)} tunnels do not carry packets after {timeout:.0f} s ({because})",
        hint="they come up by themselves once the other gateway has them too: there, `ikeorch peer add -f -` with the "
        "printed block, or `ikeorch tunnel add` if it knows this gateway already",
    )
