"""Stores jobs together with the key of the request that submitted them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windlass.errors import StoreUnreachableError
from windlass.model import Enqueued
from windlass.store.database import Also, Database, Transaction, nothing
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Enqueuer, has_own_ids

LASTS = timedelta(hours=24)
"""How long a key stands for its first request."""
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


class RequestKeys:
    """The keys of requests of one database."""

    def __init__(self, db: Database, enqueuer: Enqueuer) -> None:
        self._db = db
        self._enqueuer = enqueuer
        self._pruned_at = float("-inf")

    def submit(
        self,
        key: RequestKey,
        entries: Sequence[CheckedJob],
        respond: Callable[[Sequence[Enqueued]], str],
        before: Also = nothing,
    ) -> KeyedResponse:
        """Store jobs and the response that ``respond`` makes of them, all or nothing; a repeat stores nothing and gets the response of the first
        request. ``before`` is called in the transaction of the jobs, before they are stored. While that one is not committed, a repeat waits for it; ``StoreInterruptedError`` if that takes too long."""

        def work(tx: Transaction) -> KeyedResponse:
            named = {"scope": key.scope, "key": key.key}
            if not tx.run("request_key.take", **named, body_hash=key.body_hash, lasts=LASTS.total_seconds()):
                ((body_hash, response),) = tx.run("request_key.read", **named)
                return KeyedResponse(response if body_hash == key.body_hash else None)
            before(tx)
            made = self._enqueuer.insert(tx, entries, inbox=False, is_repeat=has_own_ids(entries))
            response = respond(made)
            tx.run("request_key.fill", **named, response=response)
            return KeyedResponse(response, made)

        self._prune()
        try:
            return self._db.transact(work, waits=True)
        except StoreUnreachableError as lost:
            if lost.is_unsent:
                raise
            return self._db.transact(work, waits=True)  # the key shows whether the first try was committed

    def _prune(self) -> None:
        now = time.monotonic()
        if now >= self._pruned_at + PRUNE_EVERY:
            self._pruned_at = now
            self.prune()

    def prune(self) -> None:
        """Remove keys that no longer stand for a request."""
        self._db.run("request_key.prune", lasts=LASTS.total_seconds())
