"""The machinery of an app: its registry, its providers, its settings, and the database that it opens when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from windlass import forking
from windlass.app.app_settings import AppSettings, GivenUrl
from windlass.app.running_in import in_app, running_in
from windlass.arguments.asyncness import is_async
from windlass.closing import Closing
from windlass.config import CODE, Config, url_flags
from windlass.errors import ConfigError
from windlass.handlers.bound_registry import BoundRegistry
from windlass.handlers.inject import Container, is_supplied
from windlass.handlers.middleware import refuse_async
from windlass.handlers.registry import Registry
from windlass.model.principal import Expiry, Principal
from windlass.observe.logger import get_logger
from windlass.principals.authority import Authority, running_principal, running_principal_or_none
from windlass.store.opening import check_opened, opening_checks
from windlass.urls import dialect_of, shown_url

if TYPE_CHECKING:
    from windlass.app.hosting import HostingTest
    from windlass.arguments.limits import PayloadLimits
    from windlass.audit.record import AuditRecord
    from windlass.control.operation_runner import OperationRunner
    from windlass.control.sampler import Sampler
    from windlass.control.service import Control
    from windlass.engine.job_locks import JobLocks
    from windlass.engine.stats import Stats
    from windlass.features import Store
    from windlass.observe.redaction import Redaction
    from windlass.settings import Settings
    from windlass.submit.submitter import Submitter
    from windlass.transactions.submitter import TransactionSubmitter
    from windlass.waiting.waiter import Waiter

log = get_logger("windlass.app")


class AppParts(Closing):
    """What an app, its kinds and its workers are made of. ``App`` is the face; this is for Windlass's own code."""

    def __init__(
        self,
        url: str | None = None,
        *,
        config: Config | Mapping[str, Any] | None = None,
        settings: Settings | None = None,
        store: Store | None = None,
        options: Mapping[str, Any] | None = None,
        origin: AppParts | None = None,
    ) -> None:
        options = dict(options or {})
        self.own = AppSettings(url, config, settings, options)
        """The settings of this app, whatever a test uses instead."""
        self._settings = settings
        if origin is None:
            self.container = Container()
            self.container.provide(Principal, running_principal, scope="job")
            self.container.provide(Principal | None, running_principal_or_none, scope="job")
            self.authority = Authority(lambda: self.config["principal.keys"])
            self.registry = Registry(defaults=_ConfiguredDefaults(self))
        else:
            self.container = origin.container.copy()
            self.authority = Authority(lambda: self.config["principal.keys"], like=origin.authority)
            self.registry = BoundRegistry(origin.registry, _ConfiguredDefaults(self))
        self.redaction: Redaction | None = None if origin is None else origin.redaction
        """The application's own function that hides more than Windlass does, in values and in log lines."""
        self._options = options
        self._store = store
        self._owns_store = store is None
        self._submitter: Submitter | None = None
        self._transaction_submitter: TransactionSubmitter | None = None
        self.around_submitter: Callable[[AppParts, Submitter], Submitter] | None = (
            None if origin is None else origin.around_submitter
        )
        """Wraps the submitter, whichever it is; for a framework whose open transactions matter to ``enqueue``."""
        self.on_audit: Callable[[AuditRecord], None] | None = None if origin is None else origin.on_audit
        """The application's audit function: it gets each record once it is stored."""
        self._sampler: Sampler | None = None
        self._lock = threading.Lock()
        self._origin = origin
        self._instead: list[AppParts] = []
        self.test_host: Callable[[], HostingTest | None] | None = None
        """Finds the connection of a framework's running test, on which jobs are stored then."""
        self._hosted: tuple[HostingTest, AppParts] | None = None
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def bound(self, *, config: Config, store: Store, url: str | None = None) -> AppParts:
        """Parts with the same kinds and providers on another database; these stay as they are."""
        return AppParts(url, config=config, store=store, origin=self._origin or self)

    def serving(self) -> AppParts:
        """The app to enqueue through. While a job of an app that is bound to another database runs, what its handler enqueues through
        the app it was defined in is a job of that database, too. While a sandbox is active, it is the sandbox's."""
        bound = running_in.get()
        if bound is not None and bound._origin is self:
            return bound
        if self._instead or self.test_host:
            return self.stand_in() or self
        origin = self._origin
        if origin is not None and origin._instead and self not in origin._instead:
            return origin._instead[-1]  # of windlass.build
        return self

    def stand_in(self) -> AppParts | None:
        """The parts that a test uses instead of these: those of the newest sandbox, else those on the connection of a framework's test."""
        if self._instead:
            return self._instead[-1]
        host = self.test_host() if self.test_host is not None else None
        if host is None:
            return None
        if self._hosted is None or self._hosted[0] is not host:
            from windlass.submit.direct import DirectSubmitter

            parts = self.bound(config=self.own.code_config(host.url), store=host.open_store(), url=host.url)
            parts.use_submitter(DirectSubmitter(parts.store, host.call))
            self._hosted = host, parts
        return self._hosted[1]

    @property
    def home(self) -> AppParts:
        """The parts in which the kinds are defined."""
        return self._origin or self

    def use_instead(self, parts: AppParts) -> None:
        """Have everything that is submitted through these parts submitted through others, until ``use_no_longer``."""
        self._instead.append(parts)

    def use_no_longer(self, parts: AppParts) -> None:
        """End ``use_instead``."""
        self._instead.remove(parts)

    def wrap(self, handler: Callable[..., Any], wanted: Mapping[str, Any]) -> Callable[..., Any]:
        """The handler with these parameters supplied, for jobs of this app's database."""
        supplied = self.container.wrap(handler, wanted) if wanted else handler
        return supplied if self._origin is None else in_app(self, supplied)

    @property
    def config(self) -> Config:
        """Settings from the command line, code, the environment and windlass.toml; read when they are first needed, not at import."""
        if (self._instead or self.test_host) and (other := self.stand_in()) is not None:
            return other.config
        return self.own.found or self.own.config()

    def use_flags(self, flags: Mapping[str, Any]) -> None:
        """Have settings of the command line win over those of code, environment and file."""
        if flags and self._store is not None:
            raise ConfigError(
                "app",
                shown_url(str(self._store.options.get("url", "with a store"))),
                "an app that has not opened its database when it was imported; then the command line can name another one",
            )
        self.own.use_flags(flags)

    def use_database(self, options: Mapping[str, Any]) -> None:
        """In a child process: submit to the database of the instance whose jobs run here, opened with the same options, and log with the
        application's own redaction."""
        from windlass.observe import logs

        logs.redact_with(self.redaction)
        if self._store is None:
            named = {f"database.{name}": value for name, value in options.items()}
            self.use_flags({**url_flags(options["url"]), **named})

    def give_url(self, url: GivenUrl, origin: str = CODE) -> None:
        """Say where the jobs are: a framework's own settings may say it. ``origin`` names them."""
        self.own.give_url(url, origin)

    @property
    def settings(self) -> Settings:
        """How instances of this app run."""
        return self._settings or self.config.settings

    @property
    def url(self) -> str:
        """The database: the URL of the command line, else of code, else of the environment or windlass.toml, else a SQLite file in the
        current folder."""
        if (self._instead or self.test_host) and (other := self.stand_in()) is not None:
            return other.url
        return self.own.url

    @property
    def store(self) -> Store:
        """The database, opened when it is first needed."""
        if (self._instead or self.test_host) and (other := self.stand_in()) is not None:
            return other.store
        with self._lock:
            if self._store is None:
                from windlass.features import open_store

                url = self.url
                self._store = open_store(url, **self.own.store_options(url))
            elif opening_checks:
                self._check_opened(self._store)
            return self._store

    def _check_opened(self, store: Store) -> None:
        """Ask the test kit again: this app may have opened its database before a sandbox was made. An app of ``windlass.build`` whose kinds
        the sandbox has may still read its own."""
        if not (self._origin is not None and self._origin._instead):
            check_opened(store.options)

    @property
    def submitter(self) -> Submitter:
        """Submits jobs to the database."""
        ready = self._submitter
        if ready is None:
            from windlass.submit.submitter import Submitter

            store = self.store
            with self._lock:
                if self._submitter is None:
                    self._submitter = Submitter(store)
                ready = self._submitter
        elif opening_checks:
            self._check_opened(ready.store)
        return ready if self.around_submitter is None else self.around_submitter(self, ready)

    @property
    def transaction_submitter(self) -> TransactionSubmitter:
        """Submits in transactions of callers; the store is not opened for that."""
        with self._lock:
            if self._transaction_submitter is None:
                from windlass.transactions.submitter import TransactionSubmitter

                store = self._store
                dialect = dialect_of(self.url) if store is None else store.db.dialect
                clock = self._options.get("clock") if store is None else store.db.clock
                self._transaction_submitter = TransactionSubmitter(dialect, clock)
            return self._transaction_submitter

    @property
    def waiter(self) -> Waiter:
        """What waits for ends of jobs in this process."""
        return self.submitter.waiter

    @property
    def sampler(self) -> Sampler:
        """What reads for all watchers of this app."""
        if (self._instead or self.test_host) and (other := self.stand_in()) is not None:
            return other.sampler
        from windlass.control.sampler import Sampler

        store = self.store
        with self._lock:
            if self._sampler is None:
                self._sampler = Sampler(store)
            return self._sampler

    @cached_property
    def control(self) -> Control:
        """The control service, for the application itself; loaded when it is first used."""
        from windlass.control.service import Control

        return Control(self)

    def run_operations(self, holder: str) -> float | None:
        """Do a page of the operation that waited longest (``OperationRunner.run_next``)."""
        return self._operation_runner.run_next(holder)

    @cached_property
    def _operation_runner(self) -> OperationRunner:
        """One for all pages: it remembers the operations that are left to other processes."""
        from windlass.control.operation_runner import OperationRunner

        return OperationRunner(self)

    def use_submitter(
        self, submitter: Submitter, in_transactions: TransactionSubmitter | None = None
    ) -> None:
        """Submit through another submitter from now on, and in transactions of callers through ``in_transactions``. For tests."""
        self._submitter = submitter
        self._transaction_submitter = in_transactions or self._transaction_submitter

    def is_injected(self, annotation: Any) -> bool:
        """Whether a parameter is supplied when the job runs, and not stored with it."""
        from windlass.handlers.context import Context

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
            if not is_async(phase.handler):
                problems += refuse_async(self.registry.middleware, phase.name)
            if phase.principal_expiry is Expiry.RECHECK and self.authority.recheck is None:
                problems.append(f"{phase.name}, principal_expiry: no check; app.recheck_principal(hook)")
        if problems:
            names = ", ".join(dict.fromkeys(problem.partition(", ")[0] for problem in problems))
            raise ConfigError("handlers", names, because="; ".join(problems))

    def required_locks(self, stats: Stats) -> JobLocks | None:
        """The locks without which a worker runs no job, if the configuration requires locks; a missing driver is refused at once."""
        settings = self.config.locks
        if not settings.required:
            return None

        from windlass.engine.job_locks import JobLocks
        from windlass.locks import open_locks

        open_for = partial(open_locks, settings, count=stats.count)
        open_for().close()  # sends nothing
        return JobLocks(lambda instance: open_for(worker=instance), is_own=True)

    def redacted(self, value: Any) -> Any:
        """A JSON value with secrets hidden, by the built-in rules and the application's own."""
        from windlass.observe.structures import redact

        return redact(value, own=self.redaction)

    def audited(self, record: AuditRecord) -> None:
        """Hand a stored record to the application's audit function. The act is done: an error of the function is logged and changes nothing."""
        if self.on_audit is None:
            return
        try:
            self.on_audit(record)
        except Exception:
            log.exception("the audit function failed for %s of %s %s", record.act, record.target, record.name)

    def close(self) -> None:
        """Close what this app opened."""
        with self._lock:
            if self._sampler is not None:
                self._sampler.close()
                self._sampler = None
            if self._submitter is not None:
                self._submitter.close()
                self._submitter = None
            if self._store is not None and self._owns_store:
                self._store.close()
                self._store = None
        self.container.close()


class _ConfiguredRetry:
    """The retry policy of kinds that have none of their own: read from the configuration when it is needed."""

    def __init__(self, app: AppParts) -> None:
        self._app = app

    @property
    def attempts(self) -> int:
        return self._app.config.retry.attempts

    def delay(self, attempt: int, error: BaseException | None = None) -> timedelta | None:
        return self._app.config.retry.delay(attempt, error)


class _ConfiguredDefaults:
    """The defaults of phases that leave options out: read from the configuration when they are needed."""

    def __init__(self, app: AppParts) -> None:
        self._app = app
        self.retry = _ConfiguredRetry(app)

    @property
    def timeout(self) -> float | None:
        milliseconds: float | None = self._app.config["background.timeout_ms"]
        return None if milliseconds is None else milliseconds / 1000

    @property
    def total_timeout(self) -> float | None:
        milliseconds: float | None = self._app.config["background.total_timeout_ms"]
        return None if milliseconds is None else milliseconds / 1000

    @property
    def processors(self) -> int:
        return int(self._app.config["background.processors"])

    def payload(self) -> PayloadLimits:
        return self._app.config.payload
