"""No verb's plan depends on statistics: made on empty tables and kept, it visits as little once they have grown (PostgreSQL)."""

from __future__ import annotations

import psycopg
import pytest

from tests.plans import workload
from tests.plans.stale import FILL, TABLES, Stale, Visit
from windlass.dependencies import linking as dependencies
from windlass.features import Store
from windlass.store.schema.statements import load

pytestmark = [pytest.mark.older_postgres, pytest.mark.timing]

BATCH = 100
# Rows that a statement about 100 jobs may visit, in all nodes of its plan together, and pages. The most are those of settle.edges.
MOST_ROWS = 60 * BATCH
MOST_PAGES = 60 * BATCH

# What no job's way from its enqueue to its end runs: lists for people, definitions, ticks, pauses, and duties that go through a
# table by design, a page at a time or now and then.
COLD = {
    "age.later", "counts", "erase.due", "erase.ended", "erase.living", "erase.note", "erase.pick", "fan_in.list", "fan_in.undo",
    "fire.move", "fire.next", "fire.pick", "fire.ticks", "flow.first", "flow.put", "gates", "gates.check", "gates.idle", "gates.repair",
    "gates.room", "gates.sweep", "hit.forget", "hit.left", "instances", "list.completed", "list.ended_badly", "list.later", "list.live",
    "oldest", "pause", "paused", "principal.list", "prune.again", "prune.attempts", "prune.delete", "prune.edges", "prune.fan_ins", "prune.hits", "prune.keys",
    "prune.page", "prune.read", "resume", "rollup.prune", "rollup.put", "rollup.read", "rule.flag_later", "rule.flag_live", "rule.kinds",
    "rule.kinds.scanned", "rule.kinds.new", "rule.kinds.sync", "rule.list", "rule.lock", "rule.missed", "rule.put", "rule.remove",
    "rule.mark_gone", "schedule.list", "schedule.pause", "schedule.put", "schedule.remove", "schedule.resume", "schedule.mark_gone",
    "request_key.prune", "tick.list", "tick.prune", "token.list", "token.revoke", "turn.take", "turn.take.due",
    "audit.list", "audit.of", "audit.write", "key.jobs", "parents.newest", "principal.sees", "principal.of_subject", "principal.of_tenant", "search.fetch", "search.held", "search.ids", "search.keyed",
    "search.kind", "search.queued", "search.scan",
    "board.watch", "claims.count", "failures", "instance.dead", "job_log.put", "job_log.read", "rollup.first",
    "rollup.span.last", "rollup.span.prune", "rollup.span.put", "rollup.span.read", "watched.jobs",
}  # fmt: skip
COPY = {"enqueue.copy", "enqueue.copy_at"}  # have no plan


def too_much(visits: list[Visit]) -> list[str]:
    return [
        str(visit)
        for visit in visits
        if visit.verb not in COLD and (visit.rows > MOST_ROWS or visit.plan.buffers > MOST_PAGES)
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "empty", ["never analyzed", pytest.param("vacuumed and analyzed", marks=pytest.mark.long)]
)
def test_plans_made_on_empty_tables_stay_right(
    postgres_dsn_every: str, empty: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every hot verb has its generic plan from empty tables, once with the server's guess of ten pages for a table that it has never
    looked at, and once with the knowledge that there is nothing. Beside a crowd in every table it visits rows and pages in
    proportion to its batch, as it does after the next ANALYZE."""
    db = Stale(postgres_dsn_every)
    store = Store(db)
    try:
        with psycopg.connect(postgres_dsn_every, autocommit=True) as connection:
            for (name,) in connection.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'windlass'::regnamespace AND relkind = 'r'"
            ).fetchall():
                connection.execute(f"ALTER TABLE {name} SET (autovacuum_enabled = off)".encode())
            workload.define(store)
            monkeypatch.setattr(dependencies, "PAGE", 8)  # more children than a page
            workload.run(store, 5)
            connection.execute(f"TRUNCATE {', '.join(f'windlass.{name}' for name in TABLES)}".encode())
            if empty == "vacuumed and analyzed":
                connection.execute("VACUUM ANALYZE")
            db.plan_all()
            connection.execute(FILL.format(rows=int(pytestconfig.getoption("--crowd"))).encode())

            db.is_watching = True
            monkeypatch.setattr(dependencies, "PAGE", 2 * BATCH)
            workload.run(store, BATCH)
            assert not too_much(db.visits)
            missing = load("postgres").keys() - COLD - COPY - {visit.verb for visit in db.visits}
            assert not missing, ", ".join(sorted(missing))

            db.visits.clear()
            connection.execute("ANALYZE")
            workload.run(store, BATCH)
            assert not too_much(db.visits)
    finally:
        store.close()
