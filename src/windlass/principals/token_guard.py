"""Refuses writes of a job with a principal that hold a token it was given, and jobs with more rights than its own.

Everything a handler hands to the store through its context passes here. Tokens are searched for in what would be stored (arguments,
outputs, positions, results), as they are and as JSON writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from pydantic_core import to_json

from windlass.errors import PayloadError
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Enqueued,
    Failed,
    JobError,
    Lease,
    NewJob,
    Outcome,
    Retried,
)
from windlass.observe.redaction import Secrets

STORED = ("args", "key", "debounce", "throttle", "correlation_id", "limits", "headers")
"""The fields of a new job that are stored as they were given."""


class TokenChecks(Protocol):
    """Checks the rights and the tokens of a job."""

    def inherited(self, job: NewJob) -> NewJob:
        """The job with at most the rights of the one that enqueues it; raises if it asks for more."""
        ...

    def refuse_tokens(self, what: str, value: Any) -> None:
        """Raise if a value holds a token."""
        ...


class GuardedAttemptStore:
    """An ``AttemptStore`` that refuses to store a raw token, and jobs with more rights."""

    def __init__(self, store: Any, checks: TokenChecks) -> None:
        self._store = store
        self._checks = checks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def checkpoint(self, lease: Lease, *, done: int, total: int | None = None, position: Any = None) -> Any:
        self._checks.refuse_tokens("position", position)
        return self._store.checkpoint(lease, done=done, total=total, position=position)

    def put_output(self, lease: Lease, value: Any, *, name: str = "") -> Any:
        self._checks.refuse_tokens("output", value)
        self._checks.refuse_tokens("name", name)
        return self._store.put_output(lease, value, name=name)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        made: list[Enqueued] = self._store.enqueue(_passed(self._checks, jobs))
        return made

    def transaction(self, lease: Lease) -> GuardedEffect:
        return GuardedEffect(self._store.transaction(lease), self._checks)

    def fence(self, lease: Lease) -> GuardedFence:
        return GuardedFence(self._store.fence(lease), self._checks)


class GuardedEffect:
    """An effect transaction that refuses to store a raw token."""

    def __init__(self, effect: Any, checks: TokenChecks) -> None:
        self._effect = effect
        self._checks = checks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._effect, name)

    def __enter__(self) -> GuardedEffect:
        self._effect.__enter__()
        return self

    def __exit__(self, *how: Any) -> Any:
        return self._effect.__exit__(*how)

    def complete(self, result: Any = None, **options: Any) -> None:
        self._checks.refuse_tokens("result", result)
        self._effect.complete(result, **options)

    def advance(self, phase: str, output: Any = None, **options: Any) -> None:
        self._checks.refuse_tokens("output", output)
        self._effect.advance(phase, output, **options)

    def checkpoint(self, *, position: Any = None, **progress: Any) -> None:
        self._checks.refuse_tokens("position", position)
        self._effect.checkpoint(position=position, **progress)

    def put_output(self, value: Any, *, name: str) -> Any:
        self._checks.refuse_tokens("output", value)
        self._checks.refuse_tokens("name", name)
        return self._effect.put_output(value, name=name)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        made: list[Enqueued] = self._effect.enqueue(_passed(self._checks, jobs))
        return made


class GuardedFence:
    """The end of a job in its handler's own transaction; refuses to store a raw token."""

    def __init__(self, fence: Any, checks: TokenChecks) -> None:
        self._fence = fence
        self._checks = checks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fence, name)

    def end(self, tx: Any, outcome: Any) -> None:
        self._checks.refuse_tokens(
            "result", getattr(outcome, "result", None) or getattr(outcome, "output", None)
        )
        self._fence.end(tx, outcome)

    def checkpoint(self, tx: Any, *, done: int, total: int | None, position: Any) -> Any:
        self._checks.refuse_tokens("position", position)
        return self._fence.checkpoint(tx, done=done, total=total, position=position)


def _passed(checks: TokenChecks, jobs: Sequence[NewJob]) -> list[NewJob]:
    for job in jobs:
        for what in STORED:
            checks.refuse_tokens(what, getattr(job, what))
    return [checks.inherited(job) for job in jobs]


def refuse(what: str, value: Any, tokens: Sequence[str]) -> None:
    """Raise ``PayloadError`` where a value holds one of these."""
    if value is None or not tokens:
        return
    try:
        text = value if isinstance(value, str) else to_json(value, fallback=repr).decode()
    except Exception:  # noqa: BLE001  what cannot be written is refused when it is written
        return
    if any(token in text for token in tokens) or Secrets(tokens).holds(text):
        raise PayloadError(
            what,
            what,
            "holds the token that was kept with this job",
            "store the principal's rights instead, and call ctx.token() again",
        )


def cleaned(outcome: Outcome, tokens: Sequence[str]) -> Outcome:
    """An outcome that holds none of these: hidden in errors and reasons, and no result or output at all."""
    secrets = Secrets(tokens)
    match outcome:
        case Failed() | Retried():
            return replace(outcome, error=_cleaned_error(outcome.error, secrets))
        case Cancelled():
            return replace(outcome, reason=secrets.hide_values(outcome.reason))
        case Completed() | Advanced():
            try:
                refuse("result", outcome.result if isinstance(outcome, Completed) else outcome.output, tokens)
            except PayloadError as error:
                failure = JobError(type="PayloadError", code="bad_result", message=str(error))
                return Failed(outcome.lease, failure, outcome.run)
    return outcome


def hide_in(value: Any, secrets: Secrets) -> Any:
    """JSON with the secrets in its texts hidden."""
    match value:
        case str():
            return secrets.hide_values(value)
        case list() | tuple():
            return [hide_in(item, secrets) for item in value]
        case dict():
            return {hide_in(key, secrets): hide_in(item, secrets) for key, item in value.items()}
        case _:
            return value


def _cleaned_error(error: JobError, secrets: Secrets) -> JobError:
    return JobError(
        type=secrets.hide_values(error.type),
        code=secrets.hide_values(error.code),
        message=secrets.hide_values(error.message),
        traceback=None if error.traceback is None else secrets.hide_values(error.traceback),
        details=hide_in(dict(error.details), secrets),
    )
