"""Writes of one held job, by the process that has its lease: checkpoints, outputs, effect transactions.

All of them depend on (id, token) alone. So a child process that runs a job for its parent opens a store of its own and writes under the
parent's token, without being an instance: it claims nothing, sends no heartbeat, and is fenced like its parent when the
lease is lost. The parent records the outcome, unless an effect transaction ended the job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from windlass.errors import ConfigError
from windlass.model import DEFAULT_MAX_ATTEMPTS, Lease, Output, Run
from windlass.store.database import Database, Transaction
from windlass.store.jobs import outputs, progress
from windlass.store.jobs.effects import EffectTransaction, Fence
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.outcome_rows import check_advance

LEASE = timedelta(seconds=30)
MARGIN = timedelta(seconds=5)


class HeldJob:
    """Writes of held jobs; ``lease`` is how long their instance may be silent, which bounds effect transactions."""

    def __init__(self, db: Database, enqueuer: Enqueuer, lease: timedelta = LEASE) -> None:
        if lease <= timedelta(0):
            raise ConfigError("lease", lease, "a duration above zero; 30 seconds is the default")
        self.lease = lease
        self._db = db
        self._enqueuer = enqueuer

    def checkpoint(
        self,
        lease: Lease,
        *,
        done: int,
        total: int | None = None,
        position: Any = None,
        is_first: bool = True,
    ) -> bool:
        """Save position and progress; True when the job was asked to stop. Progress never goes back. After the ``first`` checkpoint of a job,
        which is also noted on its row, one verb is enough, which commits by itself."""

        def save(tx: Transaction) -> bool:
            return progress.save(tx, lease, done=done, total=total, position=position)

        return self._db.transact(save) if is_first else save(self._db)

    def put_output(
        self,
        lease: Lease,
        value: Any,
        *,
        name: str = "",
        next_phase: str | None = None,
        next_max_attempts: int | None = None,
    ) -> Output:
        """Store an output of the job's phase, once. The one without a name says that the phase is done and, with
        ``next_phase``, where the job goes then: recovery moves it on if the holder dies in between."""
        if name == "" and next_phase is not None and next_max_attempts is None:
            next_max_attempts = DEFAULT_MAX_ATTEMPTS
        if next_phase is not None:
            check_advance(next_phase, next_max_attempts)
        row = outputs.output_row(
            lease, name, value, next_phase=next_phase, next_max_attempts=next_max_attempts
        )
        return self._db.transact(lambda tx: outputs.put(tx, lease, row))

    def transaction(
        self, lease: Lease, *, margin: timedelta = MARGIN, run: Callable[[], Run | None] | None = None
    ) -> EffectTransaction:
        """A transaction for the handler's own writes that ends with the job's checkpoint, advance or end.

        ``run`` is called at the end and returns where the attempt ran and how long it took.
        """
        return EffectTransaction(
            self._db, self._enqueuer, lease, self._bound(margin), on_end=lambda: self._ended(lease), run=run
        )

    def fence(
        self, lease: Lease, *, margin: timedelta = MARGIN, run: Callable[[], Run | None] | None = None
    ) -> Fence:
        """The job's checkpoint, advance or end in a transaction that the handler opened itself."""
        return Fence(self._db, self._enqueuer, lease, self._bound(margin), run)

    def _bound(self, margin: timedelta) -> float:
        return max(0.5, (self.lease - margin).total_seconds())

    def _ended(self, lease: Lease) -> None:
        """Called when an effect transaction ended the job or moved it on; it is no longer held here."""
