"""The options of a submit: their names and types, and how each becomes a field of the request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypedDict, runtime_checkable

from windlass.errors import ConfigError, check_names, did_you_mean
from windlass.handlers.registry import OPTIONS as PHASE_OPTIONS
from windlass.model import DEFAULT_PRIORITY, After, Debounce, Key, Throttle, as_duration
from windlass.model.principal import Principal
from windlass.store.validators import LONGEST_DELAY


@runtime_checkable
class SubmittedJob(Protocol):
    """Anything with the id of a job: what a submit returned, or a job that was read."""

    @property
    def id(self) -> str: ...


class JobOptions(TypedDict, total=False):
    """The options of ``kind.options(...)``; each is for every job that is submitted through its result."""

    key: str | Key | None
    """A unique key: while a job with this key is alive, a second submit returns that job."""
    debounce: str | Debounce | None
    """Wait for quiet: a later submit with the same key replaces the arguments of the job that still waits."""
    throttle: Throttle | None
    """At most one job per key and period."""
    limit_key: str | None
    """The key that the kind's limits count this job under."""
    delay: float | timedelta | None
    """Seconds (or a timedelta) until the job is due."""
    run_at: datetime | None
    """When the job is due, with a time zone; instead of ``delay``."""
    expires: float | timedelta | datetime | None
    """Until when the job must have begun, in seconds from now, or as a time with a time zone; else it is cancelled."""
    priority: int
    """0 to 9; 9 is served first."""
    after: Iterable[SubmittedJob | After | str]
    """Jobs that must have completed before this one runs."""
    correlation_id: str | None
    """The id on every log line, error and child of the job; without it, the running job's, or the job's own."""
    headers: Mapping[str, str] | None
    """Short texts by name that are carried with the job and given to its attempts."""
    max_attempts: int
    """How often the job is tried, instead of what the retry policy of its kind says."""
    id: str | None
    """The job's id, a UUID: repeating a submit with the same id makes no second job."""
    principal: Principal | None
    """Who asks, instead of the principal of ``app.as_principal``."""
    token: str | None
    """The raw token that the principal came with; kept only with ``keep_token``."""
    keep_token: bool
    """Keep the raw token with the job, encrypted."""
    notify: bool
    """False: do not notify workers, for a transaction that will be prepared (``PREPARE TRANSACTION``)."""


OPTIONS = frozenset(JobOptions.__annotations__)
"""The names of the options."""


_CALLED = {
    "countdown": "delay",
    "eta": "run_at",
    "task_id": "id",
    "job_id": "id",
    "retries": "max_attempts",
    "max_retries": "max_attempts",
    "attempts": "max_attempts",
}
"""Names that options have in other libraries, and at the definition of a kind."""


def known_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, checked; ``ConfigError`` for a name that is not an option."""
    if isinstance(after := options.get("after"), Iterator):  # it may be used for many jobs
        options = {**options, "after": list(after)}
    for name in options:
        if name not in OPTIONS:
            near = f"; it is called {_CALLED[name]} here" if name in _CALLED else did_you_mean(name, OPTIONS)
            raise ConfigError("option", name, f"one of {', '.join(sorted(OPTIONS))}{near}")
    return options


_ATTEMPTS = frozenset({"attempts", "max_attempts", "retries", "max_retries"})
"""What people call the number of attempts, which is a part of the retry policy."""


def check_definition(options: Iterable[str], also: Iterable[str] = ()) -> None:
    """Refuse an option that no phase has; the error of an option that belongs elsewhere says where."""
    try:
        check_names("option", options, PHASE_OPTIONS.union(also))
    except ConfigError as error:
        if error.value in _ATTEMPTS:
            error.add_to_message(
                after="; the retry policy has it: retry=windlass.retry.exponential(attempts=...)"
            )
        elif error.value in OPTIONS:
            error.add_to_message(
                after=f"; each submission has it: kind.options({error.value}=...).enqueue(...)"
            )
        raise


def fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a ``NewJob`` that the options set, besides attempts, limits and principal."""
    return {
        "priority": options.get("priority", DEFAULT_PRIORITY),
        "delay": _delay(options.get("delay")),
        "run_at": options.get("run_at"),
        "expires": options.get("expires"),
        "correlation_id": options.get("correlation_id"),
        "key": _key(options.get("key")),
        "after": parents(options.get("after")),
        "debounce": _debounce(options.get("debounce")),
        "throttle": options.get("throttle"),
        "id": options.get("id"),
        "headers": options.get("headers"),
    }


def _delay(value: Any) -> timedelta | None:
    delay = as_duration(value)
    if delay is None or (isinstance(delay, timedelta) and timedelta(0) <= delay <= LONGEST_DELAY):
        return delay
    raise ConfigError("delay", value, "seconds as a number, or a timedelta, from zero to a hundred years")


def _key(value: Any) -> Key | None:
    if value is None or isinstance(value, Key):
        return value
    if isinstance(value, str):
        return Key(value)
    raise ConfigError("key", value, "a text such as 'order-7', or a Key, for example Key('order-7')")


def _debounce(value: Any) -> Debounce | None:
    if value is None or isinstance(value, Debounce):
        return value
    if isinstance(value, str):
        return Debounce(value)
    raise ConfigError(
        "debounce", value, "a Debounce, for example Debounce('user-7', wait=5), or a text with a delay"
    )


def parents(after: Any) -> list[Any]:
    """The jobs that a call waits for."""
    if isinstance(after, str | After) or not isinstance(after or (), Iterable):
        raise ConfigError("after", after, "a list of jobs, for example after=[job]")
    return [_after(item) for item in after or ()]


def _after(item: Any) -> Any:
    if isinstance(item, str):
        return After(item)
    return item if isinstance(item, After) or not isinstance(item, SubmittedJob) else After(item.id)
