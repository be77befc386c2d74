"""Functions of the application that add headers to every job it submits: ``app.on_submit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from windlass.errors import ConfigError
from windlass.headers.store import headers_json
from windlass.model import Enqueued, NewJob

SubmitHook = Callable[["Submission"], Mapping[str, str] | None]


class EnqueueRule(Protocol):
    """What a web framework does with jobs that would be stored at once, inside a transaction of its own."""

    def deferred(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        """Store jobs with the commit of the open transaction; None if they are to be stored at once. May raise."""
        ...

    async def deferred_async(self, jobs: Sequence[NewJob]) -> list[Enqueued] | None:
        """``deferred`` from a coroutine."""
        ...


@dataclass(frozen=True, slots=True)
class Submission:
    """A job that is about to be submitted, as a function of ``app.on_submit`` sees it; never its arguments.

    ``count`` is above one where many jobs that differ only in their arguments are submitted by one call. ``correlation_id`` and ``job_id``
    are None where the store makes them. ``headers`` were given with the call.
    """

    kind: str
    phase: str
    correlation_id: str | None = None
    job_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    count: int = 1


def added_headers(
    hooks: Sequence[SubmitHook],
    kind: str,
    phase: str,
    *,
    headers: Mapping[str, str] | None,
    correlation_id: str | None,
    job_id: str | None,
    count: int = 1,
) -> Mapping[str, str] | None:
    """The headers of a job: what the functions add, under those that were given with the call. None if there are none."""
    if headers is not None:
        headers_json(headers)  # refused here, and not by a function that reads them
    given = MappingProxyType(dict(headers or {}))
    submission = Submission(kind, phase, correlation_id, job_id, given, count)
    added: dict[str, str] = {}
    for hook in hooks:
        more: object = hook(submission)
        if more is None:
            continue
        if not isinstance(more, Mapping):
            name = getattr(hook, "__qualname__", repr(hook))
            raise ConfigError(
                "on_submit", type(more).__name__, f"a mapping of texts, or None, from the function {name}"
            )
        added |= more
    return {**added, **given} or None
