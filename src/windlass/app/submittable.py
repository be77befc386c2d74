"""A kind that can be submitted: ``enqueue`` and its forms, typed by the handler's parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack

from windlass.handlers.chunk_transaction import ChunkTransaction
from windlass.handlers.inject import Container
from windlass.handlers.registry import Phase, Registry
from windlass.handlers.transaction import JobTransaction
from windlass.model import Enqueued, NewJob
from windlass.principals.authority import Authority
from windlass.submit.call import new_job
from windlass.submit.handle import JobHandle, JobHandles, Source, SubmitterSource
from windlass.submit.many import each_job, new_jobs
from windlass.submit.options import JobOptions, known_options
from windlass.submit.request import Request
from windlass.submit.submitter import Submitter
from windlass.transactions.submitter import TransactionSubmitter

P = ParamSpec("P")
R = TypeVar("R")


class OwningApp(Source, Protocol):
    """The part of an app that its kinds use."""

    registry: Registry
    container: Container
    authority: Authority

    @property
    def submitter(self) -> Submitter: ...

    @property
    def transaction_submitter(self) -> TransactionSubmitter: ...

    def is_injected(self, annotation: Any) -> bool: ...

    def use_database(self, options: Mapping[str, Any]) -> None: ...

    def serving(self) -> OwningApp:
        """The app to enqueue through: the one on another database whose job runs here, else this one."""
        ...


class Submittable(ABC, Generic[P, R]):
    """A kind that can be submitted: its first phase, and options for each of its jobs. ``P`` are the parameters of the first handler,
    ``R`` is the result of the last."""

    def __init__(self, app: OwningApp, options: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._options: Mapping[str, Any] = options or {}

    @cached_property
    @abstractmethod
    def _first(self) -> Phase:
        """The phase that a job begins in."""

    @abstractmethod
    def _with(self, options: Mapping[str, Any]) -> Self:
        """A copy with these options."""

    def options(self, **options: Unpack[JobOptions]) -> Self:
        """A copy of this kind with options for each job that is submitted through it: ``kind.options(delay=60).enqueue(...)``."""
        return self._with({**self._options, **known_options(options)})

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request[P, R]:
        """A job that is not submitted yet: these arguments and this kind's options, for ``enqueue_many``, batches and chains."""
        return Request(self._first, args, kwargs, self._options)

    def handle(self, job_id: str) -> JobHandle[R]:
        """A handle on a job of this kind that was submitted before, here or elsewhere."""
        source = SubmitterSource(self._app.serving())
        return JobHandle(Enqueued(str(job_id), created=False), source, self._app.registry)

    def _first_in(self, home: OwningApp) -> Phase:
        """The first phase with the defaults of the app that is submitted through."""
        return self._first.in_registry(home.registry) or self._first

    # ------------------------------------------------------------------ submitting

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Submit a job with these arguments; durable when this returns. Options are given by ``options``."""
        home = self._app.serving()
        submitter = home.submitter
        first = self._first if home is self._app else self._first_in(home)
        job = new_job(first, args, kwargs, self._options, home.authority)
        return JobHandle(submitter.submit(job), submitter, home.registry)

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """``enqueue`` from a coroutine, without blocking its event loop."""
        home = self._app.serving()
        submitter = home.submitter
        first = self._first if home is self._app else self._first_in(home)
        job = new_job(first, args, kwargs, self._options, home.authority)
        return JobHandle(await submitter.submit_async(job), submitter, home.registry)

    def enqueue_many(self, calls: Iterable[Request[P, R]] | Iterable[Mapping[str, Any]]) -> JobHandles[R]:
        """Submit many jobs, all or none: a request each (``kind.request(...)``), or a mapping of arguments each, which no type checker
        checks."""
        home = self._app.serving()
        submitter = home.submitter
        first = self._first if home is self._app else self._first_in(home)
        made = submitter.submit_many(new_jobs(first, calls, self._options, home.authority))
        return JobHandles(made, submitter, home.registry)

    async def enqueue_many_async(
        self, calls: Iterable[Request[P, R]] | Iterable[Mapping[str, Any]]
    ) -> JobHandles[R]:
        """``enqueue_many`` from a coroutine, without blocking its event loop."""
        home = self._app.serving()
        submitter = home.submitter
        first = self._first if home is self._app else self._first_in(home)
        jobs = new_jobs(first, calls, self._options, home.authority)
        return JobHandles(await submitter.submit_many_async(jobs), submitter, home.registry)

    # ------------------------------------------------------------------ in the caller's transaction

    def enqueue_in(self, where: Any, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Submit a job in the caller's own transaction: it exists if and only if that commits.

        ``where`` is a connection or session of psycopg, sqlite3, SQLAlchemy or Django on the database that the jobs are in, or the
        ``tx`` of ``ctx.transaction()`` and of a chunk. The transaction is the caller's to commit. Give the option ``notify=False`` where
        it will be prepared (``PREPARE TRANSACTION``): workers find the job without a notification, a little later.
        """
        home = self._app.serving()
        first = self._first if home is self._app else self._first_in(home)
        job = new_job(first, args, kwargs, self._options, home.authority)
        return JobHandle(self._submit_in(home, where, [job])[0], home, home.registry)

    async def enqueue_in_async(self, where: Any, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """``enqueue_in`` for an async connection or session: psycopg, asyncpg, aiosqlite or SQLAlchemy."""
        home = self._app.serving()
        first = self._first if home is self._app else self._first_in(home)
        job = new_job(first, args, kwargs, self._options, home.authority)
        return JobHandle((await self._submit_in_async(home, where, [job]))[0], home, home.registry)

    def enqueue_many_in(
        self, where: Any, calls: Iterable[Request[P, R]] | Iterable[Mapping[str, Any]], /
    ) -> JobHandles[R]:
        """``enqueue_many`` in the caller's own transaction."""
        home = self._app.serving()
        first = self._first if home is self._app else self._first_in(home)
        jobs = each_job(first, calls, self._options, home.authority)
        return JobHandles(self._submit_in(home, where, jobs), home, home.registry)

    async def enqueue_many_in_async(
        self, where: Any, calls: Iterable[Request[P, R]] | Iterable[Mapping[str, Any]], /
    ) -> JobHandles[R]:
        """``enqueue_many_in`` for an async connection or session."""
        home = self._app.serving()
        first = self._first if home is self._app else self._first_in(home)
        jobs = each_job(first, calls, self._options, home.authority)
        return JobHandles(await self._submit_in_async(home, where, jobs), home, home.registry)

    def _submit_in(self, home: OwningApp, where: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if isinstance(where, JobTransaction | ChunkTransaction):
            return [where.enqueue_checked(job) for job in jobs]
        return home.transaction_submitter.submit(where, jobs, notify=self._options.get("notify", True))

    async def _submit_in_async(self, home: OwningApp, where: Any, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if isinstance(where, JobTransaction):
            return await where.run(lambda: [where.enqueue_checked(job) for job in jobs])
        if isinstance(where, ChunkTransaction):
            where.announce()
            made: list[Enqueued] = await where.run_here(lambda: [where.enqueue_checked(job) for job in jobs])
            return made
        notify = self._options.get("notify", True)
        return await home.transaction_submitter.submit_async(where, jobs, notify=notify)
