"""One app on a real database, its engines, and short ways to wait for what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.waiting import PATIENCE, eventually
from windlass.app.app import App
from windlass.engine.drain import Drain
from windlass.engine.engine import Engine
from windlass.model import Job
from windlass.settings import Settings

QUICK = Settings(
    lease=20.0,
    heartbeat=0.5,
    margin=0.5,
    recovery=0.3,
    scan=30.0,
    scan_unheard=0.2,
    cancel_grace=0.4,
    grace=5.0,
)


class Shop:
    """Closes its engines with itself."""

    def __init__(self, url: str, **options: Any) -> None:
        self.app = self._opener = App(url, settings=QUICK, **options)
        self.store = self.app.store
        self._engines: list[Engine] = []

    def serve(self, **changes: Any) -> Engine:
        return self.serve_app(self.app, **changes)

    def serve_app(self, app: App, **changes: Any) -> Engine:
        """Serve another app's jobs from the same database."""
        engine = app.worker(**changes)
        engine.start()
        self._engines.append(engine)
        return engine

    def drained(self, engine: Engine, timeout: float = PATIENCE) -> None:
        assert Drain(engine, self.store).wait(timeout), self.store.phases.counts()

    def job(self, job: Any) -> Job:
        return self.store.jobs.get(getattr(job, "id", job))

    def until(self, holds: Callable[[], Any], timeout: float = PATIENCE) -> Any:
        return eventually(holds, self.store.phases.counts, timeout)

    def run(self, sql: str) -> list[Any]:
        """One statement of the test's own on the same database."""
        if self.store.db.dialect == "sqlite":
            import sqlite3
            from contextlib import closing

            with (
                closing(
                    sqlite3.connect(self.app.url.removeprefix("sqlite:///"), timeout=PATIENCE)
                ) as connection,
                connection,
            ):
                return connection.execute(sql).fetchall()
        import psycopg

        with psycopg.connect(self.app.url, autocommit=True) as session:
            cursor = session.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        for engine in self._engines:
            engine.stop(grace=0)
        self.app.close()
        self._opener.close()  # which a test may have exchanged for another app on the same store
