"""The core of the store: the life of jobs in one database. ``windlass.features`` adds keys, dependencies, rules and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Self

from windlass.closing import Closing
from windlass.errors import ConfigError, did_you_mean
from windlass.model import Enqueued, Lease, NewJob, Output, Progress
from windlass.store.database import Database, Listener
from windlass.store.jobs.ends import Ends
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.failures import FailureReader
from windlass.store.jobs.held_job import LEASE, HeldJob
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.instances import Instances
from windlass.store.jobs.outputs import Outputs
from windlass.store.jobs.phases import Phases
from windlass.store.jobs.queries import Jobs
from windlass.store.jobs.recovery import Recovery
from windlass.store.jobs.rollups import Rollups
from windlass.store.jobs.search import JobSearch
from windlass.store.jobs.upkeep import Upkeep
from windlass.store.opening import OPTIONS
from windlass.urls import dialect_of


class CoreStore(Closing):
    """The store without features; ``windlass.features.Store`` is the whole. Safe to share between threads; close it when done."""

    def __init__(self, db: Database, options: Mapping[str, Any] | None = None) -> None:
        self.db = db
        self.is_closed = False
        self.options: Mapping[str, Any] = dict(options or {})
        """How to open this store again in another process: its URL, and what else can be written as JSON."""
        self.enqueuer = Enqueuer(db)
        self.enqueue_checked = self.enqueuer.enqueue_checked
        self.enqueue_alike = self.enqueuer.enqueue_alike
        self.jobs = Jobs(db, self.enqueuer)
        self.search = JobSearch(db)
        self.ends = Ends(db)
        self.outputs = Outputs(db)
        self.phases = Phases(db)
        self.instances = Instances(db)
        self.recovery = Recovery(db, self.enqueuer)
        self.upkeep = Upkeep(db)
        self.rollups = Rollups(db)
        self.failures = FailureReader(db)

    @classmethod
    def open(cls, url: str, **options: Any) -> Self:
        """Open the database a URL names."""
        dialect = dialect_of(url)
        for name in options.keys() - OPTIONS[dialect]:
            known = sorted(OPTIONS[dialect])
            near = did_you_mean(name, known)
            raise ConfigError("option", name, f"one of those of this database, {', '.join(known)}{near}")
        again = {"url": url, **{key: value for key, value in options.items() if key != "clock"}}
        if dialect == "sqlite":
            from windlass.store.sqlite.database import SqliteDatabase

            return cls(SqliteDatabase(url, **options), again)
        from windlass.store.postgres.database import PostgresDatabase

        return cls(PostgresDatabase(url, **options), again)

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs durably, all or none; returns in the order given."""
        return self.enqueuer.enqueue(jobs)

    def join(self, *, lease: timedelta = LEASE, info: Mapping[str, Any] | None = None) -> Holder:
        """Register as an instance that may claim jobs."""
        return Holder(self.db, self.enqueuer, lease=lease, info=info)

    def writes(self, lease: timedelta = LEASE) -> HeldJob:
        """Write held jobs without being an instance, as a child process does that runs one for its parent: with the parent's
        leases, of the parent's length."""
        return HeldJob(self.db, self.enqueuer, lease)

    def resume(self, lease: Lease) -> Progress | None:
        """The saved position of a held job, or None if it starts at the beginning."""
        return self.jobs.progress(lease.id)

    def outputs_of(self, lease: Lease) -> list[Output]:
        """The outputs of a held job's phases so far, in the order they were stored."""
        return self.outputs.of(lease.id)

    def listen(self) -> Listener:
        """Open a listener for hints about new work."""
        return self.db.listen()

    def wait(self, phases: Sequence[str], seconds: float) -> None:
        """Register as waiting for these phases for so many seconds, so that enqueues notify."""
        self.db.wait(phases, seconds)

    def now(self) -> datetime:
        """The database's clock."""
        return self.db.now()

    def close(self) -> None:
        self.is_closed = True
        self.db.close()
