"""From a call of ``enqueue`` to a request: arguments are validated by the handler's annotations, options are separated from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from windlass.arguments.json_checks import a_type
from windlass.errors import ConfigError, PayloadError, WindlassError, did_you_mean
from windlass.handlers.registry import Phase
from windlass.model import DEFAULT_PRIORITY, After, Debounce, Enqueued, Json, Key, NewJob, as_duration
from windlass.observe.current_job import current_job
from windlass.principals.authority import ASKING, Authority
from windlass.store.jobs.copy import SameKindJobs
from windlass.store.validators import LONGEST_DELAY

OPTIONS = frozenset(
    {
        "key",
        "debounce",
        "throttle",
        "limit_key",
        "delay",
        "run_at",
        "priority",
        "after",
        "correlation_id",
        "max_attempts",
        "id",
        *ASKING,
    }
)


def new_job(
    first: Phase,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    options: Mapping[str, Any],
    authority: Authority,
) -> NewJob:
    """Make the request of a call of ``enqueue``: validated arguments, and options. In a handler it has the correlation id of the
    job that runs, unless it brings its own."""
    if (running := current_job.get()) is not None and "correlation_id" not in options:
        options = {"correlation_id": running.lease.correlation_id, **options}
    if not OPTIONS.isdisjoint(kwargs):
        parameters = first.signature.parameters
        own = {name: kwargs.pop(name) for name in OPTIONS & kwargs.keys() if name not in parameters}
        options = {**options, **own}
    args_json = Json(first.signature.encode_args(*args, **kwargs))
    asked = authority.capture(first, options, args_json)
    limits = first.limits(args_json, options.get("limit_key"))
    if not options and not asked:
        return NewJob(
            kind=first.kind,
            phase=first.name,
            args=args_json,
            max_attempts=first.retry.attempts,
            limits=limits,
        )
    return NewJob(
        kind=first.kind,
        phase=first.name,
        args=args_json,
        priority=options.get("priority", DEFAULT_PRIORITY),
        max_attempts=options.get("max_attempts", first.retry.attempts),
        delay=_delay(options.get("delay")),
        run_at=_moment(options.get("run_at")),
        correlation_id=options.get("correlation_id"),
        key=_key(options.get("key")),
        after=_parents(options.get("after")),
        debounce=_debounce(options.get("debounce")),
        throttle=options.get("throttle"),
        limits=limits,
        **{"id": options.get("id"), **asked},
    )


def new_jobs(
    first: Phase, calls: Iterable[Mapping[str, Any]], options: Mapping[str, Any], authority: Authority
) -> list[NewJob] | SameKindJobs:
    """Make the requests of a call of ``enqueue_many``; as one, if they differ only in their arguments.

    A generator may set the principal by a block around its ``yield``, and may use its objects again: what it gives is captured and encoded
    before it goes on.
    """
    encode = first.signature.encode_args
    running = current_job.get()
    like = NewJob(
        kind=first.kind,
        phase=first.name,
        max_attempts=first.retry.attempts,
        correlation_id=None if running is None else running.lease.correlation_id,
    )
    may_be_bare = not options and not first.is_limited
    has_no_options = (OPTIONS - set(first.signature.parameters)).isdisjoint
    if isinstance(calls, list | tuple) and may_be_bare and authority.is_nobody(first):
        given = [_call(first, index, call) for index, call in enumerate(calls)]
        if all(map(has_no_options, given)):

            def encode_one(call: dict[str, Any]) -> str:
                try:
                    return encode(**call)
                except PayloadError as error:
                    _add_number(error, next(index for index, item in enumerate(given) if item is call))
                    raise

            return SameKindJobs(like, given, encode_one, may_wait=first.signature.is_inert)
    texts: list[str] = []
    jobs: list[NewJob] = []
    for index, call in enumerate(calls):
        given_one = _call(first, index, call)
        try:
            if may_be_bare and not jobs and has_no_options(given_one) and authority.is_nobody(first):
                texts.append(encode(**given_one))
            else:
                jobs.append(new_job(first, (), given_one, options, authority))
        except WindlassError as error:
            _add_number(error, index)
            raise
    bare = SameKindJobs(like, texts, str)
    return [*bare.jobs(), *jobs] if jobs else bare


def each_job(
    first: Phase, calls: Iterable[Mapping[str, Any]], options: Mapping[str, Any], authority: Authority
) -> list[NewJob]:
    """Make the requests of a call of ``enqueue_many``, one for each job."""
    jobs: list[NewJob] = []
    for index, call in enumerate(calls):
        given = _call(first, index, call)
        try:
            jobs.append(new_job(first, (), given, options, authority))
        except WindlassError as error:
            _add_number(error, index)
            raise
    return jobs


def _call(first: Phase, index: int, call: Any) -> dict[str, Any]:
    """Arguments and options by name, from a mapping or a row of a database."""
    try:
        return dict(**call)
    except TypeError as error:
        problem = "has keys that are no text" if isinstance(call, Mapping) else f"is {a_type(call)}"
        example = ", ".join(f"'{name}': ..." for name in first.signature.parameters)
        cure = f"give a mapping of arguments, for example {{{example}}}"
        raise PayloadError(f"calls of {first.kind}", f"calls[{index}]", problem, cure) from error


def _add_number(error: WindlassError, index: int) -> None:
    """Have an error say in which of many calls it was found."""
    error.message = f"calls[{index}]: {error.message}"
    error.args = (error.message,)


def known_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options, checked; ``ConfigError`` for a name that is not an option."""
    for name in options:
        if name not in OPTIONS:
            near = did_you_mean(name, OPTIONS)
            raise ConfigError("option", name, f"one of {', '.join(sorted(OPTIONS))}{near}")
    return options


def _moment(value: Any) -> datetime | None:
    return value  # type: ignore[no-any-return]  # checked with the rest of the job


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


def _parents(after: Any) -> list[Any]:
    if isinstance(after, str | Enqueued | After) or not isinstance(after or (), Iterable):
        raise ConfigError("after", after, "a list of jobs, for example after=[job]")
    return [_after(item) for item in after or ()]


def _after(item: Any) -> Any:
    if isinstance(item, Enqueued):
        return After(item.id)
    return After(item) if isinstance(item, str) else item
