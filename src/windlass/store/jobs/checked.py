"""Requests to enqueue, checked: everything that can be wrong with one is found here, before the database sees anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from windlass.errors import ConfigError, DependencyCycleError, WindlassError
from windlass.keys import debounce as debouncing
from windlass.limits import store as limits
from windlass.model import (
    DEFAULT_MAX_ATTEMPTS,
    HIGHEST_PRIORITY,
    After,
    DependencyPolicy,
    Json,
    Key,
    KeyScope,
    NewJob,
)
from windlass.model.principal import Principal, Sealed
from windlass.store.ids import is_id, new_ids
from windlass.store.jobs.rows import json_text
from windlass.store.validators import (
    LONGEST_DELAY,
    MAX_ATTEMPTS,
    MAX_LABEL,
    NAME_RULE,
    is_label,
    is_name,
    is_whole,
)

PLAIN, BESIDE, ALONE = range(3)
"""What an enqueue takes: one statement; one more for what is stored beside the job; or looks before and after the insert."""


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A checked request. ``way`` is what storing it takes."""

    job: NewJob
    id: str
    phase: str
    args: str
    claims: str | None = None
    way: int = PLAIN


def needs_one_statement(job: NewJob) -> bool:
    """Whether a job is only inserted: nothing has to be looked at before or after, and nothing stored beside it."""
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
    )


def check(jobs: Sequence[NewJob]) -> list[CheckedJob]:
    """Refuse what cannot be enqueued, naming the option, before anything is written."""
    if isinstance(jobs, NewJob) or not all(isinstance(job, NewJob) for job in jobs):
        raise ConfigError("jobs", type(jobs).__name__, "a list of NewJob")
    known: set[str] = set()
    try:
        entries = [_check_one(job, made, known) for job, made in zip(jobs, new_ids(len(jobs)), strict=True)]
    except WindlassError as error:
        if len(jobs) > 1:
            error.message = f"jobs[{_first_bad(jobs)}]: {error.message}"
            error.args = (error.message,)
        raise
    if any(job.id for job in jobs):
        ids = [entry.id for entry in entries]
        if len(set(ids)) != len(ids):
            raise ConfigError(
                "id",
                next(i for i in ids if ids.count(i) > 1),
                because="each job of one call needs its own id",
            )
    if any(job.after for job in jobs):
        _refuse_cycles(entries)
    return entries


def _first_bad(jobs: Sequence[NewJob]) -> int:
    """Which of them is refused; looked for only where one is."""
    for index, job in enumerate(jobs):
        try:
            _check_one(job, "", set())
        except WindlassError:
            return index
    return 0  # belt: one of them was refused a moment ago


def _check_one(job: NewJob, made: str, known: set[str]) -> CheckedJob:
    """A job checked; ``made`` is the id it gets unless it brings one, ``known`` the names that were found good before."""
    phase = job.phase if job.phase is not None else job.kind
    if phase not in known or job.kind not in known:
        for key, name in (("kind", job.kind), ("phase", phase)):
            if not is_name(name):
                raise ConfigError(key, name, NAME_RULE)
            known.add(name)
    if not is_whole(job.priority, 0, HIGHEST_PRIORITY):
        raise ConfigError("priority", job.priority, "a whole number from 0 to 9; 9 is served first")
    if job.max_attempts is None:
        job = replace(job, max_attempts=DEFAULT_MAX_ATTEMPTS)
    if not is_whole(job.max_attempts, 1, MAX_ATTEMPTS):
        raise ConfigError("max_attempts", job.max_attempts, f"a whole number from 1 to {MAX_ATTEMPTS}")
    if job.delay is not None or job.run_at is not None:
        _check_time(job.delay, job.run_at)
    if job.id is not None and not is_id(job.id):
        raise ConfigError("id", job.id, "a UUID as text, in lower case with dashes, or None to have one made")
    if job.correlation_id is not None and not is_label(job.correlation_id):
        check_correlation(job.correlation_id)
    way = PLAIN
    if job.limits:
        limits.check_job(job.limits)
        way = BESIDE
    if job.key is not None:
        _check_key(job.key)
        way = ALONE
    if job.after:
        _check_after(job.after)
        way = ALONE
    if job.debounce is not None or job.throttle is not None:
        job = debouncing.check(job)
        way = ALONE
    if not isinstance(job.args, Json | Mapping):
        raise ConfigError("args", type(job.args).__name__, "a mapping of argument names to values")
    args = json_text(job.args, "args")
    claims = None
    if job.principal is not None or job.sealed is not None or job.heir_of:
        claims = _check_principal(job)
        way = max(way, BESIDE)
    if job.id is not None:
        return CheckedJob(job, job.id, phase, args, claims, ALONE)
    return CheckedJob(job, made, phase, args, claims, way)


def _check_principal(job: NewJob) -> str | None:
    """The principal a job brings, as JSON."""
    principal: object = job.principal
    if principal is not None and not isinstance(principal, Principal):
        raise ConfigError("principal", type(principal).__name__, "a Principal")
    sealed: object = job.sealed
    if sealed is not None and (not isinstance(sealed, Sealed) or job.id is None or principal is None):
        raise ConfigError("sealed", "***", "a token that was sealed for the id given, beside its principal")
    if isinstance(job.heir_of, str) or not all(is_id(parent) for parent in job.heir_of):
        raise ConfigError("heir_of", job.heir_of, "a list of job ids")
    return None if principal is None else principal.to_json()


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


def _check_key(key: object) -> None:
    if not isinstance(key, Key):
        raise ConfigError("key", key, "a Key, for example Key('order-7')")
    if not is_label(key.value):
        raise ConfigError("key", key.value, f"1 to {MAX_LABEL} printable characters")
    if not isinstance(key.scope, KeyScope):
        raise ConfigError("key scope", key.scope, "KeyScope.LIVE or KeyScope.IDEMPOTENT")
    if not timedelta(0) < key.lasts <= LONGEST_DELAY:
        raise ConfigError("key lasts", key.lasts, "a timedelta above zero")


def _check_after(parents: Sequence[object]) -> None:
    policies: dict[str, DependencyPolicy] = {}
    for after in parents:
        if not isinstance(after, After):
            raise ConfigError("after", after, "a list of After(job id)")
        if not is_id(after.parent):
            raise ConfigError("after", after.parent, "the id of a job: a UUID, lower case, with dashes")
        if not isinstance(after.policy, DependencyPolicy):
            raise ConfigError("after policy", after.policy, "DependencyPolicy.CANCEL, WAIT or RUN")
        if policies.setdefault(after.parent, after.policy) is not after.policy:
            raise ConfigError(
                "after",
                after.parent,
                because="this parent is named with two policies; give one policy for each parent",
            )


def _refuse_cycles(entries: Sequence[CheckedJob]) -> None:
    """Jobs of one call may wait for each other, but not in a circle. Parents outside the call exist already, so no
    circle can pass through them."""
    own = {entry.id for entry in entries}
    waits: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        waits[entry.id] = [after.parent for after in entry.job.after if after.parent in own]
    done: set[str] = set()
    for start in waits:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            job_id, is_leaving = stack.pop()
            if is_leaving:
                path.pop()
                done.add(job_id)
            elif job_id in path:
                raise DependencyCycleError([*path[path.index(job_id) :], job_id])
            elif job_id not in done:
                path.append(job_id)
                stack.append((job_id, True))
                stack.extend((parent, False) for parent in waits[job_id])


def check_correlation(given: object) -> None:
    """Refuse a correlation id that no job can have; None is none."""
    if given is not None and not is_label(given):
        raise ConfigError("correlation_id", given, f"1 to {MAX_LABEL} printable characters")
