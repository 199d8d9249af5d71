"""With which connection each tunnel's live IKE_SA was established: a restart of the daemon forgets no renewal."""

from __future__ import annotations

import structlog

from ikeorch.core.ids import TunnelId
from ikeorch.core.renew import Renewals, Standing
from ikeorch.store.database import Store, StoreError

_log = structlog.get_logger("ikeorch.store")


class MadeWith:
    """The digests in the gateway's database.

    Args:
        store: the open database.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[TunnelId, str] = {}

    def load(self) -> Renewals:
        """What the last daemon knew; nothing of a tunnel that it did not know.

        Raises:
            StoreError: the database cannot be read.
        """
        rows = self._store.read("SELECT tunnel, digest FROM made_with")
        known = {TunnelId.parse(tunnel): digest for tunnel, digest in rows}
        self._kept = {tunnel: digest for tunnel, digest in known.items() if tunnel is not None}
        return Renewals(standings={tunnel: Standing(made_with=digest) for tunnel, digest in self._kept.items()})

    def keep(self, renewals: Renewals) -> None:
        """Write down what changed; a database that cannot be written is tried again at the next change."""
        wanted = {tunnel: standing.made_with for tunnel, standing in renewals.standings.items() if standing.made_with}
        if wanted == self._kept:
            return
        gone = [("DELETE FROM made_with WHERE tunnel = ?", (str(tunnel),)) for tunnel in self._kept.keys() - wanted]
        put = [
            ("INSERT OR REPLACE INTO made_with VALUES (?, ?)", (str(tunnel), digest))
            for tunnel, digest in wanted.items()
            if self._kept.get(tunnel) != digest
        ]
        try:
            self._store.write(*gone, *put)
        except StoreError as error:
            _log.warning("made_with_not_kept", reason=str(error))
        else:
            self._kept = wanted
