"""The place an experiment is made in: a database, a folder for ledger and logs, and the workers that were started."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from chaos.ledger import CREATE_EFFECTS, FOLDER, Ledger
from chaos.workers import Worker
from windlass.closing import Closing
from windlass.errors import StoreUnreachableError
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.model import NewJob
from windlass.store.ids import new_id
from windlass.urls import dialect_of

T = TypeVar("T")
PER_CALL = 500


class StuckError(Exception):
    """What was waited for did not happen."""


class Bed(Closing):
    """Ends its workers with itself. ``server`` is there where an experiment may stop the database."""

    def __init__(
        self, url: str, folder: Path, *, server: PostgresServer | None = None, seed: int | None = None
    ) -> None:
        self.url = url
        self.folder = folder
        self.server = server
        self.dialect = dialect_of(url)
        self.seed = random.randrange(10**6) if seed is None else seed
        self.random = random.Random(self.seed)
        self.ledger = Ledger(folder)
        self.workers: list[Worker] = []
        self._local = threading.local()
        self._connections: list[Any] = []
        self.store = open_store(url)
        self.store.upkeep.maintain()
        self.query(CREATE_EFFECTS)

    # ------------------------------------------------------------------ workers

    def worker(self, *, url: str | None = None, serving: bool = True, **options: Any) -> Worker:
        """Start a worker; with ``serving`` wait until it serves."""
        environment = {"WINDLASS_DATABASE_URL": url or self.url, FOLDER: str(self.folder)}
        made = Worker(len(self.workers) + 1, self.folder, environment, **options)
        self.workers.append(made)
        if serving:
            self._await(made)
        return made

    def children(self, count: int, **options: Any) -> list[Worker]:
        """Start several workers at once and wait until all of them serve."""
        made = [self.worker(serving=False, **options) for _ in range(count)]
        for worker in made:
            self._await(worker)
        return made

    def _await(self, worker: Worker) -> None:
        self.until(lambda: worker.is_serving or worker.code is not None, 60, f"{worker} serves")
        if worker.code is not None:
            raise StuckError(f"{worker} ended with {worker.code}; see {worker.path}")

    def events(self, *names: str) -> list[dict[str, Any]]:
        """Records of all workers, those that ended included."""
        return [line for worker in self.workers for line in worker.log.events(*names)]

    # ------------------------------------------------------------------ jobs

    def enqueue(
        self, kind: str, arguments: Iterable[Mapping[str, Any]], *, patience: float = 60.0, **options: Any
    ) -> list[str]:
        """Enqueue jobs and note those that were accepted. Repeated with the same ids while the database does not answer."""
        options = {"max_attempts": 50, **options}
        jobs = [NewJob(kind=kind, args=args, id=new_id(), **options) for args in arguments]
        for start in range(0, len(jobs), PER_CALL):
            self._enqueue(jobs[start : start + PER_CALL], time.monotonic() + patience)
        return [str(job.id) for job in jobs]

    def _enqueue(self, jobs: Sequence[NewJob], deadline: float) -> None:
        while True:
            try:
                self.store.enqueue(jobs)
            except StoreUnreachableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
                continue
            self.ledger.acknowledge(str(job.id) for job in jobs)
            return

    def keep_busy(self, worker: Worker, refill: Callable[[], None], enough: int = 3) -> None:
        """Wait until a worker has jobs in its hands. On a fast machine others may be done with all there are: then more are enqueued."""

        def has_jobs() -> bool:
            if len(self.held_by(worker.instances)) >= enough:
                return True
            if not self.query(f"SELECT 1 FROM {self.table('job')} WHERE token IS NULL LIMIT 1"):
                refill()
            return False

        self.until(has_jobs, 60, f"{worker} has jobs")

    def left(self) -> int:
        """Jobs that have not ended."""
        return int(self.query(f"SELECT count(*) FROM {self.table('job')}")[0][0]) + int(
            self.query(f"SELECT count(*) FROM {self.table('job_later')}")[0][0]
        )

    def drained(self, quiet: float = 60.0) -> bool:
        """Wait until every job has ended, as long as their number still falls; False where it stopped falling."""
        least, since = self.left(), time.monotonic()
        while least and time.monotonic() - since < quiet:
            time.sleep(0.1)
            if (left := self.left()) < least:
                least, since = left, time.monotonic()
        return not least

    # ------------------------------------------------------------------ looking

    def table(self, name: str) -> str:
        """A table of Windlass by its bare name."""
        return f"windlass.{name}" if self.dialect == "postgres" else f"windlass_{name}"

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """One statement on a connection of our own; placeholders are ``?``."""
        if self.dialect == "sqlite":
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=60)) as file, file:
                return file.execute(sql, parameters).fetchall()
        import psycopg

        for is_last in (False, True):
            connection: psycopg.Connection | None = getattr(self._local, "connection", None)
            if connection is None or connection.closed:
                connection = psycopg.connect(self.url, autocommit=True, connect_timeout=10)
                connection.execute("SET datestyle = ISO")  # the driver reads no other times
                self._local.connection = connection
                self._connections.append(connection)
            try:
                cursor = connection.execute(sql.replace("?", "%s"), parameters)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                connection.close()  # an experiment ended it, perhaps
                if is_last:
                    raise
        raise AssertionError("unreachable")

    def held_by(self, instances: Sequence[str]) -> list[str]:
        """The jobs that these instances hold, as the database sees it."""
        if not instances:
            return []
        marks = ", ".join("?" for _ in instances)
        return [
            row[0]
            for row in self.query(
                f"SELECT CAST(j.id AS text) FROM {self.table('job')} AS j JOIN {self.table('claim')} AS c "
                f"ON c.token = j.token WHERE CAST(c.instance AS text) IN ({marks})",
                list(instances),
            )
        ]

    def until(self, holds: Callable[[], T | None], timeout: float, what: str, every: float = 0.02) -> T:
        """Wait for something; its answer."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if answer := holds():
                return answer
            time.sleep(every)
        raise StuckError(f"did not happen within {timeout:g} s: {what}")

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        for connection in self._connections:
            connection.close()
        self.store.close()
        self.ledger.close()


def scratch() -> Path:
    """A folder of our own that a server's account may not need to read."""
    return Path(tempfile.mkdtemp(prefix="chaos-"))


def discard(folder: Path) -> None:
    """Remove a folder that ``scratch`` made."""
    if folder.name.startswith("chaos-") and os.access(folder, os.W_OK):
        shutil.rmtree(folder, ignore_errors=True)
