"""Schedules as code defines them: checked where they are written, put into the database by a worker that starts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from windlass.arguments.importable import function_of, module_of
from windlass.arguments.limits import PayloadLimits
from windlass.errors import ConfigError
from windlass.model import DEFAULT_PRIORITY, Json, NewSchedule, as_duration
from windlass.schedules.checking import check_schedule
from windlass.store.validators import MAX_LABEL

if TYPE_CHECKING:
    from windlass.arguments.signature import Signature
    from windlass.handlers.registry import Phase

OPTIONS = ("priority", "max_attempts", "correlation_id", "principal", "expires")


@dataclass(frozen=True, slots=True)
class CodeSchedule:
    """A schedule that code defines. Unless it is given, the number of attempts of its jobs is read when a worker starts: the default comes
    from settings, which are not read while modules are imported."""

    schedule: NewSchedule
    phase: Phase
    has_own_attempts: bool

    def resolved(self) -> NewSchedule:
        """As it goes into the database."""
        if self.has_own_attempts:
            return self.schedule
        return replace(self.schedule, max_attempts=self.phase.retry.attempts)


def checked(
    signature: Signature,
    handler: Callable[..., Any],
    *,
    name: str,
    kind: str,
    phase: str,
    expression: str | None,
    every: Any,
    tz: Any,
    missed: Any,
    cap: int,
    jitter: Any,
    args: Mapping[str, Any] | None,
    due_as: str | None,
    options: Mapping[str, Any],
) -> NewSchedule:
    """Refuse what could not run, before anything is defined: times, zone, arguments, options."""
    for option in options:
        if option not in OPTIONS:
            raise ConfigError(
                "option",
                option,
                because=f"jobs of a schedule take {', '.join(OPTIONS[:-1])} and {OPTIONS[-1]}",
            )
    if args is not None and not isinstance(args, Mapping):
        raise ConfigError(
            "args", type(args).__name__, "a mapping of argument names to values, such as {'number': 1}"
        )
    given = dict(args or {})
    signature = signature.with_limits(
        PayloadLimits
    )  # the defaults: no configuration is read while modules are imported
    if due_as is not None:
        if due_as not in signature.parameters:
            takes = ", ".join(signature.parameters) or "none"
            raise ConfigError("due_as", due_as, f"one of the handler's parameters: {takes}")
        if due_as in given:
            raise ConfigError(
                "args", due_as, because="leave it out: due_as says that it is the tick's due time"
            )
        given[due_as] = datetime.now(UTC).isoformat()
    text = signature.encode_args(**given)
    if due_as is not None:
        text = json.dumps({key: value for key, value in json.loads(text).items() if key != due_as})
    return check_schedule(
        NewSchedule(
            name=name,
            kind=kind,
            phase=phase,
            expression=expression,
            every=every,
            tz=tz.key if isinstance(tz, ZoneInfo) else tz,
            args=Json(text),
            missed=missed,
            cap=cap,
            jitter=as_duration(jitter),
            priority=options.get("priority", DEFAULT_PRIORITY),
            max_attempts=options.get("max_attempts", 1),
            correlation_id=options.get("correlation_id"),
            principal=options.get("principal"),
            expires=as_duration(options.get("expires")),
            due_as=due_as,
            source=_source_of(handler),
        )
    )


def _source_of(handler: Callable[..., Any]) -> str:
    function = function_of(handler)
    return f"{module_of(handler)}:{getattr(function, '__qualname__', type(function).__name__)}"[:MAX_LABEL]
