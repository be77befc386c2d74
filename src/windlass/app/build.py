"""The composition root: a configuration and any shared clients in, the running parts out. Nothing is global.

    bg = windlass.build({"database.url": "postgresql://…"}, app=app, redis=client)
    bg.process_request(job_id, correlation_id="…")       # one job, now, here
    bg.worker().start()                                  # or a worker, beside the application

Every part can be given instead of made: the store, the locks or the Redis client they use, the clock, the semaphore that bounds concurrent
calls of workers and requests, the logger that gets Windlass's lines, the HTTP client that handlers are supplied with. Two of these in one process do not see each other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from windlass.app.app import App
from windlass.clock import Clock
from windlass.closing import Closing
from windlass.config import Config, load
from windlass.engine.engine import Engine
from windlass.engine.job_locks import Guard, JobLocks
from windlass.engine.one_job import OneJobRunner, Processed
from windlass.features import Store, open_store
from windlass.locks import open_locks
from windlass.observe import health
from windlass.observe.logger import use
from windlass.observe.metrics import Metrics
from windlass.observe.report import EngineReport
from windlass.settings import Settings
from windlass.submit.handle import JobHandle
from windlass.urls import dialect_of


class Background(Closing):
    """The parts of one application, wired together; close it when done. What was given from outside stays open."""

    def __init__(
        self, *, config: Config, app: App, store: Store, locks: Guard, requests: OneJobRunner, logger: logging.Logger,
        settings: Settings, owned: list[Callable[[], None]], given: logging.Logger | None = None,
    ) -> None:  # fmt: skip
        self.config = config
        self.app = app
        self.store = store
        self.locks = locks
        self.requests = requests
        self.logger = logger
        self.settings = settings
        self._owned = owned
        self._given = given

    def enqueue(self, kind: str, /, **arguments: Any) -> JobHandle[Any]:
        """Submit a job by the name of its kind."""
        with use(self._given):
            return self.app.enqueue(kind, **arguments)

    def process_request(self, request_id: str, correlation_id: str | None = None) -> Processed:
        """Run one job now, in this process, under the same claim, lock, retry and error rules as a worker."""
        return self.requests.process(request_id, correlation_id)

    def worker(self, **changes: Any) -> Engine:
        """An engine on these parts. It counts in the counters of this object, its health says how the locks are, and where they are required it
        runs no job without one."""
        return self.app.worker(
            self.settings,
            stats=self.requests.stats,
            degraded=partial(_troubles, self.locks),
            places=self.requests.places,
            logger=self._given,
            locks=JobLocks(lambda _: self.locks) if self.config.locks.required else None,
            **changes,
        )

    def report(self) -> EngineReport:
        """The report of this process as an instance (``process_request``); a worker has its own report."""
        return self.requests.report()

    def health(self) -> dict[str, Any]:
        """The health report, as a worker's /healthz returns it."""
        return health.detailed(self.report())

    def metrics(self) -> bytes:
        """All metrics as text for Prometheus, for a process without a worker's own address."""
        phases = self.store.phases
        return Metrics(
            self.requests.stats.report, self.report, counts=phases.counts, oldest=phases.oldest
        ).render()

    def close(self) -> None:
        """Close what was made here, last made first."""
        while self._owned:
            self._owned.pop()()


def build(
    config: Config | Mapping[str, Any] | None = None,
    *,
    app: App | None = None,
    store: Store | None = None,
    redis: Any = None,
    locks: Guard | None = None,
    clock: Clock | None = None,
    semaphore: Callable[[int], Any] = threading.BoundedSemaphore,
    sleep: Callable[[float], None] = time.sleep,
    logger: logging.Logger | None = None,
    http: Any = None,
) -> Background:
    """Wire an application's background parts. ``app`` brings the kinds, and what its code sets counts where ``config`` says nothing:
    ``config``, then the code of ``app``, then the environment and windlass.toml."""
    parts = (app or App()).parts
    config = (config if isinstance(config, Config) else load(config)).under(parts.own.code_with_url)
    settings = config.settings
    owned: list[Callable[[], None]] = []
    try:
        if store is None:
            options = config.store_options(dialect_of(config.url))
            store = open_store(config.url, **options, **({"clock": clock} if clock is not None else {}))
            owned.append(store.close)
        app = App.of(parts.bound(config=config, store=store))
        owned.append(app.close)
        if http is not None:
            app.provide(type(http), value=http)
        if locks is None:
            opened = open_locks(
                config.locks,
                client=redis,
                clock=clock,
                count=lambda name: requests.stats.count(name),
                about=lambda request_id: requests.about(request_id),
            )
            owned.append(opened.close)
            locks = opened
        requests = OneJobRunner(
            store,
            app.parts.registry,
            settings=settings,
            locks=locks,
            wrap=app.parts.wrap,
            authority=app.parts.authority,
            semaphore=semaphore,
            sleep=sleep,
            degraded=partial(_troubles, locks),
            logger=logger,
        )
        owned.append(requests.close)
    except BaseException:
        for close in reversed(owned):
            close()
        raise
    return Background(
        config=config,
        app=app,
        store=store,
        locks=locks,
        requests=requests,
        logger=logger or logging.getLogger("windlass"),
        settings=settings,
        owned=owned,
        given=logger,
    )


def _troubles(locks: Guard) -> tuple[str, ...]:
    """The troubles that the locks report; locks of the application's own need not report any."""
    state = getattr(locks, "state", None)
    return state().degraded if state is not None else ()
