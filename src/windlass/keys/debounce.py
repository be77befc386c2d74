"""Debounce (the last submit counts) and throttle (the first submit of a period counts): checked here, stored as keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta

from windlass.errors import ConfigError
from windlass.model import Debounce, KeyScope, NewJob, Throttle
from windlass.store.validators import LONGEST_DELAY, is_label

KEPT = timedelta(days=30)
"""How long the key of a debounced job is kept after its time, so that a job that is promoted late is still found."""
THROTTLE, DEBOUNCE = "throttle", "debounce"
"""Scopes of keys beside those that a caller may choose."""


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A key as it is stored; ``is_strict`` refuses another body."""

    scope: str
    name: str
    lasts: timedelta | None
    is_strict: bool

    def row(self, job_id: str, body: str) -> str:
        """The JSON row that takes it for a job."""
        lasts = None if self.lasts is None else self.lasts.total_seconds()
        return json.dumps(
            {"scope": self.scope, "key": self.name, "job": job_id, "body_hash": body, "lasts": lasts}
        )


def check(job: NewJob) -> NewJob:
    """A debounced or throttled job, checked; the wait of a debounce is its delay."""
    if sum(option is not None for option in (job.key, job.debounce, job.throttle)) > 1:
        raise ConfigError(
            "key", job.key or job.throttle, because="give one of key, debounce and throttle, not several"
        )
    given: object = job.throttle
    if given is not None:
        if not isinstance(given, Throttle) or not is_label(given.key):
            raise ConfigError("throttle", given, "a Throttle, for example Throttle('user-7', 60)")
        if not isinstance(given.period, timedelta) or not timedelta(0) < given.period <= LONGEST_DELAY:
            raise ConfigError(
                "throttle period", given.period, "a number of seconds above zero, or a timedelta"
            )
        return job
    debounce: object = job.debounce
    if not isinstance(debounce, Debounce) or not is_label(debounce.key):
        raise ConfigError("debounce", debounce, "a Debounce, for example Debounce('user-7', wait=5)")
    if job.after or job.id or job.heir_of:
        raise ConfigError(
            "debounce",
            debounce.key,
            because="a job that is debounced can have no parents and no id of its own",
        )
    if debounce.wait is None:
        if job.delay is None and job.run_at is None:
            raise ConfigError(
                "debounce",
                debounce.key,
                because="it needs a wait: Debounce(key, wait=5), or delay or run_at beside it",
            )
        return job
    if job.delay is not None or job.run_at is not None:
        raise ConfigError(
            "debounce", debounce.wait, because="give its wait, or delay, or run_at, not several"
        )
    if not isinstance(debounce.wait, timedelta) or not timedelta(0) < debounce.wait <= LONGEST_DELAY:
        raise ConfigError("debounce wait", debounce.wait, "a number of seconds above zero, or a timedelta")
    return replace(job, delay=debounce.wait)


def key_row(name: str, job_id: str) -> str:
    """The JSON row that takes a debounced key; how long it is kept is set again once its job is stored."""
    return TakenKey(DEBOUNCE, name, KEPT, is_strict=False).row(job_id, "")


def key_of(job: NewJob) -> TakenKey | None:
    """The key that a job must take, or None; the key of a throttle accepts other arguments."""
    if job.throttle is not None:
        assert isinstance(job.throttle.period, timedelta)
        return TakenKey(THROTTLE, f"{job.kind}:{job.throttle.key}", job.throttle.period, is_strict=False)
    if job.key is not None:
        lasts = job.key.lasts if job.key.scope is KeyScope.IDEMPOTENT else None
        return TakenKey(job.key.scope, f"{job.kind}:{job.key.value}", lasts, is_strict=True)
    return None
