"""Reading jobs, as far as an actor may see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial

from windlass.control.filters import Filter
from windlass.control.filters.conditions import Conditions
from windlass.control.given import check_count
from windlass.control.job_views import JobCount as JobCount
from windlass.control.job_views import JobPage as JobPage
from windlass.control.noun import Noun, off_loop
from windlass.control.searching import UNLIMITED, Budget, Search
from windlass.control.sources import known_kinds
from windlass.errors import ConfigError
from windlass.job_logs.lines import AttemptLog
from windlass.model import Job, JobFilter, Output, ParentCounts, Progress, Span
from windlass.ranges import is_whole
from windlass.store.ids import is_id

COUNT_CAP = 10_000
AnyFilter = Filter | JobFilter | str | None
"""A filter as a text, read from a text, or as fields; None is all jobs."""


class JobReading(Noun):
    """Shows jobs. A job outside the actor's scope is refused like one that does not exist.

    A person (a principal, the user of a command) gets arguments, results, outputs, positions and errors with secrets hidden; the application itself gets them as they
    are stored; an actor that ``hides_payload`` does not get them (payload.py).
    """

    budget = Budget()
    """How far one page of a list or a count is searched."""

    def get(self, job_id: str) -> Job:
        """One job, wherever it is in its life; ``JobNotFoundError`` if there is none."""
        self._require_job(job_id)
        return self._payload.job(self._store.jobs.get(job_id))

    def list(self, only: AnyFilter = None, *, cursor: str | None = None, limit: int = 50) -> JobPage:
        """Jobs from newest to oldest id, a page at a time: ``app.jobs.list("state:failed kind:report*")``.

        A filter that no index serves is searched for in the newest 100,000 rows or for 70 ms; then the page may be short, and ``next_cursor``
        continues the search.
        """
        check_count("limit", limit)
        if cursor is not None and not is_id(cursor):
            raise ConfigError("cursor", cursor, "the next_cursor of the page before")
        search = self._search(self._conditions(Filter.of(only)), self.budget)
        found = search.run(cursor, limit)
        jobs = self._store.search.fetch(found.ids, search.parameters)
        return JobPage([self._payload.job(job) for job in jobs], found.next_cursor, found.searched)

    def iterate(self, only: AnyFilter = None, *, page: int = 500) -> Iterator[Job]:
        """All jobs that a filter finds, newest first, however long the search takes. Jobs that are created meanwhile are not among them."""
        only, cursor = Filter.of(only), None
        while True:
            found = self.list(only, cursor=cursor, limit=page)
            yield from found.jobs
            if (cursor := found.next_cursor) is None:
                return

    async def iterate_async(self, only: AnyFilter = None, *, page: int = 500) -> AsyncIterator[Job]:
        """``iterate`` without blocking the event loop."""
        only, cursor = Filter.of(only), None
        while True:
            found = await asyncio.to_thread(self.list, only, cursor=cursor, limit=page)
            for job in found.jobs:
                yield job
            if (cursor := found.next_cursor) is None:
                return

    def count(self, only: AnyFilter = None, *, cap: int | None = COUNT_CAP) -> JobCount:
        """How many jobs a filter finds, up to ``cap``. By state and phase alone all jobs are counted; else as far as a page of a list is searched.
        With ``cap=None`` every job is counted, however long it takes."""
        if cap is not None and not is_whole(cap, 1):
            raise ConfigError("cap", cap, "a whole number from 1, or None to count every job")
        only = Filter.of(only)
        conditions = self._conditions(only)
        if self._actor.scope.is_all and conditions.keys <= {"state", "phase"}:
            return JobCount(self._tally(conditions), exact=True, searched=0)
        budget = UNLIMITED if cap is None else self.budget
        found = self._search(conditions, budget).run(None, cap or 2**62)
        return JobCount(len(found.ids), found.next_cursor is None, found.searched)

    def timeline(self, job_id: str) -> Sequence[Span]:
        """All attempts of a job, oldest first, with any outcome; the last one may be running."""
        self._require_job(job_id)
        return [self._payload.with_error(span) for span in self._store.jobs.timeline(job_id)]

    def logs(self, job_id: str) -> Sequence[AttemptLog]:
        """The lines that the job's handlers logged, attempt by attempt, oldest first; at most 64 kB of each attempt. Lines of a running job
        are about a second old."""
        self._require_job(job_id)
        self._store.jobs.get(job_id)
        self._payload.require("log lines")
        return self._store.logs.read(job_id)

    def progress(self, job_id: str) -> Progress | None:
        """How far a job is; None if it saved nothing yet."""
        return self.get(job_id).progress

    def outputs(self, job_id: str) -> Sequence[Output]:
        """The outputs of a job's phases in the order in which they were stored."""
        return self.get(job_id).outputs

    def batch(self, job_id: str) -> ParentCounts:
        """How many jobs a job waits for, or has waited for, and how those ended that have ended; ``job_id`` is the last job of a batch."""
        self._require_job(job_id)
        counts = self._store.parents.count(job_id) if is_id(job_id) else None
        if counts is None or not counts.total:
            self._store.jobs.get(job_id)
            return ParentCounts(0)
        return counts

    def _search(self, only: Conditions, budget: Budget) -> Search:
        return Search(self._store, self._actor.scope, only, budget, partial(known_kinds, self._source))

    def _conditions(self, only: Filter) -> Conditions:
        self._payload.require_search(only)
        return Conditions.of(only, self._store.db.now())

    def _tally(self, conditions: Conditions) -> int:
        phases = conditions.choices["phase"]
        return sum(
            getattr(counts, state)
            for phase, counts in self._store.phases.counts().items()
            if phases.covers(phase)
            for state in conditions.states
        )

    get_async = off_loop(get)
    list_async = off_loop(list)
    count_async = off_loop(count)
    timeline_async = off_loop(timeline)
    logs_async = off_loop(logs)
    progress_async = off_loop(progress)
    outputs_async = off_loop(outputs)
    batch_async = off_loop(batch)
