"""App: where kinds of work are defined, submitted and served.

app = windlass.App("sqlite:///jobs.db")

@app.job(retry=windlass.exponential(attempts=5), timeout=60)
async def welcome(user_id: int) -> str: ...

welcome.enqueue(user_id=7)        # from anywhere
app.worker().start()              # or: windlass worker app:app
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from windlass import forking
from windlass.app.decorators import Decorators
from windlass.arguments.asyncness import is_async
from windlass.closing import Closing
from windlass.config import Config, load
from windlass.engine.engine import Engine
from windlass.engine.places import Places
from windlass.engine.stats import Stats
from windlass.errors import ConfigError, did_you_mean
from windlass.features import Store, open_store
from windlass.handlers.context import Context
from windlass.handlers.definitions import Synced, sync
from windlass.handlers.inject import Container, is_supplied
from windlass.handlers.registry import Registry
from windlass.model import Enqueued
from windlass.model.principal import Expiry, Principal
from windlass.principals.authority import Authority, Recheck, running_principal, running_principal_or_none
from windlass.settings import Settings
from windlass.store.store import OPTIONS
from windlass.submit.call import new_job
from windlass.submit.submitter import Submitter
from windlass.transactions.submitter import TransactionSubmitter
from windlass.urls import dialect_of


class App(Decorators, Closing):
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
        _check_options(options)
        self._url = url
        self._given = config
        self._settings = settings
        self._config: Config | None = config if isinstance(config, Config) else None
        self.container = Container()
        self.container.provide(Principal, running_principal, scope="job")
        self.container.provide(Principal | None, running_principal_or_none, scope="job")
        self.authority = Authority(lambda: self.config["principal.keys"])
        self.registry = Registry(defaults=_ConfiguredDefaults(self))
        self._options = options
        self._store = store
        self._owns_store = store is None
        self._submitter: Submitter | None = None
        self._transaction_submitter: TransactionSubmitter | None = None
        self._lock = threading.Lock()
        self._origin: App | None = None
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def bound(self, *, config: Config, store: Store) -> App:
        """An app with the same kinds and providers on another database; this one stays as it is."""
        other = App(config=config, store=store)
        other.registry = self.registry
        other.container = self.container.copy()
        other.authority = Authority(lambda: other.config["principal.keys"], like=self.authority)
        other._origin = self._origin or self
        return other

    def serving(self) -> App:
        """The app to enqueue through. While a job of an app that is bound to another database runs, what its handler enqueues through
        the app it was defined in is a job of that database, too."""
        bound = _running_in.get()
        return bound if bound is not None and bound._origin is self else self

    def wrap(self, handler: Callable[..., Any], wanted: Mapping[str, Any]) -> Callable[..., Any]:
        """The handler with these parameters supplied, for jobs of this app's database."""
        supplied = self.container.wrap(handler, wanted) if wanted else handler
        return supplied if self._origin is None else _in_app(self, supplied)

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

    def sync(self) -> Synced:
        """Put this app's schedules and rules into its database, as a worker does when it starts, and flag existing jobs for new
        rules."""
        synced = sync(self.store, self.registry)
        self.store.rules.catch_up()
        return synced

    # ------------------------------------------------------------------ principals

    def as_principal(
        self, principal: Principal, *, token: str | None = None
    ) -> AbstractContextManager[Principal]:
        """``with app.as_principal(user):`` every job that this thread or task enqueues in the block is asked for by ``principal``.

        A web layer does it once per request. ``token`` is the raw token it came with; it is kept, encrypted, only with jobs that are
        enqueued with ``keep_token=True``.
        """
        return self.authority.as_principal(principal, token)

    def recheck_principal(self, hook: Recheck) -> Recheck:
        """Say how a principal is checked again before a job runs: a sync or async function that takes the principal (and the
        context, if it has a second parameter) and returns it, perhaps with fewer rights, or raises.

        It is called at every attempt of every phase of kinds with ``principal_expiry="recheck"``. What it raises ends the job, without
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
                options = dict(self._options)
                if (migrating := self.config["database.auto_migrate"]) is not None:
                    options.setdefault("auto_migrate", migrating)
                if dialect_of(self.url) == "postgres":
                    options.setdefault("connect_timeout", self.config["database.connect_timeout"])
                self._store = open_store(self.url, **options)
            return self._store

    @property
    def submitter(self) -> Submitter:
        if (
            ready := self._submitter
        ) is not None:  # a sandbox may have put in its own: then the store is not opened
            return ready
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
            raise self.unknown_kind(kind)
        home = self.serving()
        return home.submitter.submit(new_job(found.first, (), arguments, {}, home.authority))

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
        **changes: Any,
    ) -> Engine:
        """An engine that serves this app's jobs; start it with ``start()``, stop it with ``stop()``. ``stats`` are counters that
        are shared with other parts; ``degraded`` adds lines to its health; ``places`` bound its jobs together with those of
        others; ``logger`` gets its lines."""
        self.check_dependencies()
        return Engine(
            self.store,
            self.registry,
            (settings or self.settings).changed(**changes),
            wrap=self.wrap,
            authority=self.authority,
            stats=stats,
            degraded=degraded,
            places=places,
            logger=logger,
        )

    def is_injected(self, annotation: Any) -> bool:
        """Whether a parameter is supplied when the job runs, and not stored with it."""
        return annotation is Context or self.container.knows(annotation) or is_supplied(annotation)

    def check_dependencies(self) -> None:
        """Refuse to serve handlers that need a type that is not provided; all of them are named at once."""
        problems = []
        for phase in self.registry.phases.values():
            wanted = phase.supplied
            problems += [
                f"{phase.name}, {text}"
                for text in self.container.missing(wanted, for_async=is_async(phase.handler))
            ]
            if phase.principal_expiry is Expiry.RECHECK and self.authority.recheck is None:
                problems.append(f"{phase.name}, principal_expiry: no check; app.recheck_principal(hook)")
        if problems:
            raise ConfigError("dependencies", f"{len(problems)} missing", because="; ".join(problems))

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


def _check_options(options: Iterable[str]) -> None:
    """Refuse what no database takes. Which one it is may not be known yet; opening it asks again."""
    known = sorted({"config", "settings", "store"}.union(*OPTIONS.values()))
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError("option of App", name, f"one of {', '.join(known)}{near}")


_running_in: ContextVar[App | None] = ContextVar("windlass_running_in", default=None)
"""The bound app whose job this thread or task runs."""


def _in_app(app: App, handler: Callable[..., Any]) -> Callable[..., Any]:
    if is_async(handler):

        @functools.wraps(handler)
        async def served_async(**arguments: Any) -> Any:
            was = _running_in.set(app)
            try:
                return await handler(**arguments)
            finally:
                _running_in.reset(was)

        return served_async

    @functools.wraps(handler)
    def served(**arguments: Any) -> Any:
        was = _running_in.set(app)
        try:
            return handler(**arguments)
        finally:
            _running_in.reset(was)

    return served


class _ConfiguredRetry:
    """The retry policy of kinds that have none of their own: read from the configuration when it is needed."""

    def __init__(self, app: App) -> None:
        self._app = app

    @property
    def attempts(self) -> int:
        return self._app.config.retry.attempts

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta:
        return self._app.config.retry.delay(attempt, error)


class _ConfiguredDefaults:
    """The defaults of phases that leave options out: read from the configuration when they are needed."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.retry = _ConfiguredRetry(app)

    @property
    def timeout(self) -> float | None:
        milliseconds: float | None = self._app.config["background.timeout_ms"]
        return None if milliseconds is None else milliseconds / 1000

    @property
    def processors(self) -> int:
        return int(self._app.config["background.processors"])
