"""Which suite each tunnel's last live IKE_SA had: a restart of the daemon forgets no peer that has not moved yet."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from ikeorch.core.agreed import Agreed, observe_suites
from ikeorch.core.charon_state import CharonState
from ikeorch.core.ids import TunnelId
from ikeorch.core.spec import GatewaySpec
from ikeorch.core.suites import Suite, SuiteError, parse_suite
from ikeorch.store.database import Store, StoreError

_log = structlog.get_logger("ikeorch.store")


class AgreedSuites:
    """The suites, in memory and in the gateway's database; one that this version does not know is forgotten.

    Args:
        store: the open database.

    Raises:
        StoreError: the database cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[TunnelId, Suite] = {}
        for name, text in self._store.read("SELECT tunnel, suite FROM agreed_suite"):
            tunnel = TunnelId.parse(name)
            try:
                suite = parse_suite(text)
            except SuiteError as error:
                _log.warning("agreed_suite_unknown", tunnel=name, reason=str(error))
                continue
            if tunnel is not None:
                self._kept[tunnel] = suite
        self.now: Agreed = dict(self._kept)
        """What was observed last."""

    def observe(self, spec: GatewaySpec, charon: CharonState | None) -> Agreed:
        """What is used now, as `observe_suites` says; changes are written down.

        A database that cannot be written is tried again at the next pass.
        """
        self.now = self.preview(spec, charon)
        self._keep(self.now)
        return self.now

    def preview(self, spec: GatewaySpec, charon: CharonState | None) -> Agreed:
        """The same for a configuration that is not in force; nothing is written."""
        return observe_suites(spec, charon, self.now)

    def rename(self, changes: Mapping[str, str]) -> None:
        """Peers have other names now: the new ones by the old ones."""
        self.now = {
            TunnelId(changes.get(tunnel.peer, tunnel.peer), tunnel.index): suite for tunnel, suite in self.now.items()
        }

    def _keep(self, agreed: Agreed) -> None:
        if agreed == self._kept:
            return
        gone = self._kept.keys() - agreed.keys()
        put = {tunnel: suite for tunnel, suite in agreed.items() if self._kept.get(tunnel) != suite}
        try:
            self._store.write(
                *(("DELETE FROM agreed_suite WHERE tunnel = ?", (str(tunnel),)) for tunnel in gone),
                *(
                    ("INSERT OR REPLACE INTO agreed_suite VALUES (?, ?)", (str(tunnel), str(suite)))
                    for tunnel, suite in put.items()
                ),
            )
        except StoreError as error:
            _log.warning("agreed_suite_not_kept", reason=str(error))
        else:
            self._kept = dict(agreed)
