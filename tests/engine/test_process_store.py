"""The context of a job in a child process, on real databases: it writes under the lease that its instance holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine import process_handlers as handlers
from tests.engine import process_store_handlers as store_handlers
from tests.engine.process_bench import ProcessBench
from windlass.features import Store, open_store
from windlass.handlers.registry import Phase
from windlass.model import Cancelled, Completed, Failed, Lease, NewJob, Retried, State, Verdict
from windlass.store.jobs.holder import Holder

pytestmark = pytest.mark.timing


class Site:
    """A database, an instance on it, and a bench whose children know both."""

    def __init__(self, url: str) -> None:
        self.store: Store = open_store(url)
        self.store.upkeep.maintain()
        self.holder: Holder = self.store.join(lease=timedelta(hours=1))  # nobody beats here
        self.bench = ProcessBench(open_store=self.store.options)
        with self.holder.transaction(self.claim(self.bench.define(handlers.pid))) as tx:
            tx.connection.execute("CREATE TABLE ledger (job TEXT)")
            tx.complete()

    def claim(self, phase: Phase, **arguments: Any) -> Lease:
        self.store.enqueue([NewJob(kind=phase.kind, phase=phase.name, args=arguments)])
        return self.holder.claim(phase.name, 1)[0]

    def rows(self) -> int:
        lease = self.claim(self.bench.define(handlers.pid))
        with self.holder.transaction(lease) as tx:
            count: int = tx.connection.execute("SELECT count(*) FROM ledger").fetchone()[0]
            tx.complete()
        return count

    def close(self) -> None:
        self.bench.close()
        self.store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Site]:
    """SQLite, and the newest PostgreSQL."""
    url = f"sqlite:///{sqlite_path}" if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")
    made = Site(url)
    yield made
    made.close()


def test_a_job_uses_its_context(site: Site) -> None:
    lease = site.claim(site.bench.define(store_handlers.use_context))
    outcome = site.bench.outcome(site.bench.start(store_handlers.use_context, lease=lease))
    assert isinstance(outcome, Completed)
    assert json.loads(outcome.result) == {
        "resumed": None,
        "position": {"page": 3},
        "created": [True, False],
        "output": {"rows": [1, 2]},
        "enqueued": True,
        "key": f"{lease.id}:1:use_context",
    }
    progress = site.store.resume(lease)
    assert progress is not None and (progress.done, progress.total) == (3, 10)
    assert site.holder.claim("other", 1)[0].args == {"from": lease.id}
    site.holder.record([outcome])
    assert site.store.jobs.get(lease.id).state is State.COMPLETED


@pytest.mark.parametrize(
    "handler", [store_handlers.end_in_transaction, store_handlers.end_in_async_transaction]
)
def test_a_job_may_end_in_a_transaction_of_its_own(site: Site, handler: Callable[..., Any]) -> None:
    lease = site.claim(site.bench.define(handler))
    running = site.bench.start(handler, lease=lease)
    assert site.bench.outcome(running) is None
    assert site.bench.recorded == [lease] and running.context is not None and running.context.is_recorded
    job = site.store.jobs.get(lease.id)
    assert job.state is State.COMPLETED and site.rows() == 1
    span = site.store.jobs.timeline(lease.id)[-1]
    assert span.ran is not None and span.processor == f"{lease.phase}-processor-7"
    if handler is store_handlers.end_in_transaction:
        assert job.result == {"in": "transaction"}
        assert site.store.upkeep.promote() == {"other": 1}, "enqueued with it"


def test_a_job_that_dies_after_its_transaction_has_ended_well(site: Site) -> None:
    lease = site.claim(site.bench.define(store_handlers.end_and_crash))
    assert site.bench.outcome(site.bench.start(store_handlers.end_and_crash, lease=lease)) is None
    assert site.bench.recorded == [lease]
    assert site.store.jobs.get(lease.id).result == 1


def test_a_transaction_that_raises_leaves_nothing(site: Site) -> None:
    lease = site.claim(site.bench.define(store_handlers.roll_back))
    outcome = site.bench.outcome(site.bench.start(store_handlers.roll_back, lease=lease))
    assert isinstance(outcome, Retried) and outcome.error.type == "ValueError"
    assert not site.bench.recorded and site.rows() == 0


def test_a_result_that_a_transaction_cannot_store_fails_the_job_at_once(site: Site) -> None:
    """I-17."""
    lease = site.claim(site.bench.define(store_handlers.complete_badly))
    outcome = site.bench.outcome(site.bench.start(store_handlers.complete_badly, lease=lease))
    assert isinstance(outcome, Failed) and outcome.error.code == "bad_result"
    assert outcome.error.type == "PayloadError" and not site.bench.recorded and site.rows() == 0


def test_a_transaction_moves_a_pipeline_on_as_the_instance_knows_it(site: Site) -> None:
    """The child has loaded a function; which phase follows is told by the instance."""
    first = site.bench.define(store_handlers.advance_in_transaction, kind="pipe", label="one")
    site.bench.define(handlers.pid, kind="pipe", label="two")
    lease = site.claim(first)
    assert site.bench.outcome(site.bench.start(first, lease=lease)) is None
    (moved,) = site.holder.claim("pipe:two", 1)
    assert moved.id == lease.id and [output.value for output in site.store.outputs_of(moved)] == [[1, 2]]


def test_a_job_without_its_lease_writes_nothing(site: Site) -> None:
    lease = site.claim(site.bench.define(store_handlers.end_in_transaction))
    site.holder.release(lease)
    outcome = site.bench.outcome(site.bench.start(store_handlers.end_in_transaction, lease=lease))
    assert isinstance(outcome, Retried) and outcome.error.code == "lease_lost"
    assert site.holder.record([outcome]) == [Verdict.LOST]
    assert not site.bench.recorded and site.rows() == 0


def test_a_checkpoint_that_finds_a_cancel_stops_the_job(site: Site) -> None:
    lease = site.claim(site.bench.define(store_handlers.use_context))
    site.store.jobs.cancel(lease.id, "not needed")
    running = site.bench.start(store_handlers.use_context, lease=lease)
    outcome = site.bench.outcome(running)
    assert isinstance(outcome, Cancelled) and running.stop is None
    site.holder.record([outcome])
    job = site.store.jobs.get(lease.id)
    assert job.state is State.CANCELLED and (job.error or {})["message"] == "not needed"


def test_a_crash_is_recorded_and_counted(site: Site) -> None:
    lease = site.claim(site.bench.define(handlers.crash))
    outcome = site.bench.outcome(site.bench.start(handlers.crash, lease=lease))
    assert isinstance(outcome, Retried)
    site.holder.record([outcome])
    assert site.store.jobs.get(lease.id).crashes == 1
    (attempt,) = site.store.jobs.attempts(lease.id)
    assert attempt.error is not None and attempt.error["code"] == "process_died"
    assert attempt.error["details"]["signal"] == "SIGSEGV"
    assert attempt.traceback is not None and "Segmentation fault" in attempt.traceback


def test_without_a_database_the_context_says_so() -> None:
    bench = ProcessBench()
    outcome = bench.run(store_handlers.use_context)
    bench.close()
    assert isinstance(outcome, Retried) and "database" in outcome.error.message
