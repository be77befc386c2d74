"""From a call of ``enqueue`` to a request: arguments are validated by the handler's annotations, options become fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.errors import PayloadError
from windlass.handlers.registry import Phase
from windlass.handlers.submit_hooks import added_headers
from windlass.handlers.taken_over import NOTHING, taken_over
from windlass.model import Json, NewJob
from windlass.observe.current_job import current_job
from windlass.principals.authority import Authority
from windlass.submit.options import OPTIONS, fields


def new_job(
    first: Phase,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
    authority: Authority,
) -> NewJob:
    """Make the request of a call of ``enqueue``: validated arguments, and options. In a handler it has the correlation id of the
    job that runs, unless it brings its own."""
    taken = NOTHING
    if (running := current_job.get()) is not None:
        taken = taken_over(running.lease)
        if "correlation_id" not in options:
            options = {"correlation_id": taken.correlation_id, **options}
    try:
        args_json = Json(first.signature.encode_args(*args, **kwargs))
    except PayloadError as error:
        name_option(error, first, kwargs)
        raise
    if first.submit_hooks:
        options = {**options, "headers": hooked_headers(first, options)}
    asked = authority.capture(first, options, args_json)
    # A plain job first, in as few calls as can be.
    if not options and first.owner is not None and not first.owner.limited:
        return NewJob(
            kind=first.kind, phase=first.name, args=args_json, max_attempts=first.retry.attempts, **asked
        )
    return NewJob(
        kind=first.kind,
        phase=first.name,
        args=args_json,
        max_attempts=options.get("max_attempts", first.retry.attempts),
        limits=first.limits(args_json, options.get("limit_key")),
        headers_of=taken.headers_of,
        **{**fields(options), **asked},
    )


def hooked_headers(first: Phase, options: Mapping[str, Any], count: int = 1) -> Mapping[str, str] | None:
    """The headers of a call, with those that the application's own functions add."""
    return added_headers(
        first.submit_hooks,
        first.kind,
        first.name,
        headers=options.get("headers"),
        correlation_id=options.get("correlation_id"),
        job_id=options.get("id"),
        count=count,
    )


def name_option(error: PayloadError, first: Phase, arguments: Mapping[str, Any]) -> None:
    """Have an error about an unknown argument say that it is an option, where it is one."""
    name = error.field.removeprefix("args.")
    if name in OPTIONS and name in arguments and name not in first.signature.parameters:
        error.add_to_message(after=f"; it is an option: {first.kind}.options({name}=...).enqueue(...)")
