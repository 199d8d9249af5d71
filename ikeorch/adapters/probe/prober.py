"""All tunnels' probes of one gateway: a session for each target, and what they have seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ikeorch.adapters.probe.session import ProbeTarget, Session
from ikeorch.core.health import ProbeState
from ikeorch.core.ids import TunnelId
from ikeorch.core.liveness import INTERVAL
from ikeorch.core.units import Seconds


class Prober:
    """Probes a set of tunnels; needs a running event loop.

    Args:
        on_change: called with a tunnel whose verdict, or who answers in it, changed.
        interval: seconds between two rounds of one tunnel.
    """

    def __init__(self, on_change: Callable[[TunnelId], None], *, interval: Seconds = INTERVAL) -> None:
        self._on_change = on_change
        self._interval = interval
        self._sessions: dict[TunnelId, Session] = {}

    def states(self) -> dict[TunnelId, ProbeState]:
        """What has been seen of each tunnel."""
        return {tunnel: session.state() for tunnel, session in self._sessions.items()}

    def set_targets(self, targets: Mapping[TunnelId, ProbeTarget]) -> None:
        """Probe exactly these; sessions whose target is unchanged go on undisturbed, also under another name."""
        self._rename(targets)
        for tunnel in [tunnel for tunnel, session in self._sessions.items() if targets.get(tunnel) != session.target]:
            self._sessions.pop(tunnel).close()
        for tunnel, target in targets.items():
            if tunnel in self._sessions:
                self._sessions[tunnel].target = target
            else:
                self._sessions[tunnel] = Session(tunnel, target, interval=self._interval, on_change=self._on_change)

    def _rename(self, targets: Mapping[TunnelId, ProbeTarget]) -> None:
        """A session whose very target is another tunnel's now is that one's."""
        places = {target.interface: tunnel for tunnel, target in targets.items()}
        renamed = {
            places[session.target.interface]: tunnel
            for tunnel, session in self._sessions.items()
            if places.get(session.target.interface, tunnel) != tunnel
        }
        moved = {
            now: self._sessions[before]
            for now, before in renamed.items()
            if self._sessions[before].target == targets[now]
        }
        for before in {session.tunnel for session in moved.values()}:
            del self._sessions[before]
        for now, session in moved.items():
            if now in self._sessions:
                self._sessions.pop(now).close()
            session.tunnel = now
            self._sessions[now] = session

    def close(self) -> None:
        """Close all sockets; the next `set_targets` opens new ones."""
        self.set_targets({})
