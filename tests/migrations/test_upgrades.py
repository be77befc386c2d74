"""A database of every earlier schema version, with live jobs of every state, is upgraded; then all is as it was, and everything runs
to its end exactly once."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from tests.conformance.life import assert_counts_are_true
from tests.engine.shop import Shop
from tests.migrations.filling import (
    AUDITED,
    ENDED_OPERATION,
    IDS,
    INSTANCE,
    OPEN_OPERATION,
    REQUEST,
    TOKEN,
    counts,
    rows,
    statements,
)
from windlass import Context
from windlass.arguments.encoding import body_hash
from windlass.features import Store
from windlass.idempotency.store import RequestKey
from windlass.model import Debounce, Flow, Job, Key, KeyScope, NewJob, State
from windlass.store.migrate import migrate, status
from windlass.store.postgres.migrate import migrate_postgres
from windlass.store.schema.migrations import available
from windlass.store.sqlite.migrate import migrate_sqlite

pytestmark = pytest.mark.timing

VERSIONS = [step.version for step in available("sqlite")]
"""The newest, too: its rows are right before there is a version after it."""
DIALECTS = ("sqlite", "postgres")


@pytest.fixture(params=[(dialect, version) for dialect in DIALECTS for version in VERSIONS], ids=str)
def version(request: pytest.FixtureRequest) -> int:
    """The version of the database that ``url`` leads to."""
    return int(request.param[1])


@pytest.fixture
def url(request: pytest.FixtureRequest, version: int, tmp_path: Path) -> str:
    """A database of an earlier version with jobs in it."""
    dialect = request.node.callspec.params["version"][0]
    steps = tuple(step for step in available(dialect) if step.version <= version)
    texts = statements(dialect, list(rows(version, body_hash)))
    if dialect == "sqlite":
        migrate_sqlite(f"sqlite:///{tmp_path}/old.db", migrations=steps)
        with sqlite3.connect(tmp_path / "old.db") as connection:
            for text in texts:
                connection.execute(text)
        connection.close()
        return f"sqlite:///{tmp_path}/old.db"
    dsn: str = request.getfixturevalue("postgres_empty_dsn")
    migrate_postgres(dsn, migrations=steps)
    with psycopg.connect(dsn) as session:
        for text in texts:
            session.execute(text.encode())
        session.execute("SELECT setval('windlass.token', 1000)")
    return dsn


@pytest.fixture
def shop(url: str, version: int) -> Iterator[Shop]:
    assert bool(status(url).pending) is (version < VERSIONS[-1])
    migrate(url)
    shop = Shop(url)
    yield shop
    shop.close()


def _serve(shop: Shop) -> tuple[Counter[str], list[tuple[str, int]], dict[str, str]]:
    """Handlers of every kind, which say how often each job ran, at which chunks, and for whom."""
    ran: Counter[str] = Counter()
    chunks: list[tuple[str, int]] = []
    asked: dict[str, str] = {}

    def plain(ctx: Context) -> None:
        ran[ctx.job_id] += 1

    def numbered(ctx: Context, n: int = 0) -> None:
        ran[ctx.job_id] += 1

    for kind in ("still", "ticked"):
        shop.app.job(name=kind)(plain)
    for kind in ("work", "mother", "right", "child"):
        shop.app.job(name=kind)(numbered)
    shop.app.job(name="tight", limit=1)(plain)

    @shop.app.job(name="asked")
    def for_somebody(ctx: Context) -> None:
        ran[ctx.job_id] += 1
        assert ctx.principal is not None
        asked[ctx.job_id] = ctx.principal.subject

    @shop.app.job(name="chunked")
    def in_chunks(ctx: Context) -> None:
        ran[ctx.job_id] += 1
        for chunk in ctx.chunks(total=10, size=5):
            with chunk:
                chunks.append((ctx.job_id, chunk.offset))

    pipe = shop.app.pipeline("pipe")

    @pipe.phase("a")
    def first(ctx: Context) -> None:
        raise AssertionError("its output was there")

    @pipe.phase("b")
    def second(ctx: Context) -> None:
        ran[ctx.job_id] += 1
        assert ctx.output("a") == "from a"

    return ran, chunks, asked


def test_every_state_key_and_count_is_as_it_was(shop: Shop, version: int) -> None:
    store, filled = shop.store, list(rows(version, body_hash))
    assert store.phases.counts() == counts(filled)
    assert_counts_are_true(store)
    jobs = _jobs(shop, version)
    by_reason = {
        name: job.reason for name, job in jobs.items() if job.reason is not None and name != "stopped"
    }
    assert by_reason.items() <= {
        "due": "scheduled", "far": "scheduled", "retrying": "retry", "inbox": "inbox", "waiting": "waiting", "unlinked": "unlinked",
        "held up": "waiting", "at the gate": "limited", "parked": "limited", "debounced": "scheduled",
    }.items()  # fmt: skip
    assert len(by_reason) == (10 if version >= 6 else 7)
    held = {name for name, job in jobs.items() if job.state is State.PROCESSING}
    assert held == {"started", "prefetched", "chunked", "stored", "asked to stop"}
    assert jobs["completed"].result == {"answer": 42} and jobs["urgent"].correlation_id == "c-7"
    failed = jobs["failed"]
    assert failed.error is not None and failed.error["code"] == "boom" and failed.traceback == "Traceback …"
    for name in ("failed", "chunked"):
        progress = jobs[name].progress
        assert progress is not None and (progress.done, progress.total) == (5, 10)
    assert [(item.name, item.value) for item in failed.outputs] == [("part", 1)]
    assert [(item.phase, item.value) for item in jobs["stored"].outputs] == [("pipe:a", "from a")]
    assert [item.outcome for item in store.jobs.attempts(IDS["retrying"])] == ["retried"]
    assert [(item.phase, item.reason) for item in store.phases.paused()] == [("still", "no line")]
    for key, scope, name in (("k", KeyScope.LIVE, "keyed"), ("i", KeyScope.IDEMPOTENT, "idempotent")):
        answer = store.enqueue([NewJob(kind="work", args={"n": 1}, key=Key(key, scope))])[0]
        assert not answer.created and answer.id == IDS[name]
    if version >= 4:
        names = ["nightly", *(["often"] if version >= 13 else [])]
        assert [item.name for item in store.schedules.list()] == names
        assert store.schedules.get("nightly").every is None
    if version >= 5:
        names = ["both", "one", *(["sorry"] if version >= 15 else [])]
        assert [item.rule.name for item in store.rules.list()] == names
    if version >= 15:
        events = {item.rule.name: item.rule.event for item in store.rules.list()}
        assert events == {"both": "success", "one": "success", "sorry": "failure"}
    if version >= 14:
        assert store.headers.get(IDS["with headers"]) == {"traceparent": "00-1"}
    if version >= 6:
        assert store.limits.flows() == [Flow(phase="tight", limit=1)]
        assert [(item.admitted, item.waiting) for item in store.limits.gates()] == [(1, 1)]
        assert store.limits.check() == []
        again = store.enqueue([NewJob(kind="work", args={"n": 9}, debounce=Debounce("d", 86400))])[0]
        assert again.id == IDS["debounced"] and store.jobs.get(again.id).args == {"n": 9}
    if version >= 8:
        captured = store.principals.get(IDS["with a principal"])
        assert captured is not None and captured.principal.roles == {"see"}
    if version >= 13:
        assert store.expiries.get(IDS["brief"]) is not None
        assert store.schedules.get("often").every == timedelta(seconds=87000)
    _check_control(store, version)


def _check_control(store: Store, version: int) -> None:
    """What the control service, the API and log lines of handlers left is as it was."""
    if version < 17:
        assert store.audit.list().records == [] and store.operations.list().operations == []
        assert store.logs.read(IDS["failed"]) == [] and store.requests.of(INSTANCE) == []
        return
    (record,) = store.audit.list().records
    assert (record.id, record.actor, record.tenant, record.act) == (AUDITED, "ada", "north", "job.cancel")
    assert (record.name, record.reason) == (IDS["cancelled"], "enough")
    assert (record.before, record.after) == ({"state": "queued"}, {"state": "cancelled"})
    ended, running = store.operations.get(ENDED_OPERATION), store.operations.get(OPEN_OPERATION)
    assert ended is not None and running is not None and running.state == "running"
    assert (ended.state, ended.matched, ended.done, ended.refused) == ("done", 2, 1, 1)
    assert [item.code for item in ended.refusals] == ["has_ended"]
    (request,) = store.requests.of(INSTANCE)
    assert (request.id, request.act, request.number, request.outcome) == (REQUEST, "resize", 4.0, "it had 2")
    assert store.boards.read()[INSTANCE].facts == {"phases": {}}
    (log,) = store.logs.read(IDS["failed"])
    assert [(line.level, line.message) for line in log.lines] == [("WARNING", "it is late")]
    now = store.db.now()
    spans = [*store.rollups.each_span(3600, since=now - timedelta(hours=12), until=now)]
    assert [span.completed for span in spans if span.failed] == [5]
    if version >= 18:
        key = RequestKey("ada", "order 7", "h")
        repeated = store.request_keys.submit(key, [], lambda made: "made anew")
        assert repeated.response == '{"id": 7}' and not repeated.made
    if version >= 19:
        token = store.tokens.find("deploy")
        assert token is not None and (token.id, token.tenant, list(token.roles)) == (
            TOKEN,
            "north",
            ["submit"],
        )


def _jobs(shop: Shop, version: int) -> dict[str, Job]:
    """Every job that a database of this version has, by what it is."""
    there = {row["id"] for table, row in rows(version, body_hash) if table.startswith("job") and "id" in row}
    return {name: shop.job(job_id) for name, job_id in IDS.items() if job_id in there}


def test_everything_runs_to_its_end_exactly_once(shop: Shop, version: int) -> None:
    ran, chunks, asked = _serve(shop)
    names = set(_jobs(shop, version))
    shop.serve()
    unmoved = {"far", "held up", "stopped", "failed", "debounced"} & names

    def others_have_ended() -> bool:
        return all(job.state.is_final for name, job in _jobs(shop, version).items() if name not in unmoved)

    shop.until(others_have_ended)
    assert [shop.job(IDS[name]).state for name in ("far", "held up", "stopped")] == [
        State.SCHEDULED,
        State.WAITING,
        State.QUEUED,
    ]
    shop.store.phases.resume("still")
    assert shop.store.jobs.retry(IDS["failed"]).generation == 2
    for name in ("far", "debounced"):
        assert shop.store.upkeep.make_due(IDS[name]) is (name in names)
    shop.until(lambda: all(job.state.is_final for job in _jobs(shop, version).values()))

    def made(kind: str) -> int:
        found = shop.store.phases.counts().get(kind)
        return 0 if found is None else found.completed

    shop.until(lambda: (made("child"), made("ticked")) == (2 * (version >= 5), int(version >= 4)))
    jobs = _jobs(shop, version)
    assert {name for name, job in jobs.items() if job.state is not State.COMPLETED} == {
        "asked to stop",
        "cancelled",
    }
    not_run = {"completed", "idempotent", "cancelled", "asked to stop"}
    assert {name: ran[job.id] for name, job in jobs.items()} == {
        name: int(name not in not_run) for name in jobs
    }
    assert sum(ran.values()) == len(names - not_run) + 2 * (version >= 5) + (version >= 4), "and nothing else"
    assert sorted(chunks) == sorted((IDS[name], 5) for name in ("chunked", "failed"))
    assert [(item.name, item.value) for item in jobs["failed"].outputs] == [("part", 1)]
    if version >= 17:
        shop.until(lambda: shop.app.operations.get(OPEN_OPERATION).state == "done")
    if version >= 7:
        assert (jobs["asked to stop"].error or {})["message"] == "no need"
    assert asked == ({IDS["with a principal"]: "ada"} if version >= 8 else {})
    assert shop.store.limits.check() == [] and all(gate.admitted == 0 for gate in shop.store.limits.gates())
    assert_counts_are_true(shop.store)
    answer = shop.store.enqueue([NewJob(kind="work", args={"n": 1}, key=Key("k"))])[0]
    assert answer.created, "the end freed the live key"
