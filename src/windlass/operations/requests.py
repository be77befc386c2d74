"""Requests to one instance: to drain, or to change how many processors a phase has. The instance reads them, does them, and stores the outcome."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.operations.request import InstanceRequest, RequestState
from windlass.store.database import LATER, Also, Database, Row, Transaction, nothing
from windlass.store.ids import new_id
from windlass.store.jobs.rows import clean

MAX_TEXT = 1000
MAX_OUTCOME = 20_000


class Requests:
    """The requests to instances of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(
        self,
        instance: str,
        act: str,
        *,
        actor: str,
        reason: str | None = None,
        phase: str | None = None,
        number: float | None = None,
        also: Also = nothing,
    ) -> str:
        """Store a request, and have the instance read it; returns its id. ``also`` writes in the same transaction."""
        request = new_id()

        def work(tx: Transaction) -> None:
            tx.run(
                "request.put",
                id=request,
                instance=instance,
                act=act,
                phase=phase,
                number=number,
                actor=clean(actor, MAX_TEXT),
                reason=None if reason is None else clean(reason, MAX_TEXT),
            )
            also(tx)
            self._db.notify(tx, [LATER])

        self._db.transact(work)
        return request

    def get(self, request_id: str) -> InstanceRequest | None:
        """One request; None if there is none."""
        rows = self._db.read("request.get", id=request_id)
        return self._request(rows[0]) if rows else None

    def of(self, instance: str, limit: int = 50) -> Sequence[InstanceRequest]:
        """The requests to an instance, newest first."""
        return [self._request(row) for row in self._db.read("request.list", instance=instance, limit=limit)]

    def asked(self, instance: str) -> Sequence[InstanceRequest]:
        """The requests that an instance has not read, oldest first."""
        return [self._request(row) for row in self._db.read("request.asked", instance=instance)]

    def note(self, request_id: str, state: RequestState, outcome: str) -> None:
        """Store what became of a request."""
        self._db.run("request.note", id=request_id, state=str(state), outcome=clean(outcome, MAX_OUTCOME))

    def _request(self, row: Row) -> InstanceRequest:
        ident, instance, act, phase, number, actor, reason, state, outcome, at, done = row
        return InstanceRequest(
            id=str(ident),
            instance=str(instance),
            act=act,
            phase=phase,
            number=number,
            actor=actor,
            reason=reason,
            state=RequestState(state),
            outcome=outcome,
            at=self._db.moment(at),
            done_at=self._db.moment(done),
        )
