"""Effect transactions: a handler's own writes and its job's next state in ONE commit.

The fence is the LAST statement before the commit: it locks the job's row, tests the token and changes the row, so
either the effect and the state are both there, or neither. Until then no session waits for this transaction: recovery
skips rows it cannot lock. The database ends a transaction that idles, or executes one statement, longer than the lease
allows, so that a frozen holder frees its row on time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from windlass.clock import Clock
from windlass.errors import LeaseLost, WindlassError
from windlass.model import (
    DEFAULT_MAX_ATTEMPTS,
    Advanced,
    Completed,
    Enqueued,
    Lease,
    NewJob,
    Outcome,
    Output,
    Route,
    Run,
    Verdict,
)
from windlass.store.database import Database, Effect, Transaction
from windlass.store.jobs import outputs, progress
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.outcome_rows import make_storable
from windlass.store.jobs.record import apply
from windlass.store.open_effects import OpenEffect


class EffectTransaction:
    """``with holder.transaction(lease) as tx``: write through ``tx.connection``, end with one of the verbs.

    Leaving without a verb completes nothing: the effects are committed behind the bare fence, and the job stays held.
    An exception, or a lost lease, rolls everything back.
    """

    def __init__(
        self,
        db: Database,
        enqueuer: Enqueuer,
        lease: Lease,
        seconds: float,
        *,
        on_end: Callable[[], None],
        run: Callable[[], Run | None] | None = None,
    ) -> None:
        self._db = db
        self._enqueuer = enqueuer
        self._lease = lease
        self._seconds = seconds
        self._on_end = on_end
        self._run = run
        self._stack = ExitStack()
        self._tx: Effect | None = None
        self._opened: OpenEffect | None = None
        self._outcome: Outcome | None = None
        self._checkpoint: dict[str, Any] | None = None
        self.cancel_asked = False
        self.verdict: Verdict | None = None

    @property
    def connection(self) -> Any:
        """The driver's connection, inside the transaction."""
        return self._open.connection

    @property
    def _open(self) -> Effect:
        if self._tx is None:
            raise WindlassError(
                f"the transaction of job {self._lease.id} is not open; use it inside its `with` block"
            )
        return self._tx

    def complete(self, result: Any = None, *, route: Route = ()) -> None:
        """Complete the job when this transaction commits."""
        self._outcome = Completed(self._lease, result, route=route)

    def advance(
        self,
        phase: str,
        output: Any = None,
        *,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        route: Route = (),
    ) -> None:
        """Store the phase's output and move the job on when this transaction commits."""
        self._outcome = Advanced(self._lease, phase, output, max_attempts, route=route)

    def checkpoint(
        self, *, done: int, total: int | None = None, position: Any = None, must_go_on: bool = True
    ) -> None:
        """Save the position when this transaction commits; the job stays held."""
        self._checkpoint = {"done": done, "total": total, "position": position, "must_go_on": must_go_on}

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Enqueue jobs that exist if and only if this transaction commits."""
        return self._enqueuer.enqueue_in(self._open, jobs)

    def enqueue_group(self, entries: Sequence[CheckedJob]) -> list[Enqueued]:
        """Enqueue jobs that belong together and exist if and only if this transaction commits."""
        return self._enqueuer.enqueue_group_in(self._open, entries)

    def put_output(self, value: Any, *, name: str) -> Output:
        """Store a named output with this transaction."""
        return outputs.put(self._open, self._lease, outputs.output_row(self._lease, name, value))

    def announce(self, *, blocks: bool = False) -> None:
        """Register, in the handler's own context, that this transaction is about to begin. A coroutine does so on its loop, before another
        thread begins the transaction; raises if that would wait forever."""
        effects = self._db.open_effects
        if effects is not None and self._opened is None:
            self._opened = effects.begin(self._lease.id, blocks=blocks)

    def withdraw(self) -> None:
        """Remove the registration: the transaction has ended, or did not begin."""
        opened, self._opened = self._opened, None
        if opened is not None and self._db.open_effects is not None:
            self._db.open_effects.end(opened)

    def __enter__(self) -> Self:
        self.announce(blocks=True)
        try:
            self._tx = self._stack.enter_context(self._db.effect(self._seconds, self._opened))
        except BaseException:
            self.withdraw()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            return self._end(kind, error, traceback)
        finally:
            self.withdraw()

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if error is None:
            try:
                tx = self._open
                tx.confirm()
                if self._outcome is None:  # writes no history, so it needs no partition
                    self._fence(tx)
                else:
                    self._db.fenced(tx, lambda: self._fence(tx))
            except BaseException as refused:
                self._stack.__exit__(type(refused), refused, refused.__traceback__)
                self._tx = None
                raise
        self._tx = None
        self._stack.__exit__(kind, error, traceback)
        if error is None and self._outcome is not None:
            self._on_end()
        return None

    def _fence(self, tx: Effect) -> None:
        lease = self._lease
        if self._checkpoint is not None:
            self.cancel_asked = progress.save(tx, lease, **self._checkpoint)
        if self._outcome is not None:
            outcome = replace(self._outcome, run=self._run()) if self._run else self._outcome
            self.verdict = apply(self._db, self._enqueuer, tx, [outcome])[lease.id]
            if self.verdict in (Verdict.LOST, Verdict.ALREADY_RECORDED):
                raise LeaseLost(f"effect of job {lease.id}", job_id=lease.id, token=lease.token)
        elif self._checkpoint is None:
            locked = tx.run("record.lock", leases=f'[{{"id":"{lease.id}","token":{lease.token}}}]')
            if not locked:
                raise LeaseLost(f"effect of job {lease.id}", job_id=lease.id, token=lease.token)
            self.cancel_asked = bool(locked[0][3])


class Fence:
    """Records a job's outcome as the last statements of a transaction that the caller owns: it counts if and when that commits.

    The caller began it and will end it. A holder that freezes with the row locked is handled by the database, which ends the
    transaction when it idles too long, from here on and for this transaction only.
    """

    def __init__(
        self,
        db: Database,
        enqueuer: Enqueuer,
        lease: Lease,
        seconds: float,
        run: Callable[[], Run | None] | None = None,
    ) -> None:
        self._db = db
        self._enqueuer = enqueuer
        self._lease = lease
        self._seconds = seconds
        self._run = run

    @property
    def dialect(self) -> str:
        """Which database the transaction must be on."""
        return self._db.dialect

    @property
    def clock(self) -> Clock | None:
        return self._db.clock

    def end(self, tx: Transaction, outcome: Completed | Advanced) -> None:
        """End the job, or move it on."""
        lease = self._lease
        checked = make_storable(outcome, strict=True)
        self._begin(tx)
        outcomes = [replace(checked, run=self._run()) if self._run else checked]
        verdict = apply(self._db, self._enqueuer, tx, outcomes, is_foreign=True)[lease.id]
        if verdict in (Verdict.LOST, Verdict.ALREADY_RECORDED):
            raise LeaseLost(f"end of job {lease.id}", job_id=lease.id, token=lease.token)

    def checkpoint(self, tx: Transaction, *, done: int, total: int | None, position: Any) -> bool:
        """Save the position; True when the job was asked to stop."""
        self._begin(tx)
        return progress.save(tx, self._lease, done=done, total=total, position=position, must_go_on=True)

    def _begin(self, tx: Transaction) -> None:
        tx.run("fence", milliseconds=max(1, int(self._seconds * 1000)))
