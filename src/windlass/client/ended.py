"""The end of a job that is waited for: how long the server is asked to wait, and what the end means to the caller."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from windlass.client.asks.ask import Seconds
from windlass.errors import JobCancelled, JobFailed, ResultTimeout
from windlass.model import Job, State

LONGEST_WAIT = 20
"""Seconds that one request waits at most: shorter than proxies keep a silent connection."""


def seconds_of(timeout: Seconds | None) -> float:
    """A time-out in seconds; infinite without one."""
    if timeout is None:
        return math.inf
    return timeout.total_seconds() if isinstance(timeout, timedelta) else timeout


def next_wait(timeout: Seconds | None, passed: float) -> int:
    """The whole seconds that the server is asked to wait next."""
    return max(0, int(min(LONGEST_WAIT, seconds_of(timeout) - passed)))


def timed_out(job: Job, timeout: Seconds | None) -> ResultTimeout:
    """The error of a job that did not end in time."""
    return ResultTimeout(job.id, seconds_of(timeout), str(job.state), job.why)


def result_of(job: Job) -> Any:
    """The result of an ended job, or the error that it has none."""
    if job.state is State.COMPLETED:
        return job.result
    raise (JobCancelled if job.state is State.CANCELLED else JobFailed)(job.id, job.kind, job.error)
