"""What was put in force, by whom, and the way back.

Every change is on trial until packets have proven it (`ikeorch.daemon.trial`); one that is refuted, or that takes too
many tunnels with it, goes again: the file on disk and the gateway return to the last revision that was proven. One that
was put in force "within" some time also goes again when nobody confirms it. The times are kept in the database, so a
daemon that is killed meanwhile goes on with them, and one that finds them over goes back at once.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from ikeorch.config.loader import LoadedConfig
from ikeorch.config.place import pack_sources, unpack_sources
from ikeorch.core.conditions import Code, Condition
from ikeorch.core.revision import Confirmation, Outcome, Revision, Terms, Trial, one_before, rollback_to
from ikeorch.core.units import Seconds
from ikeorch.daemon.config_file import ConfigFile, Gate
from ikeorch.daemon.deadline import deadline_in, seconds_left
from ikeorch.daemon.losses import Losses
from ikeorch.daemon.reconciler import Reconciler
from ikeorch.daemon.trial import Judgement, Ruling, judge_trial
from ikeorch.errors import IkeorchError, NotNowError, UnknownNameError
from ikeorch.store.database import Store, StoreError
from ikeorch.store.revisions import Revisions

TICK = 0.5
"""Seconds between two looks at what waits for a confirmation."""
WAIT_FOR_PEER = Seconds(600.0)
"""For so long a change that the peer does not take is tried again before it is undone."""
UNDONE_SHOWN = 3600.0
"""Seconds for which it is shown that a change was undone."""
RETRY = Seconds(5.0)
DAEMON = -1
"""The user id of what nobody asked for."""

USUAL = Terms()

_log = structlog.get_logger("ikeorch.history")


class History:
    """The revisions of the running gateway.

    Args:
        store: the open database.
        config: the configuration file.
        reconciler: the loop.
    """

    def __init__(self, store: Store, config: ConfigFile, reconciler: Reconciler) -> None:
        self._revisions = Revisions(store)
        self._config = config
        self._reconciler = reconciler
        self.changes = asyncio.Lock()
        """Held from before a change is read until it is written down: of two changes one comes first."""
        self._losses = Losses(reconciler)
        self._undone_at: float | None = None
        self.unwritten = ""
        """What the disk did not take of the last change, "" when all is written."""
        self._not_before = 0.0

    def revisions(self) -> list[Revision]:
        """All revisions, oldest first.

        Raises:
            StoreError: the database cannot be read.
        """
        return self._revisions.all()

    def revision(self, number: int) -> Revision:
        """One revision.

        Raises:
            UnknownNameError: there is none of that number.
            StoreError: the database cannot be read.
        """
        return self._target(number, None)

    def awaited(self) -> tuple[Confirmation, Seconds] | None:
        """What waits for a confirmation, and the seconds that are left.

        Raises:
            StoreError: the database cannot be read.
        """
        waiting = self._revisions.awaited()
        if waiting is None:
            return None
        return waiting, seconds_left(waiting.deadline)

    def on_trial(self) -> int | None:
        """Number of the revision that packets have to prove, None when there is none.

        Raises:
            StoreError: the database cannot be read.
        """
        trial = self._revisions.trial()
        return trial.revision if trial else None

    def require_settled(self) -> None:
        """Refuse a change while another one waits to be confirmed.

        Raises:
            NotNowError: one does.
        """
        waiting = self.awaited()
        if waiting is not None:
            hint = "first `ikeorch confirm` it, or `ikeorch rollback`"
            raise NotNowError(f"revision {waiting[0].revision} waits for its confirmation", hint=hint)

    def record(self, loaded: LoadedConfig, *, uid: int, what: str, terms: Terms = USUAL) -> int | None:
        """Write down that a configuration was put in force; one that is in force already is no revision.

        A change that must be confirmed is written down before it is made, and refused when it cannot be. Every other
        one was made already: a database that cannot be written costs its place in the history, nothing else.

        Args:
            loaded: the configuration.
            uid: who did it.
            what: by which command.
            terms: on which terms.

        Returns:
            The revision's number, None where nothing changed or could be written; where nothing changed, but the change
            before is not proven yet, that one's.

        Raises:
            StoreError: the database cannot be written, and the change must be confirmed.
        """
        try:
            return self._record(loaded, uid=uid, what=what, terms=terms)
        except StoreError as error:
            if terms.within is not None:
                raise
            _log.error("revision_not_recorded", command=what, reason=str(error))
            self._say_unwritten(f"the last change is not in the history, and nothing undoes it by itself: {error}")
            return None

    def _record(self, loaded: LoadedConfig, *, uid: int, what: str, terms: Terms) -> int | None:
        self._reconciler.set_condition(Code.FILE_NOT_APPLIED, None)
        last, text = self._revisions.last(), pack_sources(loaded.sources)
        if last is not None and last.text == text and last.outcome is not Outcome.ROLLED_BACK:
            # asked for again while packets have not proven it yet: whoever asks waits for the same trial
            return self.on_trial()
        self._losses.watch(terms)
        self._show_undone(None)
        within = terms.within if last is not None else None
        number = self._revisions.add(
            at=Seconds(time.time()),
            uid=uid,
            what=what,
            text=text,
            outcome=Outcome.IN_FORCE if within is None else Outcome.AWAITING,
            confirm_by=None if within is None else deadline_in(within),
            prove_by=deadline_in(terms.wait_for_peer or WAIT_FOR_PEER) if terms.trial and last is not None else None,
            patient=terms.wait_for_peer is not None,
        )
        self._say_unwritten(None)
        _log.info("revision_in_force", revision=number, uid=uid, command=what, confirm_within_seconds=within)
        return number

    async def confirm(self, *, uid: int) -> int:
        """Keep the revision that waits.

        Returns:
            Its number.

        Raises:
            NotNowError: none waits.
            StoreError: the database cannot be written.
        """
        async with self.changes:
            waiting = self._revisions.awaited()
            if waiting is None:
                raise NotNowError("no revision waits for a confirmation", hint="see `ikeorch history`")
            self._revisions.close(waiting.revision, Outcome.CONFIRMED, f"by user id {uid}", at=Seconds(time.time()))
            self._reconciler.set_condition(Code.AWAITING_CONFIRMATION, None)
            _log.info("revision_confirmed", revision=waiting.revision, uid=uid)
            return waiting.revision

    async def rollback(self, number: int | None, *, uid: int, reason: str, gate: Gate | None = None) -> int:
        """Put an older revision in force again, as a new one, and in the file.

        Args:
            number: which; None for the one before, see `one_before`.
            uid: who wants it, -1 for the daemon.
            reason: why.
            gate: asked before anything is changed; not when a change goes that may go by itself.

        Returns:
            The number of the revision that came back.

        Raises:
            UnknownNameError: there is no such revision.
            ConfigError: it is no longer valid, or the file cannot be written.
            RiskError: the gate refuses.
            StoreError: the database cannot be read or written.
        """
        async with self.changes:
            return await self._roll_back(number, uid=uid, reason=reason, gate=gate)

    async def _undo(self, revision: int, to: int, reason: str) -> bool:
        """Take a revision back by ourselves, unless somebody was faster, and say so.

        Args:
            revision: the one that goes.
            to: the one that comes back.
            reason: why.

        Returns:
            Whether it went.
        """
        async with self.changes:
            if revision not in {each.revision for each in self._open()}:
                return False
            await self._roll_back(to, uid=DAEMON, reason=reason, gate=None)
            self._show_undone(f"revision {revision} was undone: {reason}")
            return True

    async def _roll_back(self, number: int | None, *, uid: int, reason: str, gate: Gate | None) -> int:
        still_open = self._open()
        target = self._target(number, self._revisions.awaited())
        if any(target.number == each.previous for each in still_open):
            gate = None
        loaded = await self._config.restore(unpack_sources(target.text), gate)
        now = Seconds(time.time())
        self._show_undone(None)
        for revision in {each.revision for each in still_open}:
            self._revisions.close(revision, Outcome.ROLLED_BACK, reason, at=now)
        self._revisions.add(
            at=now,
            uid=uid,
            what=rollback_to(target.number),
            text=pack_sources(loaded.sources),
            outcome=Outcome.IN_FORCE,
        )
        self._reconciler.set_condition(Code.AWAITING_CONFIRMATION, None)
        self._reconciler.set_condition(Code.FILE_NOT_APPLIED, None)
        self._say_unwritten(None)
        _log.warning("rolled_back", to=target.number, uid=uid, reason=reason)
        return target.number

    def _open(self) -> list[Confirmation | Trial]:
        """What waits for a confirmation, or for packets."""
        return [each for each in (self._revisions.awaited(), self._revisions.trial()) if each is not None]

    def _target(self, number: int | None, waiting: Confirmation | None) -> Revision:
        known = self._revisions.all()
        if number is None and waiting is not None:
            number = waiting.previous
        if number is None:
            number = one_before(known)
        found = next((each for each in known if each.number == number), None)
        if found is None:
            numbers = f"there are 1 to {known[-1].number}" if known else "there is none yet"
            raise UnknownNameError(
                f"there is no revision {number or 'before this one'}", hint=f"{numbers}: `ikeorch history`"
            )
        return found

    async def run(self) -> None:
        """Watch what waits for a confirmation, for ever."""
        while True:
            try:
                await self._look()
            except IkeorchError as error:
                _log.error("rollback_failed", reason=str(error))
                self._say_unwritten(f"going back is not finished, and tried again: {error}")
                self._not_before = time.monotonic() + RETRY
            await asyncio.sleep(TICK)

    async def _look(self) -> None:
        if self._undone_at is not None and time.monotonic() > self._undone_at + UNDONE_SHOWN:
            self._show_undone(None)
        if time.monotonic() < self._not_before:
            return
        lost = self._losses.look()
        trial = self._revisions.trial()
        if trial is not None:
            ruling = Ruling(Judgement.REFUTED, lost) if lost else self._judge(trial)
            if ruling.judgement is Judgement.REFUTED:
                await self._undo(trial.revision, trial.previous, ruling.reason)
                return
            if ruling.judgement is Judgement.PROVEN:
                self._end_trial(trial)
        waiting = self.awaited()
        if waiting is None:
            return
        confirmation, left = waiting
        message = f"revision {confirmation.revision} goes in {max(0.0, left):.0f} s unless it is confirmed"
        self._reconciler.set_condition(
            Code.AWAITING_CONFIRMATION, Condition(code=Code.AWAITING_CONFIRMATION, subject="", message=message)
        )
        reason = "nobody confirmed it in time" if left <= 0 else lost
        if reason is not None:
            await self._undo(confirmation.revision, confirmation.previous, reason)

    def _judge(self, trial: Trial) -> Ruling:
        """How a change stands."""
        last, spec = self._reconciler.last, self._reconciler.spec
        left = seconds_left(trial.deadline)
        return judge_trial(last, spec, patient=trial.patient, left=left, narrow=self._losses.narrow)

    def _end_trial(self, trial: Trial) -> None:
        """Packets have proven it; on a full disk that is found out again later."""
        try:
            self._revisions.end_trial()
        except StoreError as error:
            self._say_unwritten(f"revision {trial.revision} is proven, which cannot be written down: {error}")
        else:
            self._say_unwritten(None)
            _log.info("revision_proven", revision=trial.revision)

    def _say_unwritten(self, message: str | None) -> None:
        """Tell users what the disk does not take, or stop telling them."""
        self.unwritten = message or ""
        condition = None if message is None else Condition(code=Code.HISTORY_UNWRITTEN, subject="", message=message)
        self._reconciler.set_condition(Code.HISTORY_UNWRITTEN, condition)

    def _show_undone(self, message: str | None) -> None:
        """Tell users that a change was undone, or stop telling them."""
        self._undone_at = None if message is None else time.monotonic()
        condition = None if message is None else Condition(code=Code.CHANGE_UNDONE, subject="", message=message)
        self._reconciler.set_condition(Code.CHANGE_UNDONE, condition)
