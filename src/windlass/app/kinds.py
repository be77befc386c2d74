"""Kinds of work as the application uses them: handlers that can be called as before, and enqueued."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from windlass.errors import ConfigError
from windlass.handlers.chunk_transaction import ChunkTransaction
from windlass.handlers.inject import Container
from windlass.handlers.registry import Phase, Registry, check_options
from windlass.handlers.transaction import JobTransaction
from windlass.model import Enqueued, NewJob
from windlass.principals.authority import Authority
from windlass.submit.call import each_job, known_options, new_job, new_jobs
from windlass.submit.submitter import Submitter
from windlass.transactions.submitter import TransactionSubmitter

P = ParamSpec("P")
R = TypeVar("R")


class OwningApp(Protocol):
    """The part of an app that its kinds use."""

    registry: Registry
    container: Container
    authority: Authority

    @property
    def submitter(self) -> Submitter: ...

    @property
    def transaction_submitter(self) -> TransactionSubmitter: ...

    def is_injected(self, annotation: Any) -> bool: ...

    def serving(self) -> OwningApp:
        """The app to enqueue through: the one on another database whose job runs here, else this one."""
        ...


class Submittable(ABC):
    """A kind that can be enqueued: its first phase, and options for each of its jobs."""

    def __init__(self, app: OwningApp, options: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._options = dict(options or {})

    @property
    @abstractmethod
    def _first(self) -> Phase:
        """The phase that a job begins in."""

    def enqueue(self, /, *args: Any, **kwargs: Any) -> Enqueued:
        """Submit a job with these arguments. Options (key, delay, run_at, priority, after, correlation_id, …) may be given beside
        them; where the handler has a parameter of that name, use ``with_options``."""
        home = self._app.serving()
        return home.submitter.submit(self._new(home, args, kwargs))

    async def enqueue_async(self, /, *args: Any, **kwargs: Any) -> Enqueued:
        """``enqueue`` from a coroutine, without blocking its event loop."""
        home = self._app.serving()
        return await home.submitter.submit_async(self._new(home, args, kwargs))

    def enqueue_many(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """Submit many jobs, all or none: one mapping of arguments (and options) each."""
        home = self._app.serving()
        return home.submitter.submit_many(new_jobs(self._first, calls, self._options, home.authority))

    async def enqueue_many_async(self, calls: Iterable[Mapping[str, Any]]) -> list[Enqueued]:
        """``enqueue_many`` from a coroutine, without blocking its event loop."""
        home = self._app.serving()
        jobs = new_jobs(self._first, calls, self._options, home.authority)
        return await home.submitter.submit_many_async(jobs)

    def enqueue_in(self, where: Any, /, *args: Any, **kwargs: Any) -> Enqueued:
        """Submit a job in the caller's own transaction: it exists if and only if that commits.

        ``where`` is a connection or session of psycopg, sqlite3, SQLAlchemy or Django on the database that the jobs are in, or the
        ``tx`` of ``ctx.transaction()`` and of a chunk. The transaction is the caller's to commit. Give ``tell=False`` where it will be
        prepared (``PREPARE TRANSACTION``): workers find the job without a notification, a little later.
        """
        tell = self._pop_tell(kwargs)
        return self._submit_in(where, [self._new(self._app.serving(), args, kwargs)], tell)[0]

    async def enqueue_in_async(self, where: Any, /, *args: Any, **kwargs: Any) -> Enqueued:
        """``enqueue_in`` for an async connection or session: psycopg, asyncpg, aiosqlite or SQLAlchemy."""
        tell = self._pop_tell(kwargs)
        return (await self._submit_in_async(where, [self._new(self._app.serving(), args, kwargs)], tell))[0]

    def enqueue_many_in(
        self, where: Any, calls: Iterable[Mapping[str, Any]], /, *, tell: bool = True
    ) -> list[Enqueued]:
        """Submit many jobs in the caller's own transaction: one mapping of arguments (and options) each."""
        return self._submit_in(where, self._new_each(calls), tell)

    async def enqueue_many_in_async(
        self, where: Any, calls: Iterable[Mapping[str, Any]], /, *, tell: bool = True
    ) -> list[Enqueued]:
        """``enqueue_many_in`` for an async connection or session."""
        return await self._submit_in_async(where, self._new_each(calls), tell)

    def _pop_tell(self, kwargs: dict[str, Any]) -> bool:
        """Take the option ``tell`` (whether workers are notified) out of a call, unless the handler has a parameter of that name."""
        return True if "tell" in self._first.signature.parameters else bool(kwargs.pop("tell", True))

    def _submit_in(self, where: Any, jobs: Sequence[NewJob], notify: bool) -> list[Enqueued]:
        if isinstance(where, JobTransaction | ChunkTransaction):
            return [where.enqueue_checked(job) for job in jobs]
        return self._app.serving().transaction_submitter.submit(where, jobs, notify=notify)

    async def _submit_in_async(self, where: Any, jobs: Sequence[NewJob], notify: bool) -> list[Enqueued]:
        if isinstance(where, JobTransaction):
            return await where.run(lambda: [where.enqueue_checked(job) for job in jobs])
        if isinstance(where, ChunkTransaction):
            where.announce()
            made: list[Enqueued] = await where.run_here(lambda: [where.enqueue_checked(job) for job in jobs])
            return made
        return await self._app.serving().transaction_submitter.submit_async(where, jobs, notify=notify)

    def _new(self, home: OwningApp, args: Sequence[Any], kwargs: dict[str, Any]) -> NewJob:
        return new_job(self._first, args, kwargs, self._options, home.authority)

    def _new_each(self, calls: Iterable[Mapping[str, Any]]) -> list[NewJob]:
        return each_job(self._first, calls, self._options, self._app.serving().authority)


class JobKind(Submittable, Generic[P, R]):
    """A handler that can be called as before, and enqueued."""

    def __init__(
        self, app: OwningApp, handler: Callable[P, R], phase: Phase, options: Mapping[str, Any] | None = None
    ) -> None:
        functools.update_wrapper(
            self, handler
        )  # first: the attributes of a handler that is a kind itself are another app's
        super().__init__(app, options)
        self._handler = handler
        self.windlass_phase = phase
        self.windlass_wrap = app.container.wrap
        self.windlass_authority = app.authority

    @property
    def name(self) -> str:
        return self.windlass_phase.kind

    @property
    def _first(self) -> Phase:
        return self.windlass_phase

    def with_options(self, **options: Any) -> JobKind[P, R]:
        """A copy of this kind with options for each job that is enqueued through it."""
        return JobKind(
            self._app, self._handler, self.windlass_phase, {**self._options, **known_options(options)}
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._handler(*args, **kwargs)


class Pipeline(Submittable):
    """A kind of several phases; a job goes through them in the order they were defined."""

    def __init__(self, app: OwningApp, name: str, options: Mapping[str, Any] | None = None) -> None:
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
        """A copy of this pipeline with options for each job that is enqueued through it."""
        return Pipeline(self._app, self.name, {**self._options, **known_options(options)})


class PipelinePhase(Generic[P, R]):
    """A phase's handler; it can be called as before."""

    def __init__(self, app: OwningApp, handler: Callable[P, R], phase: Phase) -> None:
        functools.update_wrapper(self, handler)  # first, as above
        self._handler = handler
        self.windlass_phase = phase
        self.windlass_wrap = app.container.wrap
        self.windlass_authority = app.authority

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._handler(*args, **kwargs)
