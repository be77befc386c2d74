"""Stores operations, and moves them on."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from windlass.operations.operation import Operation, OperationPage, OperationState, Refusal
from windlass.store.database import LATER, Also, Database, Row, Transaction, nothing
from windlass.store.ids import LARGEST

EVERYTHING: Mapping[str, str | None] = {"sees": "all", "subject": None, "issuer": None, "tenant": None}
"""The scope of an actor who sees all operations."""


class Operations:
    """The operations of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, operation: Operation, *, also: Also = nothing) -> None:
        """Store an operation that begins now, and have instances begin it. ``also`` writes in the same transaction."""

        def work(tx: Transaction) -> None:
            tx.run(
                "operation.put",
                id=operation.id,
                after=operation.after,
                matched=operation.matched,
                is_exact=operation.is_exact,
                act=operation.act,
                filter=operation.filter,
                actor=operation.actor,
                subject=operation.subject,
                issuer=operation.issuer,
                tenant=operation.tenant,
                reason=operation.reason,
                scope=json.dumps(operation.scope),
                options=json.dumps(operation.options),
            )
            also(tx)
            self._db.notify(tx, [LATER])

        self._db.transact(work)

    def get(self, operation_id: str, scope: Mapping[str, str | None] = EVERYTHING) -> Operation | None:
        """One operation; None if there is none, or none that the scope shows."""
        rows = self._db.read("operation.get", id=operation_id, **scope)
        return self._operation(rows[0]) if rows else None

    def list(
        self,
        scope: Mapping[str, str | None] = EVERYTHING,
        *,
        state: OperationState | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> OperationPage:
        """Operations from newest to oldest, a page at a time."""
        rows = self._db.read(
            "operation.list",
            cursor=cursor or LARGEST,
            state=None if state is None else str(state),
            limit=limit + 1,
            **scope,
        )
        found = [self._operation(row) for row in rows[:limit]]
        return OperationPage(found, found[-1].id if len(rows) > limit else None)

    def next(self, without: Collection[str] = ()) -> Operation | None:
        """The running operation whose next page is due, none of those ``without``; None if no other operation runs."""
        rows = self._db.read("operation.next", left=list(without))
        return self._operation(rows[0]) if rows else None

    def stop(self, operation_id: str, *, also: Also = nothing) -> bool:
        """Stop a running operation; False if it was over. A page that is being done is finished first."""

        def work(tx: Transaction) -> bool:
            is_stopped = bool(tx.run("operation.stop", id=operation_id))
            if is_stopped:
                also(tx)
            return is_stopped

        return self._db.transact(work)

    # ------------------------------------------------------------------ a page, in the caller's transaction

    def lock(self, tx: Transaction, operation: Operation) -> bool:
        """Lock an operation for its next page; False if another session did that page, or is doing it."""
        return bool(tx.run("operation.lock", id=operation.id, after=operation.after))

    def lock_jobs(self, tx: Transaction, ids: Sequence[str]) -> Mapping[str, str]:
        """Lock jobs, wherever they are; returns their states."""
        found: dict[str, str] = {}
        for verb in ("operation.live", "operation.later", "operation.ended"):
            found |= {row[0]: row[1] for row in tx.run(verb, ids=list(ids))}
        return found

    def advance(
        self,
        tx: Transaction,
        operation: Operation,
        *,
        after: str,
        done: int,
        refused: int,
        refusals: Sequence[Refusal],
        state: OperationState,
    ) -> tuple[int, int]:
        """Note a page of a locked operation; returns how many jobs were acted on and refused so far."""
        kept = [{"job": one.job_id, "code": one.code, "message": one.message} for one in refusals]
        ((all_done, all_refused),) = tx.run(
            "operation.advance",
            id=operation.id,
            after=after,
            done=done,
            refused=refused,
            refusals=json.dumps(kept),
            state=str(state),
        )
        return int(all_done), int(all_refused)

    def _operation(self, row: Row) -> Operation:
        (
            ident, created, updated, finished, after, matched, is_exact, done, refused, state, act, only, actor, subject, issuer, tenant, reason,
            scope, options, refusals,
        ) = row  # fmt: skip
        return Operation(
            id=str(ident),
            created_at=self._db.moment(created),
            updated_at=self._db.moment(updated),
            finished_at=self._db.moment(finished),
            after=str(after),
            matched=int(matched),
            is_exact=bool(is_exact),
            done=int(done),
            refused=int(refused),
            state=OperationState(state),
            act=act,
            filter=only,
            actor=actor,
            subject=subject,
            issuer=issuer,
            tenant=tenant,
            reason=reason,
            scope=json.loads(scope),
            options=json.loads(options),
            refusals=[Refusal(item["job"], item["code"], item["message"]) for item in json.loads(refusals)],
        )
