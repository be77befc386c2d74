"""What PostgreSQL gives up (a time-out, a lock, a cancel) is the fault of that call: the others are served, and somebody is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from tests.engine.shop import Shop
from tests.observe.lines import written
from tests.waiting import PATIENCE, eventually
from windlass.engine.step import MOST_DELAYED
from windlass.features import open_store
from windlass.model import After, NewJob
from windlass.observe import health

pytestmark = pytest.mark.timing

GIVE_UP = """
CREATE FUNCTION public.give_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'canceling statement, says this test' USING ERRCODE = '57014'; END $$
"""


@pytest.fixture
def shop(postgres_dsn: str) -> Iterator[Shop]:
    made = Shop(postgres_dsn)
    made.run(GIVE_UP)
    yield made
    made.close()


def give_up(shop: Shop, event: str, when: str) -> None:
    """Have the server give up statements that do this to such rows."""
    shop.run(
        f"CREATE TRIGGER give_up BEFORE {event} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION public.give_up()"
    )


@pytest.mark.slow
def test_an_end_that_is_given_up_each_time_ends_with_a_code_and_holds_up_nobody(shop: Shop) -> None:
    begun, gate = threading.Semaphore(0), threading.Event()

    @shop.app.job(processors=20)
    def work(n: int) -> int:
        begun.release()
        gate.wait(PATIENCE)
        return n

    give_up(shop, "INSERT ON windlass.job_done", "NEW.state = 'completed' AND NEW.result = '7'")
    engine = shop.serve(lease=600.0)
    jobs = [work.enqueue(n=n) for n in range(20)]
    for _ in jobs:
        assert begun.acquire(timeout=PATIENCE)
    with written() as lines:
        gate.set()
        shop.until(lambda: all(shop.job(job).state == "completed" for job in jobs if job is not jobs[7]))
        (delayed,) = shop.until(lambda: list(engine._recorder.delayed))
        delayed.since -= 600.0  # it was tried for as long as a lease
        shop.drained(engine)
    doomed = shop.job(jobs.pop(7))
    assert doomed.state == "failed" and doomed.error is not None
    assert doomed.error["code"] == "unrecordable" and "gave this call up" in doomed.error["message"]
    assert [shop.job(job).result for job in jobs] == [n for n in range(20) if n != 7]
    assert "store.unreachable" not in {line["event"] for line in lines.objects}


@pytest.mark.parametrize(
    ("times", "code", "which"),
    [
        pytest.param(3, "55P03", "TRUE", id="somebody holds a lock"),
        pytest.param(6, "53200", "NEW.state = 'completed'", id="no memory for longer than the tries"),
    ],
)
def test_a_good_end_is_not_given_up_within_a_lease(shop: Shop, times: int, code: str, which: str) -> None:
    """However often it was tried: what passes within a lease must not cost a job its good end."""
    shop.run("CREATE SEQUENCE public.tries")
    shop.run(
        "CREATE OR REPLACE FUNCTION public.give_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('public.tries') <= {times} THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END IF; RETURN NEW; END $$"
    )

    @shop.app.job
    def work() -> str:
        return "done"

    give_up(shop, "INSERT ON windlass.job_done", which)
    job = work.enqueue()
    shop.drained(shop.serve())
    assert (shop.job(job).state, shop.job(job).result, shop.job(job).attempt) == ("completed", "done", 1)


@pytest.mark.slow
def test_nothing_is_claimed_where_all_ends_are_given_up(shop: Shop) -> None:
    """What ran would only pile up in memory."""

    @shop.app.job(processors=5)
    async def work() -> None: ...

    give_up(shop, "INSERT ON windlass.job_done", "TRUE")
    jobs = work.enqueue_many({} for _ in range(300))
    engine = shop.serve(prefetch=0.01, lease=600.0)  # no end is given up
    delayed = engine._recorder.delayed
    shop.until(lambda: len(delayed) > MOST_DELAYED and min(item.tries for item in list(delayed)) > 5)
    assert shop.store.phases.counts()["work"].queued > 200
    shop.run(
        "CREATE OR REPLACE FUNCTION public.give_up() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    )
    shop.drained(engine)
    assert {shop.job(job).state for job in jobs} == {"completed"}


@pytest.mark.slow
def test_a_phase_whose_claims_are_given_up_does_not_keep_the_others_from_theirs(shop: Shop) -> None:
    @shop.app.job
    def bad() -> None: ...

    @shop.app.job
    def good() -> str:
        return "done"

    give_up(shop, "UPDATE ON windlass.job", "NEW.phase = 'bad' AND NEW.token IS NOT NULL")
    poor = bad.enqueue()
    engine = shop.serve()
    part = "duty claims of bad"
    shop.until(lambda: health.states(engine.report()).get(part) == health.DEGRADED)
    jobs = [good.enqueue() for _ in range(20)]
    shop.until(lambda: all(shop.job(job).state == "completed" for job in jobs))
    assert engine.report().store_reachable
    shop.run("DROP TRIGGER give_up ON windlass.job")
    shop.until(lambda: shop.job(poor).state == "completed")
    shop.until(lambda: part not in health.states(engine.report()))


def test_a_duty_that_is_given_up_each_time_keeps_nobody_from_recovery(shop: Shop) -> None:
    """Children that cannot be linked: what a dead instance held is recovered, and health names the duty until it works."""

    @shop.app.job
    def work() -> str:
        return "done"

    other = work.enqueue()
    parent = shop.store.enqueue([NewJob(kind="parent")])[0].id
    child = shop.store.enqueue([NewJob(kind="child", after=[After(parent)])])[0].id
    shop.store.join(lease=timedelta(seconds=0.2)).claim("work", 1)  # and never heard of again
    give_up(shop, "UPDATE ON windlass.job_later", f"NEW.id = '{child}'")
    with written() as lines:
        engine = shop.serve()
        part = "duty links"
        shop.until(lambda: health.states(engine.report()).get(part) == health.DEGRADED)
        shop.until(lambda: shop.job(other).state == "completed")
        told = [line for line in lines.objects if line["event"] == "duty.failing"]
        assert [line["fields"]["duty"] for line in told] == ["links"] and told[0]["level"] == "warning"
        shop.run("DROP TRIGGER give_up ON windlass.job_later")
        shop.until(lambda: part not in health.states(engine.report()))
        shop.until(lambda: "duty.works" in {line["event"] for line in lines.objects})
    assert shop.job(child).state == "waiting"


def test_a_role_with_a_short_statement_timeout_cuts_no_verb_off(postgres_dsn: str) -> None:
    role = "ALTER ROLE CURRENT_USER IN DATABASE {} SET statement_timeout = '50ms'"
    waits = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
        "AND clock_timestamp() - query_start > interval '200 ms'"
    )
    with psycopg.connect(postgres_dsn, autocommit=True) as admin, ThreadPoolExecutor(1) as threads:
        admin.execute(role.format(admin.info.dbname).encode())
        settings = admin.execute(
            "SELECT setconfig FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall()
        assert "statement_timeout=50ms" in str(settings)
        # The time-out is none of this session's, whose own statements take longer than that on a busy machine.
        patient = psycopg.connect(postgres_dsn, options="-c statement_timeout=0")
        with open_store(postgres_dsn) as store, patient as other:
            other.execute(
                "LOCK TABLE windlass.phase"
            )  # in a verb's way for as long as this transaction lasts
            verb = threads.submit(store.phases.pause, "work", "as a test")
            try:
                eventually(lambda: verb.done() or admin.execute(waits).fetchone())
            finally:
                other.rollback()
            verb.result()
            assert [pause.phase for pause in store.phases.paused()] == ["work"]
