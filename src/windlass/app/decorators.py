"""The decorators that define jobs, pipelines, schedules and rules.

What only a definition needs (pydantic for its signature, the store for its submissions) is loaded by the first one: an ``App`` by itself
is made in a fraction of that time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload
from zoneinfo import ZoneInfo

from windlass.arguments.asyncness import place_of
from windlass.arguments.importable import module_of
from windlass.errors import ConfigError
from windlass.handlers.phase_defaults import UNSAID, Unsaid
from windlass.handlers.registry import Phase
from windlass.model import DEFAULT_PRIORITY, Rate
from windlass.model.principal import Expiry
from windlass.model.rule import RuleEvent, Source
from windlass.rules.book import written_in

if TYPE_CHECKING:
    from windlass.app.kinds import JobDecorator, JobKind, Pipeline
    from windlass.app.parts import AppParts
    from windlass.app.submittable import Submittable
    from windlass.handlers.context import Context
    from windlass.model.retry import RetryPolicy

    KindOrName = str | Submittable[..., Any]
    """A kind: its name, or what was defined under it."""

P = ParamSpec("P")
R = TypeVar("R")


class Decorators:
    """The part of an app that fills its registry."""

    parts: AppParts

    @overload
    def job(
        self, handler: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> JobKind[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...

    @overload
    def job(
        self, handler: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobKind[P, R, P, Coroutine[Any, Any, R]]: ...

    @overload
    def job(
        self, handler: Callable[Concatenate[Context, P], R], /
    ) -> JobKind[P, R, Concatenate[Context, P], R]: ...

    @overload
    def job(self, handler: Callable[P, R], /) -> JobKind[P, R, P, R]: ...

    @overload
    def job(
        self,
        handler: None = None,
        /,
        *,
        name: str | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | Unsaid | None = UNSAID,
        total_timeout: float | Unsaid | None = UNSAID,
        processors: int | Unsaid = UNSAID,
        executor: str | None = None,
        probe: Callable[..., Any] | None = None,
        chunk_retry: RetryPolicy | None = None,
        principal_expiry: str = Expiry.RUN,
        limit: int | None = None,
        limit_key: str | None = None,
        rate: Rate | None = None,
        age: float | None = None,
        on_success: KindOrName | None = None,
        on_failure: KindOrName | None = None,
        title: str | None = None,
    ) -> JobDecorator: ...

    def job(self, handler: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Define a kind of work: the handler stays a plain function, and gets ``enqueue``.

        ``on_success`` and ``on_failure`` are short for ``when(..., on="success")`` and ``when(..., on="failure")``: kinds of which a job is made
        by each job of this kind that completes, or fails after its last attempt. ``title`` is what people read instead of the id, with names of
        arguments in braces: ``title="invoice {number}"``; without it the kind and its first arguments.
        """
        from windlass.submit.options import check_definition

        check_definition(options, also=("on_success", "on_failure", "title"))
        if handler is None:
            return functools.partial(self._define_job, name=name, **options)
        return self._define_job(handler, name=name, **options)

    def _define_job(
        self,
        handler: Callable[..., Any],
        *,
        name: str | None = None,
        on_success: KindOrName | None = None,
        on_failure: KindOrName | None = None,
        **options: Any,
    ) -> Any:
        from windlass.app.kinds import JobKind

        phase = self.parts.registry.define(
            str(name or getattr(handler, "__name__", "job")),
            handler,
            injected=self.parts.is_injected,
            **options,
        )
        self._add_end_rules(phase.kind, on_success, on_failure, module_of(handler)[:255])
        return JobKind(self.parts, handler, phase)

    def _add_end_rules(
        self, kind: str, on_success: KindOrName | None, on_failure: KindOrName | None, source: str
    ) -> None:
        for event, create in ((RuleEvent.SUCCESS, on_success), (RuleEvent.FAILURE, on_failure)):
            if create is not None:
                self._add_rule([kind], create, source=source, on=event)

    def pipeline(
        self,
        name: str,
        *,
        on_success: KindOrName | None = None,
        on_failure: KindOrName | None = None,
        title: str | None = None,
    ) -> Pipeline:
        """A kind of work with several phases, each with its own pool, retry policy and time limit. ``on_success``, ``on_failure`` and ``title``
        are as for ``job``: a job completes with its last phase, and fails in any.
        """
        from windlass.app.kinds import Pipeline

        pipeline = Pipeline(self.parts, name, title=title)
        self._add_end_rules(name, on_success, on_failure, written_in(sys._getframe(1)))
        return pipeline

    def cron(
        self,
        expression: str | None = None,
        *,
        every: float | timedelta | None = None,
        tz: str | ZoneInfo = "UTC",
        missed: str = "once",
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        due_as: str | None = None,
        cap: int = 100,
        jitter: float | timedelta = 0.0,
        **options: Any,
    ) -> JobDecorator:
        """Run a handler at certain times: a plain function becomes a job, one that is a job gets a schedule.

        ``expression`` has five fields (minute, hour, day, month, weekday), or six with seconds in front. Instead of it, ``every`` is an
        interval in seconds, counted from the schedule's creation. ``missed`` says what becomes
        of due times when no worker ran: ``skip``, ``once`` (one job for all of them) or ``all`` (one each, as many as ``cap``).
        ``due_as`` names a parameter that gets the due time; ``args`` are the others. Jobs are spread over ``jitter`` seconds. Options
        are priority, max_attempts, correlation_id, principal and expires. Workers put schedules into the database when they start.
        """
        if callable(expression):  # a decorator without parentheses would define nothing
            raise ConfigError("handler", place_of(expression), because="write @app.cron(...) with its times")
        what = {
            "expression": expression,
            "every": every,
            "tz": tz,
            "missed": missed,
            "cap": cap,
            "jitter": jitter,
        }

        from windlass.app.kinds import JobKind
        from windlass.arguments.signature import Signature
        from windlass.schedules.code import CodeSchedule, checked

        def define(handler: Callable[..., Any]) -> Any:
            if isinstance(handler, JobKind):
                phase = handler.windlass_phase
                self._schedule(phase, name or phase.kind, args, due_as, {**handler._options, **options}, what)
                return handler
            kind = str(getattr(handler, "__name__", "job"))
            self.parts.registry.refuse_taken(name or kind)
            signature = Signature.of(handler, injected=self.parts.is_injected)
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
            self.parts.registry.schedule(
                CodeSchedule(schedule, job.windlass_phase, "max_attempts" in options)
            )
            return job

        return define

    def schedule(
        self,
        name: str,
        kind: str,
        expression: str | None = None,
        *,
        every: float | timedelta | None = None,
        tz: str | ZoneInfo = "UTC",
        missed: str = "once",
        args: Mapping[str, Any] | None = None,
        due_as: str | None = None,
        cap: int = 100,
        jitter: float | timedelta = 0.0,
        **options: Any,
    ) -> None:
        """Have jobs of a kind, or of a pipeline, made at certain times; with the words of ``cron``. The kind is defined before."""
        found = self.parts.registry.kind(kind)
        if found is None:
            raise self.parts.registry.unknown(kind)
        what = {
            "expression": expression,
            "every": every,
            "tz": tz,
            "missed": missed,
            "cap": cap,
            "jitter": jitter,
        }
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
        from windlass.schedules.code import CodeSchedule, checked

        self.parts.registry.refuse_taken(name)
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
        self.parts.registry.schedule(CodeSchedule(schedule, phase, "max_attempts" in options))

    def when(
        self,
        parent: KindOrName,
        *,
        create: KindOrName,
        args: Mapping[str, Source] | None = None,
        name: str | None = None,
        policy: str = "cancel",
        priority: int = DEFAULT_PRIORITY,
        max_attempts: int | None = None,
        inherit: bool = True,
        phase: str | None = None,
        elsewhere: bool = False,
        on: str = RuleEvent.SUCCESS,
    ) -> None:
        """Have a job made of every job of a kind that completes, by the commit that completes it; with ``on="failure"`` of every job that
        fails after its last attempt, by the commit that fails it.

        ``args`` says what the child gets: the name of its argument → a path into the parent (``args.period``, ``result.total``, ``result``,
        ``error.message``, ``id``, …); ``"*": "args"`` passes all arguments on, which is also what happens without it. For failures, without it
        the child's parameters are filled by their names: ``job_id``, ``kind``, ``error``, ``args`` and ``correlation_id`` are facts of
        the failed job, others its arguments of the same names. ``policy`` is for parents that fail or are
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
            on=on,
        )

    def when_all(
        self,
        parents: Iterable[KindOrName],
        *,
        create: KindOrName,
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

    def _add_rule(self, parents: Iterable[KindOrName], create: KindOrName, **options: Any) -> None:
        names = [_name_of(parent) for parent in parents]
        self.parts.registry.rules.add(names, _name_of(create), **options)
        self.parts.registry.store_defaults(names)


def _name_of(kind: Any) -> str:
    name = kind if isinstance(kind, str) else getattr(kind, "name", None)
    if not isinstance(name, str):
        raise ConfigError("kind", kind, "the name of a kind, a job or a pipeline")
    return name
