"""The decorators that define jobs, pipelines, schedules and rules."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, overload
from zoneinfo import ZoneInfo

from windlass.app.kinds import JobKind, OwningApp, Pipeline
from windlass.arguments.signature import Signature
from windlass.errors import ConfigError
from windlass.handlers.registry import CHUNK_RETRY, UNSAID, Phase, Unsaid, check_options
from windlass.model import DEFAULT_PRIORITY, Rate
from windlass.model.principal import Expiry
from windlass.model.retry import RetryPolicy
from windlass.model.rule import Source
from windlass.rules.book import written_in
from windlass.schedules.code import CodeSchedule, checked

P = ParamSpec("P")
R = TypeVar("R")
Kindly = str | JobKind[..., Any] | Pipeline
"""A kind: its name, or what was defined under it."""


class Decorators(OwningApp):
    """The part of an app that fills its registry."""

    @overload
    def job(self, handler: Callable[P, R], /) -> JobKind[P, R]: ...

    @overload
    def job(
        self,
        handler: None = None,
        /,
        *,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | Unsaid | None = UNSAID,
        processors: int | Unsaid = UNSAID,
        executor: str | None = None,
        probe: Callable[..., Any] | None = None,
        chunk_retry: RetryPolicy = CHUNK_RETRY,
        principal_expiry: str = Expiry.RUN,
        limit: int | None = None,
        limit_key: str | None = None,
        rate: Rate | None = None,
        age: float | None = None,
    ) -> Callable[[Callable[P, R]], JobKind[P, R]]: ...

    def job(self, handler: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Define a kind of work: the handler stays a plain function, and gets ``enqueue``."""
        check_options(options)
        if handler is None:
            return functools.partial(self._define_job, name=name, **options)
        return self._define_job(handler, name=name, **options)

    def _define_job(
        self, handler: Callable[P, R], *, name: str | None = None, **options: Any
    ) -> JobKind[P, R]:
        phase = self.registry.define(
            str(name or getattr(handler, "__name__", "job")),
            handler,
            injected=self.is_injected,
            **options,
        )
        return JobKind(self, handler, phase)

    def pipeline(self, name: str) -> Pipeline:
        """A kind of work with several phases, each with its own pool, retry policy and time limit."""
        return Pipeline(self, name)

    def cron(
        self,
        expression: str,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: str = "once",
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        due_as: str | None = None,
        cap: int = 100,
        jitter: float | timedelta = 0.0,
        **options: Any,
    ) -> Callable[[Callable[P, R]], JobKind[P, R]]:
        """Run a handler at certain times: a plain function becomes a job, one that is a job gets a schedule.

        ``expression`` has five fields (minute, hour, day, month, weekday), or six with seconds in front. ``missed`` says what becomes
        of due times when no worker ran: ``skip``, ``once`` (one job for all of them) or ``all`` (one each, as many as ``cap``).
        ``due_as`` names a parameter that gets the due time; ``args`` are the others. Jobs are spread over ``jitter`` seconds. Options
        are priority, max_attempts and correlation_id. Workers put schedules into the database when they start.
        """
        what = {"expression": expression, "tz": tz, "missed": missed, "cap": cap, "jitter": jitter}

        def define(handler: Callable[P, R]) -> JobKind[P, R]:
            if isinstance(handler, JobKind):
                phase = handler.windlass_phase
                self._schedule(phase, name or phase.kind, args, due_as, {**handler._options, **options}, what)
                return handler
            kind = str(getattr(handler, "__name__", "job"))
            self.registry.refuse_taken(name or kind)
            signature = Signature.of(handler, injected=self.is_injected)
            schedule = checked(
                signature,
                handler,
                name=name or kind,
                kind=kind,
                phase=kind,
                args=args,
                due_as=due_as,
                options=options,
                **what,  # type: ignore[arg-type]
            )
            job = self._define_job(handler)
            self.registry.schedule(CodeSchedule(schedule, job.windlass_phase, "max_attempts" in options))
            return job

        return define

    def schedule(
        self,
        name: str,
        kind: str,
        expression: str,
        *,
        tz: str | ZoneInfo = "UTC",
        missed: str = "once",
        args: Mapping[str, Any] | None = None,
        due_as: str | None = None,
        cap: int = 100,
        jitter: float | timedelta = 0.0,
        **options: Any,
    ) -> None:
        """Have jobs of a kind, or of a pipeline, made at certain times; the words are those of ``cron``. The kind is defined before."""
        found = self.registry.kind(kind)
        if found is None:
            raise self.unknown_kind(kind)
        what = {"expression": expression, "tz": tz, "missed": missed, "cap": cap, "jitter": jitter}
        self._schedule(found.first, name, args, due_as, options, what)

    def _schedule(
        self,
        phase: Phase,
        name: str,
        args: Mapping[str, Any] | None,
        due_as: str | None,
        options: Mapping[str, Any],
        what: Mapping[str, Any],
    ) -> None:
        self.registry.refuse_taken(name)
        schedule = checked(
            phase.signature,
            phase.handler,
            name=name,
            kind=phase.kind,
            phase=phase.name,
            args=args,
            due_as=due_as,
            options=options,
            **what,
        )
        self.registry.schedule(CodeSchedule(schedule, phase, "max_attempts" in options))

    def when(
        self,
        parent: Kindly,
        *,
        create: Kindly,
        args: Mapping[str, Source] | None = None,
        name: str | None = None,
        policy: str = "cancel",
        priority: int = DEFAULT_PRIORITY,
        max_attempts: int | None = None,
        inherit: bool = True,
        phase: str | None = None,
        elsewhere: bool = False,
    ) -> None:
        """Have a job made of every job of a kind that completes, by the commit that completes it.

        ``args`` says what the child gets: the name of its argument → a path into the parent (``args.period``, ``result.total``, ``result``,
        ``id``, …); ``"*": "args"`` passes all arguments on, which is also what happens without it. ``policy`` is for parents that fail or are
        cancelled: no child (``cancel``), none until it is retried and completes (``wait``), a child all the same (``run``). ``inherit``
        passes correlation id and principal on. Kinds that another application serves need ``elsewhere``, and the child's ``phase`` if that
        is not named like it. Rules are put into the database by workers when they start, or by ``sync``.
        """
        self._add_rule(
            [parent],
            create,
            source=written_in(sys._getframe(1)),
            args=args,
            name=name,
            policy=policy,
            priority=priority,
            max_attempts=max_attempts,
            inherit=inherit,
            phase=phase,
            elsewhere=elsewhere,
        )

    def when_all(
        self,
        parents: Iterable[Kindly],
        *,
        create: Kindly,
        key: Sequence[str],
        args: Mapping[str, Source] | None = None,
        name: str | None = None,
        policy: str = "cancel",
        priority: int = DEFAULT_PRIORITY,
        max_attempts: int | None = None,
        inherit: bool = True,
        phase: str | None = None,
        elsewhere: bool = False,
    ) -> None:
        """Have a job made when a job of EACH of these kinds has completed, of those whose ``key`` has the same value: once, by the commit
        that completes the last.

        ``key`` are paths such as ``["args.period", "args.county"]``. The child gets the key's fields under their own names, or what ``args``
        says: a path of the key, or a pair that says of which parent: ``{"total": ("hours-report", "result.total")}``. The rest is as
        for ``when``.
        """
        kinds = [parents] if isinstance(parents, str) else list(parents)
        if len(kinds) < 2:
            raise ConfigError("parents", kinds, "two kinds or more; for one, use when()")
        self._add_rule(
            kinds,
            create,
            source=written_in(sys._getframe(1)),
            key=key,
            args=args,
            name=name,
            policy=policy,
            priority=priority,
            max_attempts=max_attempts,
            inherit=inherit,
            phase=phase,
            elsewhere=elsewhere,
        )

    def _add_rule(self, parents: Iterable[Kindly], create: Kindly, **options: Any) -> None:
        names = [_name_of(parent) for parent in parents]
        self.registry.rules.add(names, _name_of(create), **options)
        self.registry.store_defaults(names)

    def unknown_kind(self, kind: str) -> ConfigError:
        """The error for the name of a kind that is not defined here."""
        return self.registry.unknown(kind)


def _name_of(kind: Any) -> str:
    name = kind if isinstance(kind, str) else getattr(kind, "name", None)
    if not isinstance(name, str):
        raise ConfigError("kind", kind, "the name of a kind, a job or a pipeline")
    return name
