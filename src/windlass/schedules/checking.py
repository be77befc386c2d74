"""Checks schedules, and compares their definitions."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import timedelta

from windlass.arguments.encoding import body_hash
from windlass.errors import ConfigError
from windlass.model import Json, Missed, NewJob, NewSchedule
from windlass.model.principal import Principal
from windlass.ranges import is_whole
from windlass.schedules import cron
from windlass.schedules.times import checked_interval, interval_text
from windlass.store.jobs.checked import check
from windlass.store.validators import LONGEST_DELAY, MAX_LABEL, NAME_RULE, is_label, is_name

MAX_CAP = 1000
MAX_JITTER = timedelta(days=1)


def definition(schedule: NewSchedule) -> str:
    """A hash of everything that a definition says; equal for equal definitions. Of a checked schedule."""
    facts = [
        schedule.name,
        schedule.phase,
        schedule.expression,
        schedule.tz,
        schedule.missed,
        schedule.cap,
        schedule.jitter.total_seconds(),
        schedule.priority,
        schedule.max_attempts,
        schedule.correlation_id,
        schedule.due_as,
        schedule.source,
        body_hash(schedule.kind, str(schedule.args)),
        *([] if schedule.principal is None else [schedule.principal.to_json()]),
        *([] if schedule.expires is None else [{"expires": schedule.expires.total_seconds()}]),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def check_schedule(schedule: NewSchedule) -> NewSchedule:
    """Refuse what cannot be a schedule, naming the option, before anything is written; returns it in the form that is stored."""
    if not is_name(schedule.name):
        raise ConfigError("name", schedule.name, NAME_RULE)
    schedule = _with_times(schedule)
    try:
        missed = Missed(schedule.missed)
    except ValueError:
        raise ConfigError("missed", schedule.missed, "skip, once or all") from None
    if not is_whole(schedule.cap, 1, MAX_CAP):
        raise ConfigError("cap", schedule.cap, f"a whole number from 1 to {MAX_CAP}")
    if not _is_jitter(schedule.jitter):
        raise ConfigError("jitter", schedule.jitter, "a timedelta from zero to a day")
    if schedule.expires is not None and not _is_expiry(schedule.expires, schedule.jitter):
        raise ConfigError(
            "expires",
            schedule.expires,
            "seconds above zero, or a timedelta, and more than the jitter, over which jobs are spread",
        )
    if schedule.due_as is not None and not _is_parameter(schedule.due_as):
        raise ConfigError("due_as", schedule.due_as, "the name of one of the handler's parameters")
    if schedule.principal is not None and not _is_service(schedule.principal):
        raise ConfigError(
            "principal",
            repr(schedule.principal),
            "a service, Principal.service(name, roles=...): schedules do not run for a person",
        )
    if not is_label(schedule.source):
        raise ConfigError("source", schedule.source, f"1 to {MAX_LABEL} printable characters")
    (entry,) = check(
        [
            NewJob(
                kind=schedule.kind,
                phase=schedule.phase,
                args=schedule.args,
                priority=schedule.priority,
                max_attempts=schedule.max_attempts,
                correlation_id=schedule.correlation_id,
            )
        ]
    )
    if schedule.due_as is not None and not entry.args.startswith("{"):
        raise ConfigError("args", str(entry.args)[:40], "a mapping of argument names to values")
    return replace(schedule, missed=missed, phase=entry.phase, args=Json(entry.args))


def _with_times(schedule: NewSchedule) -> NewSchedule:
    """The schedule with its expression in one spelling, or with its interval and the text that shows it."""
    if schedule.every is None:
        if schedule.expression is None:
            raise ConfigError(
                "expression", None, because="give the times: a cron expression, or every=90 for an interval"
            )
        return replace(schedule, expression=cron.parse(schedule.expression, schedule.tz).text)
    every = checked_interval(schedule.every)
    text = interval_text(every)
    if schedule.expression not in (None, text):
        raise ConfigError("every", schedule.every, because="give an expression or every, not both")
    if schedule.tz != "UTC":
        raise ConfigError("tz", schedule.tz, because="an interval has no time zone; leave tz out")
    return replace(schedule, expression=text, every=every)


def _is_service(value: object) -> bool:
    return isinstance(value, Principal) and value.is_service


def _is_jitter(value: object) -> bool:
    return isinstance(value, timedelta) and timedelta(0) <= value <= MAX_JITTER


def _is_expiry(value: object, jitter: timedelta) -> bool:
    return isinstance(value, timedelta) and jitter < value <= LONGEST_DELAY


def _is_parameter(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()
