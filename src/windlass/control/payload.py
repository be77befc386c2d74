"""What an actor is shown of the payload of jobs: arguments, results, outputs, saved positions, and the words of errors.

There are three degrees. The application itself gets everything as it is stored. People get it with secrets hidden. An actor that
``hides_payload`` gets ``***`` instead, and keeps what says how a job is doing: states, times, counts, the types and codes of errors. Everything that
the control service returns passes here, so that lists, streams, reasons and failures agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from windlass.audit.record import AuditRecord
from windlass.control.actor import Actor
from windlass.control.filters import Filter
from windlass.control.filters.hiding import WITHHELD, hides_argument, without_payload, without_secrets
from windlass.errors import NotAllowedError
from windlass.handlers.registry import Registry
from windlass.handlers.title import plain_title, shortened
from windlass.model import Job, Json, Progress, Schedule
from windlass.model.rule import FanIn
from windlass.operations.operation import Operation

NEEDED: Final = "windlass:view-payload"
_OF_ERRORS = ("type", "code")
S = TypeVar("S")


class Payload:
    """The payload of jobs as one actor may see it."""

    def __init__(self, actor: Actor, redacted: Callable[[Any], Any], registry: Registry) -> None:
        self._actor = actor
        self._redacted = redacted
        self._registry = registry
        self.is_whole = actor.principal is None and not actor.hides_secrets and not actor.hides_payload
        """Whether the actor gets everything as it is stored."""

    def value(self, value: Any) -> Any:
        """A result, an output, a position, a key, or a text that may quote one of them."""
        return value if self.is_whole else self.words(value)

    def words(self, value: Any) -> Any:
        """The same for what is never shown as it is stored, not even to the application."""
        if value is None:
            return None
        return WITHHELD if self._actor.hides_payload else self._redacted(value)

    def error(self, error: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """An error: without payload its type and its code."""
        if error is None or self.is_whole:
            return error
        return self.error_words(error)

    def error_words(self, error: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same for what is never shown as it is stored."""
        if not self._actor.hides_payload:
            shown: Mapping[str, Any] = self._redacted(error)
            return shown
        kept = {name: self._redacted(error[name]) for name in _OF_ERRORS if name in error}
        return {**kept, "message": WITHHELD}

    def arguments(self, arguments: Json) -> Json:
        """The arguments of a job or a schedule; none without payload."""
        if self.is_whole:
            return arguments
        return Json("{}" if self._actor.hides_payload else json.dumps(self._redacted(json.loads(arguments))))

    def progress(self, progress: Progress | None) -> Progress | None:
        """How far a job is."""
        if progress is None or self.is_whole:
            return progress
        return replace(progress, position=self.value(progress.position))

    def job(self, job: Job) -> Job:
        """A whole job, with its title."""
        if self.is_whole:
            return replace(job, title=self._title(job.kind, job.args))
        args_json = self.arguments(job.args_json)
        return replace(
            job,
            args_json=args_json,
            title=self._title(job.kind, json.loads(args_json)),
            result_json=None if job.result_json is None else Json(json.dumps(self.value(job.result))),
            error=self.error(job.error),
            traceback=self.value(job.traceback),
            outputs=tuple(replace(output, value=self.value(output.value)) for output in job.outputs),
            progress=self.progress(job.progress),
        )

    def _title(self, kind: str, arguments: Any) -> str:
        """The title of a job, made of the arguments that the actor is shown: it is payload as they are."""
        if self._actor.hides_payload:
            return kind
        known = self._registry.kind(kind)
        if known is None or known.title is None or not isinstance(arguments, Mapping):
            title = plain_title(kind, arguments)
        else:
            title = known.title.of(arguments) or kind
        return title if self.is_whole else shortened(self._redacted(title))

    def with_error(self, part: S) -> S:
        """A part of a job that has an error, such as an attempt."""
        return part if self.is_whole else replace(part, error=self.error(part.error))  # type: ignore[type-var, attr-defined]

    def schedule(self, schedule: Schedule) -> Schedule:
        """A schedule with its arguments."""
        return schedule if self.is_whole else replace(schedule, args_json=self.arguments(schedule.args_json))

    def fan_in(self, fan_in: FanIn) -> FanIn:
        """An open fan-in, whose key is a value of arguments."""
        return replace(fan_in, key=self.value(fan_in.key), error=self.value(fan_in.error))

    def operation(self, operation: Operation) -> Operation:
        """An operation, whose filter may name values of arguments."""
        if self.is_whole:
            return operation
        refusals = [
            replace(refusal, message=self._redacted(refusal.message)) for refusal in operation.refusals
        ]
        return replace(operation, filter=self._filter(operation.filter), refusals=refusals)

    def _filter(self, text: str) -> str:
        return without_secrets(without_payload(text) if self._actor.hides_payload else text, self._redacted)

    def record(self, record: AuditRecord) -> AuditRecord:
        """A record of the audit trail, which has the arguments that an edit changed and the filter of an operation."""
        if not self._actor.hides_payload:
            return record
        return replace(record, before=_without(record.before), after=_without(record.after))

    def require(self, what: str) -> None:
        """Refuse what has nothing but payload."""
        if self._actor.hides_payload:
            name = self._actor.name
            raise NotAllowedError(f"{name} may not read {what}: it needs the role {NEEDED}", subject=name, missing=[NEEDED])  # fmt: skip

    def require_search(self, only: Filter) -> None:
        """Refuse to search by an argument whose value the actor is not shown: the result would show the value."""
        if self.is_whole:
            return
        for term in only.terms:
            if term.key == "args" and (
                self._actor.hides_payload or hides_argument(term.path, (), self._redacted)
            ):
                path = ".".join(term.path)
                raise NotAllowedError(
                    f"{self._actor.name} may not search by args.{path}: its value is hidden",
                    subject=self._actor.name,
                )


def _without(facts: Any) -> Any:
    if not isinstance(facts, Mapping):
        return facts
    return {name: _OF_AUDIT[name](value) if name in _OF_AUDIT else value for name, value in facts.items()}


def _withheld(_: Any) -> str:
    return WITHHELD


def _filter_of_record(value: Any) -> Any:
    return without_payload(value) if isinstance(value, str) else WITHHELD


_OF_AUDIT: Mapping[str, Callable[[Any], Any]] = {"arguments": _withheld, "filter": _filter_of_record}
"""What of a record's facts is payload, and what an actor is shown of it that hides payload."""
