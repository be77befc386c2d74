"""Expiry as a feature of jobs: a job that has not begun by its time is cancelled, and one that begins cannot expire any more.

A job begins when its start is stored, which is before its handler is entered. The start and the end of a job that expires both lock the job's
row, so that exactly one of them happens. A start removes the flag and the row; a retry by hand brings back neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from windlass.errors import ConfigError
from windlass.expiry.store import Expiries, end_overdue, log_expired
from windlass.model import Flag, NewJob, as_duration
from windlass.store.database import Database
from windlass.store.feature import Agenda, EndedJob, Feature, FeatureDuty, Insertion, MovedJob, Recording
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.rows import array
from windlass.store.validators import LONGEST_DELAY

FORM = "seconds above zero, a timedelta, or a datetime with a time zone"
AGAIN = 1.0
"""Seconds to wait where all due jobs were locked by other sessions."""


class ExpiryFeature(Feature):
    """Stores until when jobs must have begun, and cancels those that have not."""

    name = "expiry"
    flag = Flag.EXPIRES

    def is_asked(self, job: NewJob) -> bool:
        return job.expires is not None

    def check(self, job: CheckedJob) -> CheckedJob:
        expires = checked(job.job.expires)
        _refuse_unstartable(expires, job.job)
        return replace(job, job=replace(job.job, expires=expires), flags=job.flags | int(Flag.EXPIRES))

    def after_insert(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        rows = [_row(job.id, job.job.expires, call.stamp) for job in jobs if job.job.expires is not None]
        if rows:
            call.tx.run("enqueue.expiries", expiries=array(rows))
            call.hint_later()

    def on_replaced(self, call: Insertion, job: CheckedJob) -> None:
        call.tx.run("expiry.forget", ids=[job.id])
        self.after_insert(call, [job])

    def on_start(self, call: Recording, jobs: Sequence[str]) -> Collection[str]:
        expired = end_overdue(call, jobs)
        if expired:
            call.after_commit.append(partial(log_expired, expired))
        over = {job.id for job in expired}
        if begun := [job for job in jobs if job not in over]:
            call.tx.run("expiry.forget", ids=begun)
        return over

    def on_recorded(
        self, call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob]
    ) -> Sequence[EndedJob]:
        call.tx.run("expiry.forget", ids=[*(job.id for job in ended), *(job.id for job in moved)])
        return ()

    def duties(self, db: Database, inserter: Inserter, every: float) -> Sequence[FeatureDuty]:
        expiries = Expiries(db, inserter)

        def cancel(agenda: Agenda) -> float | None:
            left = agenda.seconds("expire_in")
            if left is None or left > 0:
                return left
            return 0.0 if expiries.cancel_due() else AGAIN

        return [FeatureDuty("expiry", lambda agenda: agenda.seconds("expire_in") is not None, cancel)]


def checked(given: Any) -> timedelta | datetime:
    """Check an expiry; returns a time, or a duration from the submission."""
    expires = as_duration(given)
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise ConfigError("expires", given, FORM)
        if not 1970 < expires.year < 3000:
            raise ConfigError("expires", given, "a time between the years 1971 and 2999")
        return expires
    if not isinstance(expires, timedelta) or not timedelta(0) < expires <= LONGEST_DELAY:
        raise ConfigError("expires", given, FORM)
    return expires


def _refuse_unstartable(expires: timedelta | datetime, job: NewJob) -> None:
    """Refuse a job that expires before it is due."""
    due = job.delay if isinstance(expires, timedelta) else job.run_at
    if due is not None and due >= expires:  # type: ignore[operator]  # both are durations, or both are times
        raise ConfigError(
            "expires",
            str(expires),
            because=f"it must be after the job is due ({due}, by delay, run_at or debounce)",
        )


def _row(job_id: str, expires: Any, stamp: Callable[[datetime], Any]) -> str:
    if isinstance(expires, timedelta):
        return json.dumps({"job": job_id, "lasts": expires.total_seconds()})
    return json.dumps({"job": job_id, "expires_at": stamp(expires)})
