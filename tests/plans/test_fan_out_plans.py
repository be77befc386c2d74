"""Ten thousand children of one parent, and some of others, with statistics that say so: what ends and retries visit is in proportion to it (PostgreSQL)."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.conformance.life import BOOM, claim_one, one
from tests.plans import workload
from tests.plans.stale import Stale
from windlass.dependencies import linking as dependencies
from windlass.dependencies.linking import PAGE
from windlass.features import Store
from windlass.model import State

pytestmark = pytest.mark.older_postgres

CHILDREN = 10_000
OTHERS = 2_000  # edges of other parents

FILL = f"""
INSERT INTO windlass.job_later (id, created_at, run_at, pending, lane, max_attempts, flags, reason, kind, phase, args)
SELECT ('0190000a-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, now(), now(), 1, 4, 3, 0, 'waiting', 'leaf', 'leaf', '{{}}'
FROM generate_series(1, {CHILDREN + OTHERS}) AS n;
INSERT INTO windlass.job_dep (parent, child, policy)
SELECT CASE WHEN n <= {CHILDREN} THEN %(parent)s::uuid ELSE ('0190000b-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid END,
    ('0190000a-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'cancel'
FROM generate_series(1, {CHILDREN + OTHERS}) AS n;
UPDATE windlass.job SET flags = flags | 8 WHERE id = %(parent)s;
INSERT INTO windlass.delta (phase, waiting) VALUES ('leaf', {CHILDREN + OTHERS});
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_large_fan_out_is_settled_and_revived_in_proportion(
    postgres_dsn_every: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the parent and every page of upkeep visit what a page has, the retry what all children have; every statement of the
    retry did so once for each child, where the statistics knew of one parent only."""
    db = Stale(postgres_dsn_every)
    store = Store(db)
    try:
        workload.define(store)
        monkeypatch.setattr(dependencies, "PAGE", 8)
        workload.run(store, 5)  # prepares every statement
        monkeypatch.undo()
        holder = store.join(lease=timedelta(hours=1))
        with psycopg.connect(
            postgres_dsn_every, autocommit=True, cursor_factory=psycopg.ClientCursor
        ) as other:
            parent = one(store, "root", max_attempts=1)
            other.execute(FILL.encode(), {"parent": parent})
            other.execute("VACUUM ANALYZE")
            db.is_watching = True
            holder.fail(claim_one(holder, "root"), BOOM)
            pages = 1
            while store.dependencies.settle(1):
                pages += 1
            assert CHILDREN / PAGE <= pages <= CHILDREN / PAGE + 2
            assert not [str(visit) for visit in db.visits if visit.rows > 40 * PAGE]
            db.is_watching = False
            assert store.phases.counts()["leaf"].cancelled == CHILDREN
            db.is_watching = True

            db.visits.clear()
            other.execute("VACUUM ANALYZE")
            store.jobs.retry(parent, dependents=True)
            assert not [str(visit) for visit in db.visits if visit.rows > 40 * CHILDREN]
            db.is_watching = False
            assert store.phases.counts()["leaf"].waiting == CHILDREN + OTHERS
            assert store.jobs.get(parent).state is State.QUEUED
    finally:
        store.close()
