"""Jobs that a handler requests by hand, completed the way ``enqueue`` would have made them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.errors import ConfigError
from windlass.handlers.registry import Phase
from windlass.handlers.submit_hooks import added_headers
from windlass.model import Json, NewJob
from windlass.principals.authority import Authority


def completed_request(job: NewJob, caller: Phase, authority: Authority) -> NewJob:
    """A request that a handler made by hand, as ``enqueue`` of its kind would have made it: for a kind of the same app, from its first
    phase on, with checked arguments, its attempts, its limits and its principal."""
    registry = caller.registry
    if (
        registry is None
    ):  # a handler that stands alone in a process of its own: nothing is known of other kinds
        return job
    if not isinstance(job, NewJob):
        raise ConfigError("job", type(job).__name__, "a NewJob; for many, call it for each")
    kind = registry.kind(job.kind)
    if kind is None:
        raise registry.unknown(job.kind)
    first = kind.first
    if job.phase not in (None, first.name):
        raise ConfigError(
            "phase", job.phase, f"left out, or {first.name!r}: a job begins in the first phase of its kind"
        )
    if not isinstance(job.args, Json | Mapping):
        raise ConfigError("args", type(job.args).__name__, "a mapping of argument names to values")
    given = json.loads(job.args) if isinstance(job.args, Json) else job.args
    args = Json(first.signature.encode_args(**given))
    if first.submit_hooks:
        headers = added_headers(
            first.submit_hooks,
            first.kind,
            first.name,
            headers=job.headers,
            correlation_id=job.correlation_id,
            job_id=job.id,
        )
        job = replace(job, headers=headers)
    asked: Mapping[str, Any] = {}
    if job.sealed is None:
        options = {"principal": job.principal, "after": job.after, "headers": job.headers}
        asked = authority.capture(first, options, args)
    return replace(
        job,
        phase=first.name,
        args=args,
        max_attempts=first.retry.attempts if job.max_attempts is None else job.max_attempts,
        limits=job.limits or first.limits(args),
        **asked,
    )
