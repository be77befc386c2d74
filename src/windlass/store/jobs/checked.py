"""Requests to enqueue, checked: everything that can be wrong with one is found here, before the database sees anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from windlass.errors import ConfigError, WindlassError
from windlass.model import (
    DEFAULT_MAX_ATTEMPTS,
    HIGHEST_PRIORITY,
    Json,
    NewJob,
)
from windlass.ranges import is_whole
from windlass.store.feature import features
from windlass.store.ids import is_id, new_ids
from windlass.store.jobs.rows import json_text
from windlass.store.validators import (
    LONGEST_DELAY,
    MAX_ATTEMPTS,
    MAX_LABEL,
    NAME_RULE,
    is_label,
    is_name,
)

PLAIN, BESIDE, ALONE = range(3)
"""How an enqueue is written: one statement; one more for what is stored beside the job; or reads before and after the insert."""


MOST_NAMES = 10_000
_good_names: set[str] = set()
"""Names of kinds and phases that were found good, so that they are not checked again."""


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A checked request. ``pending`` is the number of jobs it waits for, ``way`` how it is written."""

    job: NewJob
    id: str
    phase: str
    args: str
    flags: int = 0
    pending: int = 0
    way: int = PLAIN


def check(jobs: Sequence[NewJob]) -> list[CheckedJob]:
    """Refuse what cannot be enqueued, naming the option, before anything is written."""
    if isinstance(jobs, NewJob) or not all(isinstance(job, NewJob) for job in jobs):
        raise ConfigError("jobs", type(jobs).__name__, "a list of NewJob")
    try:
        entries = [_check_one(job, made) for job, made in zip(jobs, new_ids(len(jobs)), strict=True)]
    except WindlassError as error:
        if len(jobs) > 1:
            error.add_to_message(before=f"jobs[{_first_bad(jobs)}]: ")
        raise
    if any(job.id for job in jobs):
        ids = [entry.id for entry in entries]
        if len(set(ids)) != len(ids):
            raise ConfigError(
                "id",
                next(i for i in ids if ids.count(i) > 1),
                because="each job of one call needs its own id",
            )
    if any(entry.way for entry in entries):
        for feature in features():
            feature.check_all(entries)
    return entries


def is_plain(job: NewJob) -> bool:
    """Whether the job asks for no feature and brings no id: it is stored by one statement, and nothing is read before or after."""
    return (
        job.key is None
        and not job.after
        and job.id is None
        and job.principal is None
        and not job.heir_of
        and job.sealed is None
        and not job.limits
        and job.debounce is None
        and job.throttle is None
        and job.expires is None
        and not job.headers
        and job.headers_of is None
        and not job.extra
    )


def _check_names(kind: str, phase: str) -> None:
    for option, name in (("kind", kind), ("phase", phase)):
        if not is_name(name):
            raise ConfigError(option, name, NAME_RULE)
        if len(_good_names) >= MOST_NAMES:
            _good_names.clear()
        _good_names.add(name)


def _first_bad(jobs: Sequence[NewJob]) -> int:
    """The index of the job that is refused; searched for only after one was."""
    for index, job in enumerate(jobs):
        try:
            _check_one(job, "")
        except WindlassError:
            return index
    return 0  # belt: one of them was refused a moment ago


def _check_one(job: NewJob, made: str) -> CheckedJob:
    """Check one job; ``made`` is its id unless the request has one."""
    phase = job.phase if job.phase is not None else job.kind
    if phase not in _good_names or job.kind not in _good_names:
        _check_names(job.kind, phase)
    # The type first: two calls less for every job.
    if not (type(job.priority) is int and 0 <= job.priority <= HIGHEST_PRIORITY) and not is_whole(
        job.priority, 0, HIGHEST_PRIORITY
    ):
        raise ConfigError("priority", job.priority, "a whole number from 0 to 9; 9 is served first")
    if job.max_attempts is None:
        job = replace(job, max_attempts=DEFAULT_MAX_ATTEMPTS)
    if not (type(job.max_attempts) is int and 1 <= job.max_attempts <= MAX_ATTEMPTS) and not is_whole(
        job.max_attempts, 1, MAX_ATTEMPTS
    ):
        raise ConfigError("max_attempts", job.max_attempts, f"a whole number from 1 to {MAX_ATTEMPTS}")
    if job.delay is not None or job.run_at is not None:
        _check_time(job.delay, job.run_at)
    if job.id is not None and not is_id(job.id):
        raise ConfigError("id", job.id, "a UUID as text, in lower case with dashes, or None to have one made")
    if job.correlation_id is not None and not is_label(job.correlation_id):
        check_correlation(job.correlation_id)
    if not isinstance(job.args, Json | Mapping):
        raise ConfigError("args", type(job.args).__name__, "a mapping of argument names to values")
    args = job.args if isinstance(job.args, Json) else json_text(job.args, "args")
    if is_plain(job):
        return CheckedJob(job, made, phase, args)
    asked = [feature for feature in features() if feature.is_asked(job)]
    is_alone = job.id is not None or any(feature.is_alone for feature in asked)
    entry = CheckedJob(
        job, job.id or made, phase, args, way=ALONE if is_alone else BESIDE if asked else PLAIN
    )
    for feature in asked:
        entry = feature.check(entry)
    return entry


def _check_time(delay: object, run_at: object) -> None:
    if delay is not None and run_at is not None:
        raise ConfigError("delay", delay, because="give delay or run_at, not both")
    if delay is not None and not (isinstance(delay, timedelta) and timedelta(0) <= delay <= LONGEST_DELAY):
        raise ConfigError("delay", delay, "a timedelta from zero to a hundred years")
    if run_at is None:
        return
    if not isinstance(run_at, datetime) or run_at.tzinfo is None:
        raise ConfigError("run_at", run_at, "a datetime with a time zone")
    if not 1970 < run_at.year < 3000:
        raise ConfigError("run_at", run_at, "a time between the years 1971 and 2999")


def check_correlation(given: object) -> None:
    """Refuse a correlation id that no job can have; None is none."""
    if given is not None and not is_label(given):
        raise ConfigError("correlation_id", given, f"1 to {MAX_LABEL} printable characters")
