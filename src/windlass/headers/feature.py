"""Headers as a feature of jobs: stored with a job, passed on to the jobs that come from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.errors import ConfigError
from windlass.headers.store import CheckedHeaders, headers_json, read_all
from windlass.model import Flag, NewJob
from windlass.store.feature import Feature, Insertion
from windlass.store.ids import is_id
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.rows import array


class HeadersFeature(Feature):
    """Stores the headers of jobs."""

    name = "headers"
    flag = Flag.HEADERS

    def is_asked(self, job: NewJob) -> bool:
        return bool(job.headers) or job.headers_of is not None

    def check(self, job: CheckedJob) -> CheckedJob:
        headers_of = job.job.headers_of
        if headers_of is not None and not is_id(headers_of):
            raise ConfigError("headers_of", headers_of, "the id of a job, or None")
        if not job.job.headers:
            return job
        return _with_headers(job, job.job.headers)

    def before_insert(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        """Before the jobs: a job that is in its queue should be committed at once."""
        parents = {job.job.headers_of for job in jobs if job.job.headers_of is not None}
        if parents:
            found = read_all(call.tx.run, sorted(parents))
            jobs = [_heir(job, found.get(job.job.headers_of or "", {})) for job in jobs]
        self._put(call, jobs)
        return jobs

    def on_replaced(self, call: Insertion, job: CheckedJob) -> None:
        call.tx.run("headers.drop", ids=[job.id])
        self._put(call, [job])

    def _put(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        rows = [f'{{"job":"{job.id}","headers":{_text(job.job.headers)}}}' for job in jobs if job.job.headers]
        if rows:
            call.tx.run("enqueue.headers", headers=array(rows))


def _heir(job: CheckedJob, inherited: dict[str, str]) -> CheckedJob:
    """A job with the headers of the job that it comes from; its own are put on top."""
    if not inherited:
        return job
    return _with_headers(job, {**inherited, **(job.job.headers or {})})


def _with_headers(job: CheckedJob, headers: Mapping[str, str]) -> CheckedJob:
    """The job with these headers and the flag that it has some; refuses headers that cannot be stored."""
    return replace(
        job, job=replace(job.job, headers=CheckedHeaders(headers)), flags=job.flags | int(Flag.HEADERS)
    )


def _text(headers: Mapping[str, str]) -> str:
    return headers.text if isinstance(headers, CheckedHeaders) else headers_json(headers)
