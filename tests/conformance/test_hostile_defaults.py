"""PostgreSQL set as some administrators set it (chaos/profile.py): short time-outs, German dates, SERIALIZABLE, a role that owns nothing.

The whole suite runs on such a server with WINDLASS_TEST_PG_PROFILE=hostile; here is what must not break unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from chaos.catalogue import migrated
from chaos.profile import HOSTILE
from tests.conformance.life import BOOM, claim_one, enqueue, one
from tests.engine.shop import QUICK
from windlass.app.app import App
from windlass.cli import main
from windlass.config import from_code
from windlass.control.doctor.doctor import examine
from windlass.engine.drain import Drain
from windlass.errors import ConfigError
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import Store, open_store
from windlass.handlers.context import Context
from windlass.model import After, Debounce, JobFilter, Key, NewJob, NewSchedule, State, Verdict
from windlass.store.migrate import migrate

NOW = timedelta(0)


@pytest.fixture
def url(own_postgres: Callable[..., PostgresServer]) -> str:
    return migrated(own_postgres(durable=False), HOSTILE)


@pytest.fixture(params=["direct", "pooled"])
def hostile(request: pytest.FixtureRequest, url: str) -> Iterator[Store]:
    with psycopg.connect(url) as session:
        assert session.execute("SHOW datestyle").fetchone() == ("German, DMY",)
        assert session.execute("SHOW default_transaction_isolation").fetchone() == ("serializable",)
        assert session.execute("SHOW is_superuser").fetchone() == ("off",)
    with open_store(url, pooled=request.param == "pooled", direct_url=url) as store:
        yield store


def test_a_life_of_jobs(hostile: Store) -> None:
    store = hostile
    parent, keyed, later = store.enqueue(
        [
            NewJob(kind="work"),
            NewJob(kind="work", key=Key("k")),
            NewJob(kind="work", delay=NOW),
        ]
    )
    store.enqueue([NewJob(kind="other", debounce=Debounce("d", timedelta(hours=1)))])
    (child,) = store.enqueue([NewJob(kind="child", after=[After(parent.id)])])
    store.dependencies.link()
    store.upkeep.promote()
    store.schedules.put(NewSchedule(name="tidy", kind="work", expression="* * * * *"))
    store.schedules.fire_due()
    holder = store.join()
    leases = {lease.id: lease for lease in holder.claim("work", 10)}
    assert leases.keys() >= {parent.id, keyed.id, later.id}
    holder.start(list(leases.values()))
    holder.checkpoint(leases[parent.id], done=1, total=2)
    holder.beat()
    assert holder.complete(leases[parent.id], "ü 🙂") is Verdict.RECORDED
    assert holder.retry_later(leases[keyed.id], BOOM, NOW) is Verdict.RECORDED
    assert holder.fail(leases[later.id], BOOM) is Verdict.RECORDED
    store.jobs.retry(later.id)
    found = store.jobs.get(parent.id)
    assert found.result == "ü 🙂" and found.finished_at is not None
    assert abs(found.finished_at - store.now()) < timedelta(hours=1)
    assert store.jobs.get(child.id).state is State.QUEUED
    assert {job.id for job in store.jobs.list(JobFilter(kind="work")).jobs} >= leases.keys()
    store.recovery.recover()
    store.recovery.sweep_orphans()
    store.limits.mend()
    store.upkeep.maintain()
    holder.leave()


def test_a_bulk_of_jobs(hostile: Store) -> None:
    made = hostile.enqueue([NewJob(kind="work", args={"n": n}) for n in range(1500)])
    assert len(made) == 1500 and hostile.phases.counts()["work"].queued == 1500


@pytest.mark.slow
def test_an_effect_whose_job_is_touched_meanwhile_commits(hostile: Store) -> None:
    """Under another isolation level the commit would be refused because of somebody else's update."""
    enqueue(hostile)
    holder = hostile.join()
    lease = claim_one(holder)
    with holder.transaction(lease) as tx:
        assert tx.connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
        tx.connection.execute("CREATE TABLE public.effect (n integer)")
        hostile.enqueue([NewJob(kind="child", after=[After(lease.id)])])
        hostile.dependencies.link()  # flags the parent's row
        tx.complete("🙂")
    assert hostile.jobs.get(lease.id).result == "🙂"


def test_an_engine_serves(url: str) -> None:
    app = App(url, settings=QUICK)

    @app.job
    async def plain(n: int) -> int:
        return n

    @app.job
    def effective(n: int, ctx: Context) -> str:
        with ctx.transaction() as tx:
            tx.connection.execute("INSERT INTO public.done VALUES (%s)", (n,))
            tx.complete("🙂")
        return "🙂"

    with psycopg.connect(url, autocommit=True) as session:
        session.execute("CREATE TABLE public.done (n integer)")
    with closing(app):
        engine = app.worker()
        engine.start()
        try:
            jobs = [
                *plain.enqueue_many({"n": n} for n in range(50)).ids,
                *effective.enqueue_many({"n": n} for n in range(20)).ids,
            ]
            assert Drain(engine, app.store).wait(60), app.store.phases.counts()
            assert {app.store.jobs.get(job).state for job in jobs} == {State.COMPLETED}
            assert not any(line.startswith(("store", "duty", "lease")) for line in engine.report().degraded)
        finally:
            engine.stop(grace=5)
    with psycopg.connect(url) as session:
        assert session.execute("SELECT count(*), count(DISTINCT n) FROM public.done").fetchone() == (20, 20)


@pytest.mark.owner
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_an_encoding_that_cannot_hold_every_text_is_refused_by_name(
    postgres_dsn: str, encoding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"windlass_encoded_{encoding.lower()}"
    with psycopg.connect(postgres_dsn, autocommit=True) as admin:
        make = sql.SQL("CREATE DATABASE {} ENCODING {} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        admin.execute(make.format(sql.Identifier(name), sql.Literal(encoding)))
        url = postgres_dsn.rpartition("/")[0] + f"/{name}"
        try:
            for call in (migrate, open_store):
                with pytest.raises(ConfigError, match=f"encoding {encoding}.*must be UTF8.*CREATE DATABASE"):
                    call(url)
            assert main(["db", "migrate", "--url", url]) == 2
            assert encoding in capsys.readouterr().err
            with psycopg.connect(url) as session:
                assert session.execute("SELECT to_regclass('windlass.migration')").fetchone() == (None,)
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_a_role_whose_sessions_are_latin1_stores_every_text(url: str) -> None:
    with open_store(url) as store:
        job = one(store, args={"text": "ü 🙂"})
        assert store.jobs.get(job).args == {"text": "ü 🙂"}


def test_the_doctor_reads_the_clock_of_such_a_server(url: str) -> None:
    """The driver reads times in one DateStyle only, and the doctor has a connection of its own."""
    found = examine(url, from_code({"database.url": url}), environ={})
    assert found.is_reachable and "clock" not in {one.code for one in found.findings}
