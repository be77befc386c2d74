"""What a job takes over from the running job that enqueues it: its correlation id and its headers."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from windlass.model import Flag, Lease, NewJob

and_ = int.__and__  # the operator of a Flag takes a microsecond
_HEADERS = int(Flag.HEADERS)


class TakenOver(NamedTuple):
    """Fields of a request that come from the running job; ``headers_of`` is None if that job has no headers."""

    correlation_id: str | None
    headers_of: str | None


NOTHING = TakenOver(None, None)
"""For a job that is enqueued outside of handlers."""


def taken_over(lease: Lease) -> TakenOver:
    """What a new job takes over from the running job of this lease."""
    return TakenOver(lease.correlation_id, lease.id if and_(lease.flags, _HEADERS) else None)


def inherit(job: NewJob, lease: Lease) -> NewJob:
    """The job with the correlation id of the job that enqueues it, unless it brings its own, and with its headers under its own."""
    taken = taken_over(lease)
    if taken.headers_of is not None and job.headers_of is None:
        job = replace(job, headers_of=taken.headers_of)
    return job if job.correlation_id is not None else replace(job, correlation_id=taken.correlation_id)
