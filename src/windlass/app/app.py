"""App: where kinds of work are defined, submitted and served.

app = windlass.App("sqlite:///jobs.db")

@app.job(retry=windlass.retry.exponential(attempts=5), timeout=60)
async def welcome(user_id: int) -> str: ...

welcome.enqueue(user_id=7)        # from anywhere
app.worker().start()              # or: windlass worker app:app
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from windlass.app.batching import Batching
from windlass.app.controlling import Controlling
from windlass.app.decorators import Decorators
from windlass.app.parts import AppParts
from windlass.arguments.asyncness import is_async
from windlass.closing import Closing
from windlass.errors import ConfigError
from windlass.handlers.middleware import checked

if TYPE_CHECKING:
    from windlass.app.submittable import Submittable
    from windlass.audit.record import AuditRecord
    from windlass.config import Config
    from windlass.engine.engine import Engine
    from windlass.engine.job_locks import JobLocks
    from windlass.engine.places import Places
    from windlass.engine.stats import Stats
    from windlass.features import Store
    from windlass.handlers.definitions import Synced
    from windlass.handlers.submit_hooks import SubmitHook
    from windlass.model.principal import Principal
    from windlass.observe.redaction import Redaction
    from windlass.principals.authority import Recheck
    from windlass.settings import Settings
    from windlass.submit.handle import JobHandle

MiddlewareFunction = TypeVar("MiddlewareFunction", bound=Callable[..., Any])


class App(Decorators, Batching, Controlling, Closing):
    """The kinds of work of one application, and the database they are kept in. Nothing is global: make as many as you like."""

    def __init__(
        self,
        url: str | None = None,
        *,
        config: Config | Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        store: Store | None = None,
        audit: Callable[[AuditRecord], None] | None = None,
        redact: Redaction | None = None,
        **options: Any,
    ) -> None:
        given: object = redact
        if redact is not None and (not callable(given) or is_async(redact)):
            raise ConfigError(
                "redact", given, "a plain function that takes a value and returns the value to show"
            )
        self.parts = AppParts(url, config=config, settings=settings, store=store, options=options)
        self.parts.on_audit = audit
        self.parts.redaction = redact

    @classmethod
    def of(cls, parts: AppParts) -> Self:
        """An app on parts that exist, for Windlass's own code."""
        made = cls.__new__(cls)
        made.parts = parts
        return made

    # ------------------------------------------------------------------ settings

    @property
    def config(self) -> Config:
        """Settings from code, windlass.toml and the environment; read when they are first needed, not at import."""
        return self.parts.config

    @property
    def settings(self) -> Settings:
        """How instances of this app run."""
        return self.parts.settings

    @property
    def url(self) -> str:
        """The database: the URL given, else what the environment or windlass.toml says, else a SQLite file in the current folder."""
        return self.parts.url

    @property
    def store(self) -> Store:
        """The database, opened when it is first needed."""
        return self.parts.store

    def provide(
        self,
        wanted: Any,
        factory: Callable[..., Any] | None = None,
        *,
        value: Any = None,
        scope: str = "instance",
    ) -> None:
        """Say how something that handlers ask for by type is made: once per process, or per attempt (``scope="job"``)."""
        self.parts.container.provide(wanted, factory, value=value, scope=scope)

    def redact(self, value: Any) -> Any:
        """A copy of a JSON-like value without secrets (``windlass.observe.redact``), after the function that the app was given."""
        return self.parts.redacted(value)

    def sync(self) -> Synced:
        """Put this app's schedules and rules into its database, as a worker does when it starts, and flag existing jobs for new
        rules."""
        from windlass.handlers.definitions import sync

        synced = sync(self.store, self.parts.registry)
        self.store.rules.catch_up()
        return synced

    def middleware(self, function: MiddlewareFunction) -> MiddlewareFunction:
        """Have a context manager around every attempt: a function that takes a ``CurrentAttempt``, with ``@contextmanager`` or
        ``@asynccontextmanager``. The first that is registered is the outermost. May be used as a decorator.

        A plain one works around async handlers, threads and child processes; an async one around async handlers only. Register it before
        workers are made.
        """
        self.parts.registry.middleware.append(checked(function))
        return function

    # ------------------------------------------------------------------ principals

    def as_principal(
        self, principal: Principal, *, token: str | None = None
    ) -> AbstractContextManager[Principal]:
        """``with app.as_principal(user):`` every job that this thread or task enqueues in the block is asked for by ``principal``.

        A web layer does it once per request. ``token`` is the raw token it came with; it is kept, encrypted, only with jobs that are
        enqueued with ``keep_token=True``.
        """
        return self.parts.authority.as_principal(principal, token)

    def recheck_principal(self, hook: Recheck) -> Recheck:
        """Say how a principal is checked again before a job runs: a sync or async function that takes the principal (and the
        context, if it has a second parameter) and returns it, perhaps with fewer rights, or raises.

        It is called at every attempt of every phase of kinds with ``principal_expiry="recheck"``. What it raises ends the job, without
        another attempt; ``Retry`` is for a check that could not be made. May be used as a decorator.
        """
        self.parts.authority.check_with(hook)
        return hook

    # ------------------------------------------------------------------ submitting

    def on_submit(self, hook: SubmitHook) -> SubmitHook:
        """Have a function called with every submission of this app (``Submission``), just before it is stored; the headers that it returns are
        carried with the job. Headers that are given with the call count before them. May be used as a decorator.

        Jobs of schedules have no submission. Jobs that rules create have the headers of their parent.
        """
        given: object = hook
        if not callable(given) or is_async(hook):
            raise ConfigError("on_submit", given, "a plain function that takes a Submission")
        self.parts.registry.submit_hooks.append(hook)
        return hook

    def kind(self, name: str) -> Submittable[..., Any]:
        """A kind of this app by its name, to be submitted without a type checker's help."""
        if self.parts.registry.kind(name) is None:
            raise self.parts.registry.unknown(name)
        from windlass.app.kinds import Pipeline

        return Pipeline(self.parts, name)

    def enqueue(self, kind: str, /, **arguments: Any) -> JobHandle[Any]:
        """Submit a job by the name of its kind, which must be defined in this app; for options: ``app.kind(name).options(...)``."""
        return self.kind(kind).enqueue(**arguments)

    def handle(self, job_id: str) -> JobHandle[Any]:
        """A handle on a job that was submitted before, here or elsewhere."""
        from windlass.model import Enqueued
        from windlass.submit.handle import JobHandle, SubmitterSource

        source = SubmitterSource(self.parts.serving())
        return JobHandle(Enqueued(str(job_id), created=False), source, self.parts.registry)

    # ------------------------------------------------------------------ serving

    def worker(
        self,
        settings: Settings | None = None,
        /,
        *,
        stats: Stats | None = None,
        degraded: Callable[[], Iterable[str]] = tuple,
        places: Places | None = None,
        logger: logging.Logger | None = None,
        locks: JobLocks | None = None,
        **changes: Any,
    ) -> Engine:
        """An engine that serves this app's jobs; start it with ``start()``, stop it with ``stop()``. ``stats`` are counters that
        are shared with other parts; ``degraded`` adds lines to its health; ``places`` bound its jobs together with
        jobs of others; ``logger`` gets its lines; ``locks`` replaces the locks in Redis that the configuration may require."""
        from windlass.engine.engine import Engine
        from windlass.engine.stats import Stats

        self.parts.check_dependencies()
        stats, version = stats or Stats(), self.config["worker.version"]
        return Engine(
            self.store,
            self.parts.registry,
            (settings or self.settings).changed(**changes),
            wrap=self.parts.wrap,
            authority=self.parts.authority,
            info={} if version is None else {"version": version},
            stats=stats,
            degraded=degraded,
            places=places,
            logger=logger,
            locks=locks or self.parts.required_locks(stats),
            operations=self.parts.run_operations,
        )

    def close(self) -> None:
        """Close what this app opened."""
        self.parts.close()
