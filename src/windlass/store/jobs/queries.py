"""Shows and lists jobs, from outside their lifecycle."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from windlass.errors import ConfigError, JobNotFoundError, did_you_mean
from windlass.model import Attempt, Job, JobFilter, Page, Progress, Span, State
from windlass.store.database import Row
from windlass.store.ids import LARGEST, is_id
from windlass.store.jobs import progress
from windlass.store.jobs.acts import ANY_REASON, REASONS
from windlass.store.jobs.edits import Edits
from windlass.store.jobs.rows import to_attempt, to_job, to_span

MAX_PAGE = 1000
_Read = Callable[[dict[str, Any]], Sequence[Row]]


class Jobs(Edits):
    """Reads jobs and acts on them from outside."""

    def get(self, job_id: str) -> Job:
        """One job, wherever it is in its life."""
        rows = self._db.read("get", id=job_id) if is_id(job_id) else []
        if not rows:
            raise JobNotFoundError(job_id)
        return to_job(self._db, rows[0])

    def attempts(self, job_id: str) -> Sequence[Attempt]:
        """The attempts that did not end the job, oldest first; the one that did is the job itself."""
        return (
            [to_attempt(self._db, row) for row in self._db.read("attempts", id=job_id)]
            if is_id(job_id)
            else []
        )

    def timeline(self, job_id: str) -> Sequence[Span]:
        """All attempts of a job, oldest first, with any outcome; the last one may be running."""
        rows = self._db.read("timeline", id=job_id) if is_id(job_id) else []
        if not rows and not (is_id(job_id) and self._db.read("enqueue.present", ids=[job_id])):
            raise JobNotFoundError(job_id)
        return [to_span(self._db, row) for row in rows]

    def progress(self, job_id: str) -> Progress | None:
        """The saved position of a live job, or None at the beginning."""
        return progress.load(self._db, job_id) if is_id(job_id) else None

    def list(self, only: JobFilter | None = None, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Jobs from newest to oldest id, a page at a time. Ids are only roughly in order of creation."""
        only = only or JobFilter()
        if only.state is not None and only.state not in tuple(State):
            near = did_you_mean(str(only.state), list(State))
            raise ConfigError("state", only.state, f"one of {', '.join(State)}{near}")
        if not 1 <= limit <= MAX_PAGE:
            raise ConfigError("limit", limit, f"a whole number from 1 to {MAX_PAGE}")
        if cursor is not None and not is_id(cursor):
            raise ConfigError("cursor", cursor, "the next_cursor of the page before")
        common = {
            "before": cursor or LARGEST,
            "limit": limit + 1,
            "kind": only.kind,
            "phase": only.phase,
            "correlation": only.correlation_id,
        }
        found = heapq.merge(
            *(
                [to_job(self._db, row) for row in read(common)]
                for read in self._reads(None if only.state is None else State(only.state))
            ),
            key=lambda job: job.id,
            reverse=True,
        )
        # Tables are read one after the other: a job that moved in between shows up twice, and counts once.
        jobs = {job.id: job for job, _ in zip(found, range(2 * limit + 2), strict=False)}
        page = list(jobs.values())[:limit]
        return Page(page, page[-1].id if len(jobs) > limit else None)

    def _reads(self, state: State | None) -> Sequence[_Read]:
        def live(held: bool | None) -> _Read:
            return lambda common: self._db.read("list.live", held=held, **common)

        def later(reasons: Sequence[str]) -> _Read:
            return lambda common: self._db.read("list.later", reasons=list(reasons), **common)

        def done(ended: State) -> _Read:
            if ended is State.COMPLETED:
                return lambda common: self._db.read("list.completed", **common)
            return lambda common: self._db.read("list.ended_badly", state=str(ended), **common)

        match state:
            case None:
                return [live(None), later(ANY_REASON), *(done(s) for s in State if s.is_final)]
            case State.QUEUED:
                return [live(False), later(REASONS[State.QUEUED])]
            case State.PROCESSING:
                return [live(True)]
            case State.WAITING | State.SCHEDULED:
                return [later(REASONS[state])]
            case _:
                return [done(state)]
