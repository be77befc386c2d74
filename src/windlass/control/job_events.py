"""The events of one job: its attempts as they begin and end, and its progress."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from windlass.control.events import checked_timeout
from windlass.control.job_reading import JobReading
from windlass.control.job_views import JobEvent as JobEvent
from windlass.control.noun import off_loop
from windlass.control.sampler import JobState
from windlass.control.topics import TopicOver
from windlass.errors import ConfigError, JobNotFoundError
from windlass.model import Span

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CREATED, STARTED, ENDED = 0, 1, 2
Key = tuple[int, int]


class JobEvents(JobReading):
    """Streams the events of jobs."""

    def events(
        self, job_id: str, *, after: str | None = None, timeout: float | None = None
    ) -> Iterator[JobEvent]:
        """All events of a job, from its creation or behind the event ``after``, then those to come; ends with the job. With a ``timeout`` it
        also ends when no event came for so many seconds. All watchers of an app read together, once a second."""
        reader, wait = _Reader(_cursor(after)), checked_timeout(timeout)
        self._require_present(job_id)
        return self._stream(job_id, reader, wait)

    def _stream(self, job_id: str, reader: _Reader, timeout: float | None) -> Iterator[JobEvent]:
        subscription = self._source.sampler.job(job_id.lower())
        try:
            while (state := subscription.next(timeout)) is not None:
                for event in reader.read(state):
                    yield self._visible(event)
                if state.job.state.is_final:
                    return
        except TopicOver:
            return
        finally:
            subscription.close()

    async def events_async(
        self,
        job_id: str,
        *,
        after: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  as the sync form
    ) -> AsyncIterator[JobEvent]:
        """``events`` without blocking the event loop."""
        reader, wait = _Reader(_cursor(after)), checked_timeout(timeout)
        await self._require_present_async(job_id)
        subscription = self._source.sampler.job(job_id.lower())
        try:
            while (state := await subscription.next_async(wait)) is not None:
                for event in reader.read(state):
                    yield self._visible(event)
                if state.job.state.is_final:
                    return
        except TopicOver:
            return
        finally:
            subscription.close()

    def present(self, job_id: str) -> None:
        """``JobNotFoundError`` if the job is not there."""
        self._require_present(job_id)

    present_async = off_loop(present)

    def _require_present(self, job_id: str) -> None:
        self._require_job(job_id)
        if not self._store.ends.present([job_id]):
            raise JobNotFoundError(job_id)

    _require_present_async = off_loop(_require_present)

    def _visible(self, event: JobEvent) -> JobEvent:
        """The event as the actor may see it."""
        return replace(self._payload.with_error(event), progress=self._payload.progress(event.progress))


class _Reader:
    """Makes events of the states of one job, each event once."""

    def __init__(self, after: Key | None) -> None:
        self._after: Key = (-1, -1) if after is None else after
        self._saved_at: datetime | None = None

    def read(self, state: JobState) -> Iterator[JobEvent]:
        job = state.job
        for key, event in _transitions(state):
            if key > self._after:
                self._after = key
                yield event
        progress = job.progress
        if progress is not None and progress.at is not None and progress.at != self._saved_at:
            self._saved_at = progress.at
            if not job.state.is_final:
                yield JobEvent(
                    id=_text(self._after),
                    job=job.id,
                    type="progress",
                    at=progress.at,
                    phase=job.phase,
                    attempt=job.attempt,
                    generation=job.generation,
                    progress=progress,
                )


def _transitions(state: JobState) -> Sequence[tuple[Key, JobEvent]]:
    """The transitions of a job in order. An attempt is known by the time of its claim, which only grows."""
    job, found = state.job, []

    def add(
        key: Key, kind: str, at: datetime, *, span: Span | None = None, error: Mapping[str, Any] | None = None
    ) -> None:
        event = JobEvent(
            id=_text(key),
            job=job.id,
            type=kind,
            at=at,
            phase=job.phase if span is None else span.phase,
            attempt=job.attempt if span is None else span.attempt,
            generation=job.generation if span is None else span.generation,
            instance=None if span is None or span.instance is None else str(span.instance),
            error=error,
        )
        found.append((key, event))

    first = state.spans[0] if state.spans else None
    add(
        (0, CREATED), "created", job.created_at, span=None if first is None else replace(first, instance=None)
    )
    for span in state.spans:
        claimed = _micros(span.claimed_at)
        is_run = span.ended_at is None or span.instance is not None or span.ran is not None
        if is_run:
            add((claimed, STARTED), "started", span.started_at, span=span)
        if span.ended_at is not None:
            add((claimed, ENDED), span.outcome, span.ended_at, span=span, error=span.error)
    last = state.spans[-1] if state.spans else None
    if job.state.is_final and job.finished_at is not None:
        if last is None or last.generation != job.generation or last.outcome != job.state:
            add((_micros(job.finished_at), ENDED), str(job.state), job.finished_at, error=job.error)
        found[-1] = found[-1][0], replace(found[-1][1], is_last=True)
    return found


def _micros(moment: datetime) -> int:
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _text(key: Key) -> str:
    return f"{max(key[0], 0)}-{max(key[1], 0)}"


def _cursor(text: object) -> Key | None:
    if text is None:
        return None
    at, dash, kind = text.partition("-") if isinstance(text, str) else ("", "", "")
    if not (dash and at.isascii() and at.isdigit() and len(at) <= 20 and kind in ("0", "1", "2")):
        raise ConfigError("after", text, "the id of an event of this job")
    return int(at), int(kind)
