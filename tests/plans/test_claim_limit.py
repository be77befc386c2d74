"""A claim of n takes n, under any plan the server may choose (I-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

import psycopg
import pytest

from windlass.features import Store
from windlass.model import NewJob, Want
from windlass.store.database import Row, Transaction
from windlass.store.postgres.database import PostgresDatabase

pytestmark = [pytest.mark.older_postgres, pytest.mark.timing]

LANES = 3
PER_LANE = 40
LIMIT = 50  # more than one lane holds, so that the limit has to work across lanes

# Each line is one way of steering the planner; the last ones leave it next to nothing to choose from.
SETTINGS: tuple[Mapping[str, str], ...] = (
    {},
    *(
        {f"enable_{node}": "off"}
        for node in (
            "hashjoin",
            "mergejoin",
            "nestloop",
            "indexscan",
            "indexonlyscan",
            "bitmapscan",
            "seqscan",
            "tidscan",
            "material",
            "memoize",
            "sort",
            "incremental_sort",
            "hashagg",
            "partition_pruning",
            "partitionwise_join",
        )
    ),
    {"enable_indexscan": "off", "enable_bitmapscan": "off"},
    {"enable_indexscan": "off", "enable_seqscan": "off"},
    {"enable_nestloop": "off", "enable_tidscan": "off"},
    {"enable_nestloop": "off", "enable_hashjoin": "off"},
    {"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_material": "off"},
    {"enable_tidscan": "off", "enable_indexscan": "off", "enable_bitmapscan": "off", "enable_sort": "off"},
    {
        "enable_indexscan": "off",
        "enable_bitmapscan": "off",
        "enable_nestloop": "off",
        "enable_material": "off",
    },
    {"cpu_tuple_cost": "0", "random_page_cost": "0", "seq_page_cost": "0"},
    {"parallel_setup_cost": "0", "parallel_tuple_cost": "0", "min_parallel_table_scan_size": "0"},
    {"debug_parallel_query": "on"},
)


class StepInTransaction(PostgresDatabase):
    """Runs `step` in a transaction that stays open for a look from outside, with exactly the store's parameters."""

    instance = ""
    _kept: dict[str, object] | None = None

    def run(self, verb: str, **parameters: object) -> list[Row]:
        if self._kept is None:
            return super().run(verb, **parameters)
        self._kept.update(parameters)
        return []

    def look_inside(self, want: Want, look: Callable[[], int]) -> tuple[list[Row], int]:
        kept: dict[str, object] = {}
        self._kept = kept
        self.step(
            instance=self.instance,
            outcomes=[],
            aside=0,
            emptied=[],
            wants=[want],
            marks=[None] * 10,
        )
        self._kept = None

        def work(tx: Transaction) -> tuple[list[Row], int]:
            rows = tx.run("step", **kept)
            return [row for row in rows if row[1] is not None], look()

        return self.transact(work)


def described(settings: Mapping[str, str], pooled: bool) -> str:
    text = " ".join(f"{name}={value}" for name, value in settings.items()) or "defaults"
    return f"{text} ({'custom' if pooled else 'generic'} plan)"


def understood(dsn: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings this server knows; debug_parallel_query had another name before 16."""
    with psycopg.connect(dsn) as connection:
        known = {row[0] for row in connection.execute("SELECT name FROM pg_settings")}
    old = {"debug_parallel_query": "force_parallel_mode"}
    named = {name if name in known else old.get(name, name): value for name, value in settings.items()}
    return {name: value for name, value in named.items() if name in known}


def with_settings(dsn: str, settings: Mapping[str, str]) -> str:
    """The URL of sessions with these settings. Without the compiler: a kind of plan that is switched off counts as dear enough for it, and
    where a pooler keeps the store from switching it off, it took three quarters of the time."""
    options = " ".join(f"-c {name}={value}" for name, value in {"jit": "off", **settings}.items())
    return f"{dsn}{'&' if '?' in dsn else '?'}options={quote(options)}" if options else dsn


@pytest.mark.slow
@pytest.mark.parametrize("has_statistics", [False, True], ids=["no-statistics", "analyzed"])
def test_a_claim_takes_and_locks_exactly_its_limit_under_every_plan(
    postgres_dsn_every: str, has_statistics: bool
) -> None:
    """With each kind of plan switched off in turn, with generic and with custom plans (as behind a pooler), the claim
    returns n rows, marks n rows, and holds no lock on any other: all the rest can be locked by somebody else while the
    claim's transaction is open."""
    total = LANES * PER_LANE
    wrong: dict[str, tuple[int, ...]] = {}
    with psycopg.connect(postgres_dsn_every, autocommit=True) as outside:
        for number, settings in enumerate(SETTINGS):
            outside.execute("TRUNCATE windlass.job, windlass.claim")
            url = with_settings(postgres_dsn_every, understood(postgres_dsn_every, settings))
            pooled = has_statistics and number % 2 == 1  # no prepared statements: a custom plan each time
            database = StepInTransaction(url, pooled=pooled)
            store = Store(database)
            try:
                store.enqueue([NewJob(kind="k", priority=n % LANES) for n in range(total)])
                if has_statistics:
                    outside.execute("ANALYZE windlass.job")
                database.instance = store.join().id

                def lockable() -> int:
                    with outside.transaction():
                        rows = outside.execute("SELECT FROM windlass.job FOR UPDATE SKIP LOCKED").fetchall()
                    return len(rows)

                rows, free = database.look_inside(Want("k", LIMIT), lockable)
                marked = outside.execute(
                    "SELECT count(*) FROM windlass.job WHERE token IS NOT NULL"
                ).fetchone()
                assert marked is not None
                again = len(store.join().claim("k", total))
                if (len(rows), marked[0], free, again) != (LIMIT, LIMIT, total - LIMIT, total - LIMIT):
                    wrong[described(settings, pooled)] = (len(rows), marked[0], free, again)
            finally:
                store.close()
    assert not wrong, "settings: (returned, marked, lockable by others, left for the next claim)"


def test_the_settings_reach_the_stores_sessions(postgres_dsn: str) -> None:
    """What the test above rests on: the options in the URL hold in the store's own connections."""
    database = PostgresDatabase(with_settings(postgres_dsn, {"enable_hashjoin": "off"}))
    try:
        with database._connection() as connection:
            assert connection.execute("SHOW enable_hashjoin").fetchone() == ("off",)
            assert connection.execute("SHOW plan_cache_mode").fetchone() == ("force_generic_plan",)
    finally:
        database.close()
