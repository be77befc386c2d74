"""What code under test submitted, without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, overload

from windlass.arguments.encoding import decode, encode
from windlass.handlers.registry import Registry
from windlass.model import Json, Key, NewJob
from windlass.testing.assertions import Assertions

_OPTIONS = (
    "priority", "delay", "run_at", "expires", "correlation_id", "key", "after", "id", "principal", "debounce", "throttle", "headers",
)  # fmt: skip
_DEFAULTS = {item.name: item.default for item in fields(NewJob) if item.name in _OPTIONS}


@dataclass(frozen=True, slots=True)
class CapturedJob:
    """A job as it was submitted: its arguments as they are stored, and the options that differ from the defaults, by their names in
    ``kind.options``. A plain unique key is its text."""

    id: str
    kind: str
    args: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


class Capture(Assertions[CapturedJob], Sequence[CapturedJob]):
    """The jobs that were submitted while ``box.capture()`` was open, oldest first. A job whose transaction was rolled back is none of them."""

    def __init__(self, registry: Registry, present: Callable[[Sequence[str]], Sequence[str]]) -> None:
        self._kinds = registry
        self._present = present
        self._all: list[CapturedJob] = []

    @overload
    def __getitem__(self, index: int) -> CapturedJob: ...

    @overload
    def __getitem__(self, index: slice) -> list[CapturedJob]: ...

    def __getitem__(self, index: int | slice) -> CapturedJob | list[CapturedJob]:
        return self._listed()[index]

    def __len__(self) -> int:
        return len(self._listed())

    def __repr__(self) -> str:
        return repr(self._listed())

    def add(self, job: NewJob, job_id: str) -> None:
        """Remember a submission."""
        self._all.append(CapturedJob(job_id, job.kind, _arguments(job), self._options(job)))

    def _options(self, job: NewJob) -> dict[str, Any]:
        given = {name: getattr(job, name) for name in _OPTIONS}
        options = {name: value for name, value in given.items() if value != _DEFAULTS[name]}
        if isinstance(key := options.get("key"), Key) and key == Key(key.value):
            options["key"] = key.value
        if "after" in options:
            options["after"] = [after.parent for after in options["after"]]
            if not options["after"]:
                del options["after"]
        kind = self._kinds.kind(job.kind)
        if kind is not None and job.max_attempts not in (None, kind.phases[0].retry.attempts):
            options["max_attempts"] = job.max_attempts
        return options

    def _listed(self) -> list[CapturedJob]:
        there = set(self._present([job.id for job in self._all]))
        return [job for job in self._all if job.id in there]

    @property
    def _registry(self) -> Registry:
        return self._kinds


def _arguments(job: NewJob) -> Mapping[str, Any]:
    text = job.args if isinstance(job.args, Json) else encode(dict(job.args), what="arguments")
    arguments: Mapping[str, Any] = decode(text, what="arguments")
    return arguments
