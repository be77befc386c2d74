"""Submitting jobs for an actor: the jobs carry its principal, and nothing is shown or changed that it may not see.

Callers from outside name jobs (as parents, as members of a batch) and unique keys. A job outside the actor's scope is refused as a job that
does not exist; a key that such a job holds is refused without naming the job.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

from windlass.control.noun import Noun
from windlass.errors import KeyConflictError, UnknownParentError, WindlassError
from windlass.idempotency.store import RequestKey
from windlass.keys.feature import holders
from windlass.model import After, Enqueued, NewJob, State
from windlass.store.database import Transaction
from windlass.store.ids import is_id
from windlass.store.jobs.checked import CheckedJob, check
from windlass.submit.groups import batch_jobs
from windlass.submit.options import known_options
from windlass.submit.request import Request


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A job that is to be submitted: its kind by name, its arguments, and the options of ``kind.options``."""

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


class RequestKeyReused(Exception):  # noqa: N818  says what the caller did, and changes nothing
    """The key of a request belongs to another request."""


@dataclass(frozen=True, slots=True)
class KeyedJobs:
    """The jobs of a request with a key. ``is_repeat`` says that an earlier request stored them, ``has_ended`` that the response to that
    one was its ended job."""

    jobs: Sequence[Enqueued]
    is_repeat: bool
    has_ended: bool = False

    def text(self) -> str:
        """The response as it is stored."""
        jobs = [[one.id, one.created, one.replaced] for one in self.jobs]
        return json.dumps({"jobs": jobs, "has_ended": self.has_ended})

    @classmethod
    def repeated(cls, text: str) -> Self:
        """The response that was stored."""
        found = json.loads(text)
        return cls([Enqueued(*one) for one in found["jobs"]], is_repeat=True, has_ended=found["has_ended"])


class SubmitControl(Noun):
    """Submits jobs that the actor asks for."""

    def many(self, orders: Sequence[JobOrder], request_key: RequestKey | None = None) -> list[Enqueued]:
        """Submit jobs, all or none, in the order given. With a ``request_key`` a repeat returns the jobs of the first request;
        ``RequestKeyReused`` if the key belongs to another request."""
        return self._store_all(self._checked(orders), request_key)

    async def many_async(
        self, orders: Sequence[JobOrder], request_key: RequestKey | None = None
    ) -> list[Enqueued]:
        """``many`` without blocking the event loop; one plain job is stored together with jobs of other callers."""
        if len(orders) == 1 and request_key is None:
            job = self._new_jobs(orders)[0]
            if not self._must_be_guarded([job]):
                return [await self._source.submitter.submit_async(job)]
        return await asyncio.to_thread(self.many, orders, request_key)

    def keyed(self, order: JobOrder, request_key: RequestKey) -> KeyedJobs:
        """Submit one job of a request with a key, or find the job of the first request with it."""
        return self._store_keyed(self._checked([order]), request_key)

    async def keyed_async(self, order: JobOrder, request_key: RequestKey) -> KeyedJobs:
        """``keyed`` without blocking the event loop."""
        return await asyncio.to_thread(self.keyed, order, request_key)

    async def note_end_async(self, kept: KeyedJobs, request_key: RequestKey) -> None:
        """Have repeats of a request get its job as ended."""
        ended = replace(kept, has_ended=True).text()
        await asyncio.to_thread(self._store.request_keys.replace, request_key, ended)

    def batch(
        self,
        members: Sequence[JobOrder | str],
        then: JobOrder,
        request_key: RequestKey | None = None,
    ) -> list[Enqueued]:
        """Submit jobs and one that runs when all of them have ended; returns the members in the order given, and that job last. A member may be the
        id of a job that exists."""
        existing = [member for member in members if isinstance(member, str)]
        self._require_visible(existing)
        for order in (*members, then):
            if isinstance(order, JobOrder):
                self._require_visible(_parents(order))
        registry = self._source.registry
        with self._asking():
            jobs, ids = batch_jobs(
                [member if isinstance(member, str) else self._request(member) for member in members],
                self._request(then),
                self._source.authority,
                registry,
            )
        return self._store_all(jobs, request_key, [*ids, jobs[-1].id])

    async def batch_async(
        self,
        members: Sequence[JobOrder | str],
        then: JobOrder,
        request_key: RequestKey | None = None,
    ) -> list[Enqueued]:
        """``batch`` without blocking the event loop."""
        return await asyncio.to_thread(self.batch, members, then, request_key)

    async def ended_async(self, job_id: str, timeout: float) -> State | None:  # noqa: ASYNC109  as a handle's
        """Wait for the end of a job that the actor may see, without a thread; None if it did not end in time."""
        if not self._actor.scope.is_all:
            await asyncio.to_thread(self._require_job, job_id)
        ended = await self._source.submitter.waiter.wait_async(job_id, timeout)
        return None if ended is None else State(ended.state)

    # ------------------------------------------------------------------ how it is done

    def _asking(self) -> AbstractContextManager[Any]:
        who = self._actor.principal
        return nullcontext() if who is None else self._source.authority.as_principal(who)

    def _request(self, order: JobOrder) -> Request[Any, Any]:
        kind = self._source.registry.kind(order.kind)
        if kind is None:
            raise self._source.registry.unknown(order.kind)
        return Request(kind.first, (), order.arguments, known_options(order.options))

    def _new_jobs(self, orders: Sequence[JobOrder]) -> list[NewJob]:
        """The jobs with validated arguments; an error has the place of its job."""
        jobs = []
        with self._asking():
            for number, order in enumerate(orders):
                try:
                    self._require_visible(_parents(order))
                    jobs.append(self._request(order).new_job(self._source.authority))
                except WindlassError as error:
                    error.number = number
                    raise
        return jobs

    def _checked(self, orders: Sequence[JobOrder]) -> list[CheckedJob]:
        return check(self._new_jobs(orders))

    def _store_all(
        self, jobs: Sequence[CheckedJob], request_key: RequestKey | None, places: Sequence[str] | None = None
    ) -> list[Enqueued]:
        """Store jobs; returns them in the order of ``places``, ids of which some may be jobs that exist."""
        if request_key is not None:
            return list(self._store_keyed(jobs, request_key, places).jobs)
        if places is not None or self._must_be_guarded([job.job for job in jobs]):
            made = self._store.enqueuer.enqueue_group(jobs, partial(self._guard, jobs))
        else:
            made = self._store.enqueue_checked(jobs)
        return _listed(jobs, made, places)

    def _store_keyed(
        self, jobs: Sequence[CheckedJob], request_key: RequestKey, places: Sequence[str] | None = None
    ) -> KeyedJobs:
        def respond(made: Sequence[Enqueued]) -> str:
            return KeyedJobs(_listed(jobs, made, places), is_repeat=False).text()

        kept = self._store.request_keys.submit(request_key, jobs, respond, partial(self._guard, jobs))
        if kept.response is None:
            raise RequestKeyReused
        return replace(KeyedJobs.repeated(kept.response), is_repeat=not kept.made)

    def _guard(self, jobs: Sequence[CheckedJob], tx: Transaction) -> None:
        """Refuse keys that jobs of other people hold, before anything is stored."""
        scope = self._actor.scope
        for holder in () if scope.is_all else holders(tx, jobs):
            if not tx.run("principal.sees", id=holder, **scope.parameters()):
                key = next(key for job in jobs if (key := _key_of(job.job)) is not None)
                raise KeyConflictError(key, None)

    def _must_be_guarded(self, jobs: Sequence[NewJob]) -> bool:
        """Whether a key may lead to a job that the actor may not see."""
        return not self._actor.scope.is_all and any(_key_of(job) is not None for job in jobs)

    def _sees(self, job_id: str) -> bool:
        scope = self._actor.scope
        return scope.is_all or bool(self._store.db.read("principal.sees", id=job_id, **scope.parameters()))

    def _require_visible(self, ids: Sequence[str]) -> None:
        """Refuse parents and members that the actor may not see, in the words for those that do not exist."""
        hidden = [one for one in ids if is_id(one) and not self._sees(one)]
        if hidden:
            raise UnknownParentError(hidden)


def _listed(
    jobs: Sequence[CheckedJob], made: Sequence[Enqueued], places: Sequence[str] | None
) -> list[Enqueued]:
    """What was made of jobs, in the order of ``places`` or else of the jobs."""
    stored = {job.id: result for job, result in zip(jobs, made, strict=True)}
    wanted = list(stored) if places is None else places
    return [stored.get(place) or Enqueued(place, created=False) for place in wanted]


def _parents(order: JobOrder) -> list[str]:
    after = order.options.get("after") or ()
    return [one.parent if isinstance(one, After) else str(one) for one in after]


def _key_of(job: NewJob) -> str | None:
    if job.key is not None:
        return job.key.value
    for option in (job.debounce, job.throttle):
        if option is not None:
            return option.key
    return None
