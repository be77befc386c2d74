"""Phases as operators see them: how many jobs in which state, and whether they are served."""

from __future__ import annotations

import json
from datetime import timedelta

from windlass.errors import ConfigError, did_you_mean
from windlass.model import Counts, PhasePause, as_duration
from windlass.observe.logger import get_logger
from windlass.store.database import Also, Database, Transaction, nothing
from windlass.store.jobs import lines
from windlass.store.validators import LONGEST_DELAY, is_text

log = get_logger("windlass.store")


class Phases:
    """Pauses, resumes and counts phases."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def pause(
        self,
        phase: str,
        reason: str,
        *,
        lasts: timedelta | None = None,
        also: Also = nothing,
    ) -> None:
        """Stop claims of a phase on every instance; running jobs go on. Without ``lasts`` until it is resumed. ``also`` writes in the same
        transaction.

        A phase that had no job yet and that no instance serves is paused as well, with a warning: the name may be a misspelt one.
        """
        lasts = as_duration(lasts)
        if lasts is not None and not (isinstance(lasts, timedelta) and timedelta(0) < lasts <= LONGEST_DELAY):
            raise ConfigError(
                "lasts", lasts, "a duration above zero, to a hundred years, or None for a pause without end"
            )
        if not is_text(reason) or not reason.strip():
            raise ConfigError("reason", reason, "a short reason shown to operators")
        seconds = None if lasts is None else lasts.total_seconds()

        def work(tx: Transaction) -> None:
            tx.run("pause", phase=phase, reason=reason, seconds=seconds)
            also(tx)

        self._db.transact(work)
        lines.paused(phase, reason, seconds)
        known = self.known()
        if phase not in known:
            log.warning(
                "phase %r is paused, but it never had a job and no instance serves it%s; undo it with `windlass phases resume %s`",
                phase,
                did_you_mean(phase, known),
                phase,
            )

    def known(self) -> set[str]:
        """The phases that ever had a job, and those that living instances serve."""
        return {*self.counts(), *self._served()}

    def _served(self) -> set[str]:
        """The phases that living instances say they serve."""
        living = [
            json.loads(info) for _, _, _, dead_at, _, info in self._db.read("instances") if dead_at is None
        ]
        return {phase for info in living for phase in info.get("phases", ())}

    def resume(self, phase: str, *, also: Also = nothing) -> bool:
        """Serve a phase again; False when it was not paused. ``also`` writes in the same transaction, if it was."""

        def work(tx: Transaction) -> bool:
            was_paused = bool(tx.run("resume", phase=phase))
            if was_paused:
                also(tx)
            return was_paused

        was_paused = self._db.transact(work)
        if was_paused:
            lines.resumed(phase)
        return was_paused

    def paused(self) -> list[PhasePause]:
        """The phases that are paused now, by name."""
        return [
            PhasePause(name, self._db.moment(since), self._db.moment(until), reason)
            for name, since, until, reason in self._db.read("paused")
        ]

    def counts(self) -> dict[str, Counts]:
        """Jobs per state of every phase ever used, without scanning jobs."""
        return {row[0]: Counts(*(int(number) for number in row[1:])) for row in self._db.read("counts")}

    def oldest(self) -> dict[str, float]:
        """Seconds that the oldest queued job of every phase ever used has been ready; 0.0 where none is queued.

        Reads the head of each queue. Jobs that wait for a place, a parent or their time are not queued; those of a paused phase are.
        """
        return {phase: max(0.0, seconds or 0.0) for phase, seconds in self._db.read("oldest")}
