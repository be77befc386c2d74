"""Does the pages of operations: on a worker in the background, or in the process of a caller that waits.

A page is found by a read. Then, in one transaction: the operation's row is locked if no other session has done the page; the jobs are locked; those
that still meet the filter, in the scope of the actor who began it, are acted on; their audit records are written; and the operation moves on. So
each job is acted on once, also if the process is killed at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from windlass.audit.record import AuditRecord
from windlass.control.actor import Scope
from windlass.control.filters import Filter
from windlass.control.filters.conditions import Conditions
from windlass.control.noun import Source
from windlass.control.searching import Budget, Found, Search
from windlass.control.sources import known_kinds
from windlass.errors import FAULTS_OF_THE_STORE, StoreError, StoreInterruptedError, WindlassError
from windlass.features import Store
from windlass.model import CancelResult
from windlass.observe.logger import get_logger
from windlass.operations.operation import MAX_REFUSALS, Operation, OperationState, Refusal
from windlass.store.database import Transaction
from windlass.store.feature import PutOff
from windlass.store.ids import SMALLEST
from windlass.store.jobs.acts import TRIES, too_fast
from windlass.urls import without_secrets

log = get_logger("windlass.control")

PAGE = 50
"""How many jobs one transaction acts on; their rows are locked until it commits. PostgreSQL keeps up to 64 savepoints of a transaction at hand."""
TURN = "operations"
TURN_LASTS = 5.0
"""Seconds for which one process does the pages of all operations, unless it takes the turn again."""
AGAIN = 1.0
"""Seconds after which a worker checks again whether the turn is free."""
LEFT_FOR = 60.0
"""Seconds for which an operation whose page raised an error is left to other processes."""
MAX_MESSAGE = 500
TICK = timedelta(microseconds=1)
_DONE = {
    "cancel": "cancelled",
    "retry": "retried",
    "run_now": "run now",
    "delete": "deleted",
    "priority": "changed",
}
_UNDONE = frozenset({"retry", "delete"})
"""Acts that may be refused after they have written something."""


@dataclass(slots=True)
class _Page:
    """What a page did."""

    records: list[AuditRecord] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


class _PutOffJob(Exception):  # noqa: N818  a signal between two methods
    """A retry of one job of a page that has to wait until a feature has finished something about it."""

    def __init__(self, job_id: str, put_off: PutOff) -> None:
        super().__init__()
        self.job_id, self.put_off = job_id, put_off


class OperationRunner:
    """Does pages of operations."""

    def __init__(self, source: Source, budget: Budget | None = None) -> None:
        self._source = source
        self._budget = budget or Budget()
        self._left: dict[str, float] = {}
        """Operations whose last page raised an error, and until when they are left to other processes."""

    @property
    def _store(self) -> Store:
        return self._source.store

    def run_next(self, holder: str) -> float | None:
        """Do a page of the operation that waited longest; returns the seconds until there may be more, None if no operation runs."""
        now = time.monotonic()
        self._left = {one: until for one, until in self._left.items() if until > now}
        operation = self._store.operations.next(self._left)
        if operation is None:
            return LEFT_FOR if self._left else None
        if not self.take_turn(holder):
            return AGAIN
        try:
            self.run_page(operation)
        except (StoreInterruptedError, *FAULTS_OF_THE_STORE):
            raise
        except Exception as error:
            # Of another release, perhaps: a process that knows its filter can do it, and the other operations must not wait for it.
            log.exception(
                "operation %s (%s) cannot go on here: %s",
                operation.id,
                operation.act,
                without_secrets(str(error)),
            )
            self._left[operation.id] = now + LEFT_FOR
            self.give_turn(holder)
        return 0.0

    def take_turn(self, holder: str) -> bool:
        """Take the turn of doing operations, or take it again; False if another process has it."""
        return self._store.upkeep.take_turn(TURN, holder, TURN_LASTS)

    def give_turn(self, holder: str) -> None:
        """Give the turn back."""
        self._store.upkeep.take_turn(TURN, holder, 0.0)

    def run_page(self, operation: Operation) -> bool:
        """Do the next page of an operation; False if another process did it, or the operation is over."""
        search = self._search(operation)
        found = search.run(operation.after, PAGE)
        given_up: dict[str, StoreError] = {}
        while True:
            work = partial(self._work, operation, search.parameters, found, given_up)
            try:
                page = self._store.db.transact(work, waits=True)
            except _PutOffJob as signal:
                self._finish(signal, given_up)
                continue
            for record in page.records if page is not None else ():
                self._source.audited(record)
            return page is not None

    def _finish(self, signal: _PutOffJob, given_up: dict[str, StoreError]) -> None:
        """Finish what a retry waits for, outside the transaction; the page is done again afterwards."""
        try:
            signal.put_off.finish(self._store.db, self._store.enqueuer)
        except FAULTS_OF_THE_STORE:
            raise
        except StoreError as error:
            given_up[signal.job_id] = error

    def _search(self, operation: Operation) -> Search:
        """The search for the jobs of an operation: as of its beginning, so that ages mean what they meant, and without jobs created since."""
        conditions = Conditions.of(Filter.parse(operation.filter), operation.created_at)
        scope = Scope(**operation.scope)  # type: ignore[arg-type]
        search = Search(self._store, scope, conditions, self._budget, partial(known_kinds, self._source))
        until, asked = operation.created_at + TICK, search.parameters["created_high"]
        search.parameters["created_high"] = until if asked is None else min(asked, until)
        return search

    # ------------------------------------------------------------------ one page, in one transaction

    def _work(
        self,
        operation: Operation,
        conditions: Mapping[str, Any],
        found: Found,
        given_up: Mapping[str, StoreError],
        tx: Transaction,
    ) -> _Page | None:
        operations = self._store.operations
        if not operations.lock(tx, operation):
            return None
        page = _Page()
        for job_id, state in self._locked(tx, found.ids, conditions).items():
            try:
                if state is None:
                    raise too_fast(job_id, _DONE[operation.act])
                if job_id in given_up:
                    raise given_up[job_id]
                after = self._act(tx, operation, job_id)
            except (StoreInterruptedError, *FAULTS_OF_THE_STORE):
                raise
            except WindlassError as error:
                page.refusals.append(Refusal(job_id, error.code, str(error)[:MAX_MESSAGE]))
            else:
                record = self._record(
                    operation, f"job.{operation.act}", "job", job_id, after, {"state": state}
                )
                page.records.append(record)
        is_last = found.next_cursor is None
        done, refused = operations.advance(
            tx,
            operation,
            after=found.next_cursor or SMALLEST,
            done=len(page.records),
            refused=len(page.refusals),
            refusals=[*operation.refusals, *page.refusals][:MAX_REFUSALS],
            state=OperationState.DONE if is_last else OperationState.RUNNING,
        )
        if is_last:
            counts = {"done": done, "refused": refused}
            page.records.append(self._record(operation, "operation.end", "operation", operation.id, counts))
        self._store.audit.write_all(tx, page.records)
        return page

    def _locked(
        self, tx: Transaction, ids: Sequence[str], conditions: Mapping[str, Any]
    ) -> Mapping[str, str | None]:
        """Those of these jobs that meet the filter now, in the order of their ids, with their states. Their rows are locked: they cannot change
        any more. A job that is in the middle of a move has no state."""
        states: dict[str, str] = {}
        meant: Sequence[str] = sorted(ids)
        for _ in range(TRIES):
            if missing := [job_id for job_id in meant if job_id not in states]:
                states |= self._store.operations.lock_jobs(tx, missing)
            if not meant:
                break
            meant = sorted(row[0] for row in tx.run("search.ids", ids=list(meant), **conditions))
            if all(job_id in states for job_id in meant):
                break
        return {job_id: states.get(job_id) for job_id in meant}

    def _act(self, tx: Transaction, operation: Operation, job_id: str) -> Mapping[str, Any]:
        """Act on one job; returns what the audit trail says of it beside the operation. A refused act leaves nothing behind."""
        if operation.act not in _UNDONE:
            return self._acted(tx, operation, job_id)
        try:
            with self._store.db.savepoint(tx):
                return self._acted(tx, operation, job_id)
        except PutOff as put_off:
            raise _PutOffJob(job_id, put_off) from None

    def _acted(self, tx: Transaction, operation: Operation, job_id: str) -> Mapping[str, Any]:
        jobs, options = self._store.jobs, operation.options
        acts: Mapping[str, Callable[[], Any]] = {
            "cancel": lambda: jobs.cancel_in(tx, job_id, operation.reason or ""),
            "retry": lambda: jobs.retry_in(tx, job_id, bool(options.get("dependents"))),
            "run_now": lambda: jobs.run_now_in(tx, job_id),
            "delete": lambda: jobs.delete_in(tx, job_id),
            "priority": lambda: jobs.prioritize_in(tx, job_id, int(options["priority"])),
        }
        for _ in range(TRIES):
            result = acts[operation.act]()
            if isinstance(result, CancelResult):
                return {"result": str(result)}
            if result:
                return options
        raise too_fast(job_id, _DONE[operation.act])

    def _record(
        self,
        operation: Operation,
        act: str,
        target: str,
        name: str,
        after: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> AuditRecord:
        return AuditRecord(
            actor=operation.actor,
            act=act,
            target=target,
            name=name,
            reason=operation.reason,
            before=before,
            after=after if target == "operation" else {"operation": operation.id, **after},
            subject=operation.subject,
            issuer=operation.issuer,
            tenant=operation.tenant,
        )
