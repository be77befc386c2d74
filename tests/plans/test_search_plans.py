"""What searches for jobs touch on a big PostgreSQL: a window of rows, or what an index leads to, and never a whole table."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from tests.plans import big
from tests.plans.test_hot_plans import Watched
from tests.servers.postgres import PostgresServers
from windlass import App
from windlass.features import Store
from windlass.model.principal import Principal

pytestmark = [pytest.mark.older_postgres, pytest.mark.timing, pytest.mark.slow]

ROWS = 20_000
TABLES = ("job", "job_later", "job_done")
PARTITIONS = 4 * big.DAYS
"""More than there are: a merge reads a first row of each."""
VISITOR = Principal("visitor", tenant="small")

OWNED = """
INSERT INTO windlass.principal (job, alive_at, claims)
SELECT j.id, clock_timestamp(), %s::jsonb
FROM windlass.jobs AS j
WHERE j.id::text LIKE %s
"""
COUNTED = """
INSERT INTO windlass.delta (phase, queued, processing, scheduled, completed, failed)
SELECT 'big', count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'processing'),
    count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'completed'), count(*) FILTER (WHERE state = 'failed')
FROM windlass.jobs
"""


@pytest.fixture(scope="module")
def watched(pg_servers: PostgresServers) -> Iterator[Watched]:
    databases = pg_servers.get()
    url = databases.fresh()
    big.fill(url, ROWS)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(OWNED, (json.dumps({"subject": "visitor", "tenant": "small"}), "%0001"))
        connection.execute(OWNED, (json.dumps({"subject": "other", "tenant": "large"}), "%2"))
        connection.execute(COUNTED)
        connection.execute("ANALYZE")
    database = Watched(url)
    yield database
    database.close()
    databases.drop(url)


def touched(watched: Watched, *verbs: str) -> int:
    plans = [watched.again(verb) for verb in verbs if verb in watched.calls]
    assert plans, watched.calls.keys()
    for plan in plans:
        for table in TABLES:
            assert all(node["Node Type"] != "Seq Scan" for node in plan.scans(table)), plan.root
    return sum(plan.touched(table) for plan in plans for table in TABLES)


@pytest.mark.parametrize(
    ("text", "verb", "most"),
    [
        ("", "search.scan", 4 * 51),
        ("state:failed", "search.scan", 51),
        ("state:completed,failed", "search.scan", 2 * 51),
        ("state:scheduled", "search.scan", 51),
        ("kind:kind", "search.scan", 3 * 500),
        ("kind:kind state:failed", "search.kind", 500),
        ("state:processing", "search.held", 3 * ROWS // 10),
        ("state:processing", "search.ids", 3 * 100),
        ("principal:visitor", "search.ids", 3 * 100),
        ("tenant:large", "search.ids", 3 * 100),
        ("key:order-7", "search.keyed", 0),
    ],
)
def test_a_page_touches_a_bounded_number_of_rows(watched: Watched, text: str, verb: str, most: int) -> None:
    watched.calls.clear()
    with App(store=Store(watched)) as app:
        page = app.jobs.list(text)
        assert len(page.jobs) == (0 if text.startswith("key") else min(50, len(page.jobs)))
        assert touched(watched, verb) <= most + PARTITIONS
        if page.jobs:
            assert touched(watched, "search.fetch") <= 4 * 50 + PARTITIONS


def test_the_few_jobs_of_a_user_among_many_are_found_at_once(watched: Watched) -> None:
    watched.calls.clear()
    with App(store=Store(watched)) as app:
        page = app.acting_as(VISITOR).jobs.list("kind:kind")
        assert page.jobs and page.searched == len(page.jobs) and not page.more
        (plan,) = watched.explain("principal.of_subject", **watched.calls["principal.of_subject"])
        assert plan.ways("principal") == {"principal_of_subject"}
        assert touched(watched, "search.ids") <= 2 * len(page.jobs) + PARTITIONS


def test_pages_of_owners_are_read_in_the_order_of_their_indexes(watched: Watched) -> None:
    with App(store=Store(watched)) as app:
        app.jobs.list("principal:other")
        app.jobs.list("tenant:large")
        for verb in ("principal.of_subject", "principal.of_tenant"):
            (plan,) = watched.explain(verb, **watched.calls[verb])
            assert plan.ways("principal") == {verb.replace(".", "_")} and plan.touched("principal") <= 101
            assert not any(node["Node Type"] == "Sort" for node in plan.nodes())
