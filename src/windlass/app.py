"""App: where kinds of work are defined, submitted and served.

app = windlass.App("sqlite:///jobs.db")

@app.job(retry=windlass.exponential(attempts=5), timeout=60)
async def welcome(user_id: int) -> str: ...

welcome.enqueue(user_id=7)        # from anywhere
app.worker().start()              # or: windlass worker app:app
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, Union, overload
from zoneinfo import ZoneInfo

from windlass.callers.submitter import TransactionSubmitter
from windlass.config import Config, load
from windlass.engine.engine import Engine
from windlass.engine.stats import Stats
from windlass.errors import ConfigError
from windlass.model import DEFAULT_PRIORITY, After, Debounce, Enqueued, Json, Key, NewJob, Rate
from windlass.principal import Expiry, Principal
from windlass.retry import RetryPolicy
from windlass.rules import Source
from windlass.settings import Settings
from windlass.signature import Signature
from windlass.store import Store, open_store
from windlass.submit import Submitter
from windlass.urls import dialect_of
from windlass.work.authority import (
    ASKING,
    Authority,
    Recheck,
    running_principal,
    running_principal_or_none,
)
from windlass.work.chunks import ChunkTransaction
from windlass.work.context import Context
from windlass.work.definitions import Synced, sync
from windlass.work.inject import Container, is_supplied
from windlass.work.kind import CHUNK_RETRY, PROCESSORS, TIME_LIMIT, Phase, Registry, check_options
from windlass.work.rules import written_in
from windlass.work.schedules import CodeSchedule, checked
from windlass.work.transaction import JobTransaction

P = ParamSpec("P")
R = TypeVar("R")
Kindly = Union[str, "JobKind[..., Any]", "Pipeline"]
"""A kind: its name, or what was defined under it."""

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


class App:
    """The kinds of work of one application, and the database they are kept in. Nothing is global: make as many as you like."""

    def __init__(
        self,
        url: str | None = None,
        *,
        config: Config | Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        store: Store | None = None,
        **options: Any,
    ) -> None:
        self._url = url
        self._given = config
        self._settings = settings
        self._config: Config | None = config if isinstance(config, Config) else None
        self.container = Container()
        self.container.provide(Principal, running_principal, scope="job")
        self.container.provide(Principal | None, running_principal_or_none, scope="job")
        self.authority = Authority(lambda: self.config["principal.keys"])
        self.registry = Registry(default_retry=_ConfiguredRetry(self))
        self._options = options
        self._store = store
        self._owns_store = store is None
        self._submitter: Submitter | None = None
        self._transaction_submitter: TransactionSubmitter | None = None
        self._lock = threading.Lock()

    def bound(self, *, config: Config, store: Store) -> App:
        """An app with the same kinds and providers on another database; this one stays as it is."""
        other = App(config=config, store=store)
        other.registry = self.registry
        other.container = self.container.copy()
        other.authority = Authority(lambda: other.config["principal.keys"], like=self.authority)
        return other

    # ------------------------------------------------------------------ settings

    @property
    def config(self) -> Config:
        """Settings from code, windlass.toml and the environment; read when they are first needed, not at import."""
        if self._config is None:
            code = dict(self._given) if isinstance(self._given, Mapping) else {}
            if self._url is not None:
                code["database.url"] = self._url
            self._config = load(code)
        return self._config

    @property
    def settings(self) -> Settings:
        """How instances of this app run."""
        return self._settings or self.config.settings

    def provide(
        self,
        wanted: Any,
        factory: Callable[..., Any] | None = None,
        *,
        value: Any = None,
        scope: str = "instance",
    ) -> None:
        """Say how something that handlers ask for by type is made: once per process, or per attempt (``scope="job"``)."""
        self.container.provide(wanted, factory, value=value, scope=scope)

    # ------------------------------------------------------------------ defining

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
        timeout: float | None = TIME_LIMIT,
        processors: int = PROCESSORS,
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
        return self._define_job(handler)

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
            raise self._unknown_kind(kind)
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
        self.registry.rules.add(
            [_name_of(parent)],
            _name_of(create),
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
        self.registry.rules.add(
            [_name_of(parent) for parent in kinds],
            _name_of(create),
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

    def sync(self) -> Synced:
        """Put this app's schedules and rules into its database, as a worker does when it starts, and have rules know of jobs that are there
        already."""
        synced = sync(self.store, self.registry)
        self.store.rules.catch_up()
        return synced

    def _unknown_kind(self, kind: str) -> ConfigError:
        known = sorted(item.name for item in self.registry)
        near = difflib.get_close_matches(str(kind), known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        return ConfigError(
            "kind", kind, f"{hint}one of the kinds that are defined: {', '.join(known) or 'none'}"
        )

    # ------------------------------------------------------------------ who asks

    def as_principal(
        self, principal: Principal, *, token: str | None = None
    ) -> AbstractContextManager[Principal]:
        """``with app.as_principal(user):`` every job that this thread or task enqueues in the block is asked for by ``principal``.

        A web layer does it once per request. ``token`` is the raw token it came with; it is kept, encrypted, only with jobs that are
        enqueued with ``keep_token=True``.
        """
        return self.authority.as_principal(principal, token)

    def recheck_principal(self, hook: Recheck) -> Recheck:
        """Say how a principal is checked again before a job runs: a plain or async function that takes the principal (and the
        context, if it has a second parameter) and returns it, perhaps with fewer rights, or raises.

        It is asked at every attempt of every phase of kinds with ``principal_expiry="recheck"``. What it raises ends the job, without
        another attempt; ``Retry`` is for a check that could not be made. May be used as a decorator.
        """
        self.authority.check_with(hook)
        return hook

    # ------------------------------------------------------------------ submitting

    @property
    def url(self) -> str:
        """The database: the URL given, else what the environment or windlass.toml says, else a SQLite file in the current folder."""
        return self._url or self.config.url

    @property
    def store(self) -> Store:
        """The database, opened when it is first needed."""
        with self._lock:
            if self._store is None:
                self._store = open_store(self.url, **self._options)
            return self._store

    @property
    def submitter(self) -> Submitter:
        store = self.store
        with self._lock:
            if self._submitter is None:
                self._submitter = Submitter(store)
            return self._submitter

    @property
    def transaction_submitter(self) -> TransactionSubmitter:
        """Submits in transactions of callers; the store is not opened for that."""
        with self._lock:
            if self._transaction_submitter is None:
                store = self._store
                dialect = dialect_of(self.url) if store is None else store.db.dialect
                clock = self._options.get("clock") if store is None else store.db.clock
                self._transaction_submitter = TransactionSubmitter(dialect, clock)
            return self._transaction_submitter

    def enqueue(self, kind: str, /, **arguments: Any) -> Enqueued:
        """Submit a job by the name of its kind, which must be defined in this app."""
        found = self.registry.kind(kind)
        if found is None:
            raise self._unknown_kind(kind)
        return self.submitter.submit(new_job(found.first, (), arguments, {}, self.authority))

    # ------------------------------------------------------------------ serving

    def worker(
        self,
        settings: Settings | None = None,
        /,
        *,
        stats: Stats | None = None,
        degraded: Callable[[], Iterable[str]] = tuple,
        **changes: Any,
    ) -> Engine:
        """An engine that serves this app's jobs; start it with ``start()``, stop it with ``stop()``. ``stats`` are counters that
        somebody else counts in, too; ``degraded`` adds lines to its health."""
        self.check_dependencies()
        return Engine(
            self.store,
            self.registry,
            (settings or self.settings).changed(**changes),
            wrap=self.container.wrap,
            authority=self.authority,
            stats=stats,
            degraded=degraded,
        )

    def is_injected(self, annotation: Any) -> bool:
        """Whether a parameter is supplied when the job runs, and not stored with it."""
        return annotation is Context or self.container.knows(annotation) or is_supplied(annotation)

    def check_dependencies(self) -> None:
        """Refuse to serve handlers that ask for what nobody provides; all of them are named at once."""
        problems = []
        for phase in self.registry.phases.values():
            wanted = phase.supplied
            is_async = inspect.iscoroutinefunction(inspect.unwrap(phase.handler))
            problems += [
                f"{phase.name}, {text}" for text in self.container.missing(wanted, for_async=is_async)
            ]
            if phase.principal_expiry is Expiry.RECHECK and self.authority.recheck is None:
                problems.append(f"{phase.name}, principal_expiry: no check; app.recheck_principal(hook)")
        if problems:
            raise ConfigError("dependencies", f"{len(problems)} missing", "; ".join(problems))

    def close(self) -> None:
        """Close what this app opened."""
        with self._lock:
            if self._submitter is not None:
                self._submitter.close()
                self._submitter = None
            if self._store is not None and self._owns_store:
                self._store.close()
                self._store = None
        self.container.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _Submittable:
    """What can be enqueued: a first phase, and options that stick."""

    def __init__(self, app: App, options: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._options = dict(options or {})

    @property
    def _first(self) -> Phase:
        raise NotImplementedError

    def enqueue(self, /, *args: Any, **kwargs: Any) -> Enqueued:
        """Submit a job with these arguments. Options (key, delay, run_at, priority, after, correlation_id, …) may be given beside
        them; where the handler has a parameter of that name, use ``with_options``."""
        return self._app.submitter.submit(self._new(args, kwargs))

    async def enqueue_async(self, /, *args: Any, **kwargs: Any) -> Enqueued:
        """The same from a coroutine, without blocking its event loop."""
        return await self._app.submitter.submit_async(self._new(args, kwargs))

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Submit many jobs, all or none: one mapping of arguments (and options) each."""
        return self._app.submitter.submit_many([self._new((), dict(call)) for call in calls])

    async def enqueue_many_async(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """The same from a coroutine."""
        return await self._app.submitter.submit_many_async([self._new((), dict(call)) for call in calls])

    def enqueue_in(self, where: Any, /, *args: Any, **kwargs: Any) -> Enqueued:
        """Submit a job in the caller's own transaction: it exists if and only if that commits.

        ``where`` is a connection or session of psycopg, sqlite3, SQLAlchemy or Django on the database that the jobs are in, or the
        ``tx`` of ``ctx.transaction()`` and of a chunk. The transaction is the caller's to commit.
        """
        return self._submit_in(where, [self._new(args, kwargs)])[0]

    async def enqueue_in_async(self, where: Any, /, *args: Any, **kwargs: Any) -> Enqueued:
        """The same for an async one: psycopg, asyncpg, aiosqlite or SQLAlchemy."""
        return (await self._submit_in_async(where, [self._new(args, kwargs)]))[0]

    def enqueue_many_in(self, where: Any, calls: Iterable[Mapping[str, Any]], /) -> list[Enqueued]:
        """Submit many jobs in the caller's own transaction: one mapping of arguments (and options) each."""
        return self._submit_in(where, [self._new((), dict(call)) for call in calls])

    async def enqueue_many_in_async(
        self, where: Any, calls: Iterable[Mapping[str, Any]], /
    ) -> list[Enqueued]:
        """The same for an async one."""
        return await self._submit_in_async(where, [self._new((), dict(call)) for call in calls])

    def _submit_in(self, where: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if isinstance(where, JobTransaction | ChunkTransaction):
            return [where.enqueue(job) for job in jobs]
        return self._app.transaction_submitter.submit(where, jobs)

    async def _submit_in_async(self, where: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if isinstance(where, JobTransaction):
            return await where.run(lambda: [where.enqueue(job) for job in jobs])
        if isinstance(where, ChunkTransaction):
            made: list[Enqueued] = await where.run_here(lambda: [where.enqueue(job) for job in jobs])
            return made
        return await self._app.transaction_submitter.submit_async(where, jobs)

    def _new(self, args: Sequence[Any], kwargs: dict[str, Any]) -> NewJob:
        return new_job(self._first, args, kwargs, self._options, self._app.authority)


class JobKind(_Submittable, Generic[P, R]):
    """A handler that can be called as before, and enqueued."""

    def __init__(
        self, app: App, handler: Callable[P, R], phase: Phase, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(app, options)
        self._handler = handler
        self.windlass_phase = phase
        self.windlass_wrap = app.container.wrap
        self.windlass_authority = app.authority
        functools.update_wrapper(self, handler)

    @property
    def name(self) -> str:
        return self.windlass_phase.kind

    @property
    def _first(self) -> Phase:
        return self.windlass_phase

    def with_options(self, **options: Any) -> JobKind[P, R]:
        """The same kind with options for each job that is enqueued through it."""
        return JobKind(self._app, self._handler, self.windlass_phase, {**self._options, **_known(options)})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._handler(*args, **kwargs)


class Pipeline(_Submittable):
    """A kind of several phases; a job goes through them in the order they were defined."""

    def __init__(self, app: App, name: str, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(app, options)
        self.name = name

    def phase(self, label: str, **options: Any) -> Callable[[Callable[P, R]], PipelinePhase[P, R]]:
        """Define the next phase."""
        check_options(options)

        def define(handler: Callable[P, R]) -> PipelinePhase[P, R]:
            phase = self._app.registry.define(
                self.name,
                handler,
                label=label,
                injected=self._app.is_injected,
                **options,
            )
            return PipelinePhase(self._app, handler, phase)

        return define

    @property
    def _first(self) -> Phase:
        kind = self._app.registry.kind(self.name)
        if kind is None:
            raise ConfigError(
                "pipeline", self.name, "a pipeline with at least one phase; define one with @pipeline.phase"
            )
        return kind.first

    def with_options(self, **options: Any) -> Pipeline:
        """The same pipeline with options for each job that is enqueued through it."""
        return Pipeline(self._app, self.name, {**self._options, **_known(options)})


class PipelinePhase(Generic[P, R]):
    """A phase's handler; it can be called as before."""

    def __init__(self, app: App, handler: Callable[P, R], phase: Phase) -> None:
        self._handler = handler
        self.windlass_phase = phase
        self.windlass_wrap = app.container.wrap
        self.windlass_authority = app.authority
        functools.update_wrapper(self, handler)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._handler(*args, **kwargs)


class _ConfiguredRetry:
    """The retry policy of kinds that have none of their own: what the configuration says, asked when it is needed."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def attempts(self) -> int:
        return self._app.config.retry.attempts

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        return self._app.config.retry.delay(attempt, error)


def new_job(
    first: Phase,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    options: Mapping[str, Any],
    authority: Authority,
) -> NewJob:
    """The request that a call of ``enqueue`` stands for: validated arguments, and options."""
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
        delay=_duration(options.get("delay")),
        run_at=_moment(options.get("run_at")),
        correlation_id=options.get("correlation_id"),
        key=_key(options.get("key")),
        after=[_after(item) for item in options.get("after") or ()],
        debounce=_debounce(options.get("debounce")),
        throttle=options.get("throttle"),
        limits=limits,
        **{"id": options.get("id"), **asked},
    )


def _name_of(kind: Any) -> str:
    name = kind if isinstance(kind, str) else getattr(kind, "name", None)
    if not isinstance(name, str):
        raise ConfigError("kind", kind, "the name of a kind, a job or a pipeline")
    return name


def _known(options: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in options:
        if name not in OPTIONS:
            raise ConfigError("option", name, f"one of {', '.join(sorted(OPTIONS))}")
    return options


def _duration(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return timedelta(seconds=value) if is_number else value


def _moment(value: Any) -> datetime | None:
    return value  # type: ignore[no-any-return]  # checked with the rest of the job


def _key(value: Any) -> Key | None:
    return Key(value) if isinstance(value, str) else value


def _debounce(value: Any) -> Debounce | None:
    return Debounce(value) if isinstance(value, str) else value


def _after(item: Any) -> Any:
    if isinstance(item, Enqueued):
        return After(item.id)
    return After(item) if isinstance(item, str) else item
