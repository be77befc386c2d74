"""Stores jobs together with the key of the request that submitted them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windlass.errors import StoreBusyError, StoreInterruptedError, StoreUnreachableError
from windlass.model import Enqueued
from windlass.store.database import Also, Database, Transaction, nothing
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Enqueuer, has_own_ids

LASTS = timedelta(hours=24)
"""How long a key stands for its first request."""
LONGEST_WAIT = 5.0
"""Seconds that a repeat waits for the first request to commit."""
PRUNE_EVERY = 600.0
"""Seconds between two removals of old keys in one process."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The key of a request: unique in its ``scope``, which is the caller. ``body_hash`` distinguishes the request from others."""

    scope: str
    key: str
    body_hash: str


@dataclass(frozen=True, slots=True)
class KeyedResponse:
    """The result of a request with a key. ``made`` are the jobs that it stored, empty for a repeat; ``response`` is None for a key that
    belongs to another request."""

    response: str | None
    made: Sequence[Enqueued] = ()


class RequestKeyInUse(Exception):  # noqa: N818  says what another request does
    """The first request with a key did not end in the time that a repeat waits. Nothing was stored for the repeat."""


class RequestKeys:
    """The keys of requests of one database. ``patience`` is how many seconds a repeat waits for the first request."""

    def __init__(self, db: Database, enqueuer: Enqueuer) -> None:
        self._db = db
        self._enqueuer = enqueuer
        self._pruned_at = float("-inf")
        self.patience = LONGEST_WAIT
        self._taken = list[RequestKey]()
        self._lock = threading.Lock()

    def submit(
        self,
        key: RequestKey,
        entries: Sequence[CheckedJob],
        respond: Callable[[Sequence[Enqueued]], str],
        before: Also = nothing,
    ) -> KeyedResponse:
        """Store jobs and the response that ``respond`` makes of them, all or nothing; a repeat stores nothing and gets the response of the
        first request. ``before`` is called in the transaction of the jobs, before they are stored.

        While the first request is not committed, a repeat waits for it; ``RequestKeyInUse`` if that takes longer than ``patience``. Any other
        lock that does not become free is an error of the database."""
        named = {"scope": key.scope, "key": key.key}
        took = False

        def work(tx: Transaction) -> KeyedResponse:
            nonlocal took
            if took:  # the transaction is repeated
                took = False
                self._note_ended(key)
            if not tx.run("request_key.take", **named, body_hash=key.body_hash, lasts=LASTS.total_seconds()):
                ((body_hash, response),) = tx.run("request_key.read", **named)
                return KeyedResponse(response if body_hash == key.body_hash else None)
            took = self._note_taken(key)
            before(tx)
            made = self._enqueuer.insert(tx, entries, inbox=False, is_repeat=has_own_ids(entries))
            response = respond(made)
            tx.run("request_key.fill", **named, response=response)
            return KeyedResponse(response, made)

        def transact() -> KeyedResponse:
            return self._db.transact(work, waits=True, patience=self.patience)

        self._prune()
        try:
            return transact()
        except (StoreBusyError, StoreInterruptedError) as given_up:
            if not took and (self._is_taken(key) or _waited_for_a_row(given_up)):
                raise RequestKeyInUse from given_up
            raise
        except StoreUnreachableError as lost:
            if lost.is_unsent:
                raise
            return transact()  # the key shows whether the first try was committed
        finally:
            if took:
                self._note_ended(key)

    def replace(self, key: RequestKey, response: str) -> None:
        """Have repeats of a request get another response."""
        self._db.run("request_key.fill", scope=key.scope, key=key.key, response=response)

    def _note_taken(self, key: RequestKey) -> bool:
        with self._lock:
            self._taken.append(key)
        return True

    def _note_ended(self, key: RequestKey) -> None:
        with self._lock:
            self._taken.remove(key)

    def _is_taken(self, key: RequestKey) -> bool:
        """Whether a request of this process has taken a key and is not committed. On SQLite such a request holds the lock that others wait for."""
        with self._lock:
            return any((one.scope, one.key) == (key.scope, key.key) for one in self._taken)

    def _prune(self) -> None:
        now = time.monotonic()
        if now >= self._pruned_at + PRUNE_EVERY:
            self._pruned_at = now
            self.prune()

    def prune(self) -> None:
        """Remove keys that no longer stand for a request."""
        self._db.run("request_key.prune", lasts=LASTS.total_seconds())


def _waited_for_a_row(error: Exception) -> bool:
    """Whether PostgreSQL ended a wait for another transaction's row, and not one for a table: only of a row it says where it stands (the
    text is translated, its presence is not). Before a key is taken, the only row is that of the key."""
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) == "55P03" and bool(
        getattr(getattr(cause, "diag", None), "context", None)
    )
