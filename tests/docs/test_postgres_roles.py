"""The roles of docs/guides/postgresql.md: exactly those grants, and everything an application does with them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.interleavings import years
from windlass.cli import main
from windlass.errors import StoreError, StoreNotAllowedError
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.model import After, JobError, JobFilter, Key, NewJob, Retention, State
from windlass.upkeep.history import History

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "postgresql.md"
NOW = timedelta(0)
BOOM = JobError(type="Boom", code="boom", message="it broke")


class Roles(NamedTuple):
    owner: str
    app: str


@pytest.fixture
def roles(own_postgres: Callable[..., PostgresServer]) -> Roles:
    """URLs of the two roles, made as the guide says, on a server that has nothing else."""
    server = own_postgres(durable=False)
    first, second = re.findall(r"^```sql\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    with psycopg.connect(server.dsn(), autocommit=True) as superuser:
        superuser.execute("CREATE DATABASE app")
        superuser.execute(first.encode())
    at = f"127.0.0.1:{server.port}/app"
    urls = Roles(
        f"postgresql://windlass_owner:change%20me@{at}",
        f"postgresql://windlass_app:change%20me%2C%20too@{at}",
    )
    assert main(["db", "migrate", "--url", urls.owner]) == 0
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        owner.execute(second.encode())
    return urls


def test_the_applications_role_can_do_all_that_is_done_while_jobs_run(roles: Roles) -> None:
    with open_store(roles.app) as store:
        parent, _, _ = store.enqueue(
            [NewJob(kind="work"), NewJob(kind="work", key=Key("k")), NewJob(kind="work", delay=NOW)]
        )
        (child,) = store.enqueue([NewJob(kind="child", after=[After(parent.id)])])
        store.dependencies.link()
        store.upkeep.promote()
        holder = store.join()
        first, second, third = holder.claim("work", 3)
        holder.start([first])
        holder.checkpoint(first, done=1, total=2)
        holder.put_output(first, "x", name="part")
        holder.beat()
        with holder.transaction(first) as tx:
            tx.complete("done")
        holder.retry_later(second, BOOM, NOW)
        holder.advance(third, "next", "output")
        store.upkeep.promote()
        (again,) = holder.claim("work", 3)
        holder.fail(again, BOOM)
        store.jobs.retry(again.id)
        store.jobs.cancel(again.id)
        store.jobs.cancel(child.id)
        (last,) = holder.claim("next", 1)
        holder.release(last)
        store.recovery.recover()
        store.recovery.sweep_orphans()
        store.phases.pause("next", "for a while")
        store.phases.resume("next")
        store.upkeep.fold()
        store.upkeep.maintain()
        store.db.wait(["work"], 1)
        store.listen().close()
        assert len(store.jobs.list(JobFilter()).jobs) == 4
        holder.leave()
        everything = Retention(completed=NOW, failed=NOW, cancelled=NOW)
        assert store.upkeep.prune(everything) == 3


def test_pruning_as_the_application_goes_row_by_row(
    roles: Roles, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(roles.app) as store:
        store.enqueue([NewJob(kind="work")])
        holder = store.join()
        for lease in holder.claim("work", 1):
            holder.complete(lease)
        holder.leave()
    ends = ["--completed", "0s", "--failed", "0s", "--cancelled", "0s"]
    assert main(["db", "prune", "--url", roles.app, *ends, "-o", "csv"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "1,0"
    assert "row by row" in caplog.text
    caplog.clear()
    assert main(["db", "prune", "--url", roles.owner, *ends]) == 0
    assert "row by row" not in caplog.text


def test_without_partitions_a_finish_is_refused_until_the_owner_makes_them(roles: Roles) -> None:
    with open_store(roles.app) as store:
        store.enqueue([NewJob(kind="work")])
        holder = store.join()
        (lease,) = holder.claim("work", 1)
        with psycopg.connect(roles.owner, autocommit=True) as owner:
            names = owner.execute(
                "SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid "
                "WHERE i.inhparent = 'windlass.job_done'::regclass"
            ).fetchall()
            for (name,) in names:
                owner.execute(f"DROP TABLE windlass.{name}".encode())
        with pytest.raises(StoreError, match="permission denied"):
            holder.complete(lease)
        assert main(["db", "migrate", "--url", roles.owner]) == 0
        assert holder.complete(lease) == "recorded"
        holder.leave()


def test_a_day_that_the_owner_will_make_is_no_error_of_the_applications(
    roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """Every hour a worker wants the partition of the day in a week, which the owner's next daily run makes."""

    def drop(days_ahead: int) -> None:
        with psycopg.connect(roles.owner, autocommit=True) as owner:
            row = owner.execute(
                "SELECT to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + %s, 'YYYYMMDD')", (days_ahead,)
            ).fetchone()
            assert row is not None
            owner.execute(f"DROP TABLE windlass.job_done_{row[0]}".encode())

    def told() -> list[str]:
        return [record.levelname for record in caplog.records if "no partition for" in record.getMessage()]

    caplog.set_level("INFO", "windlass.store")
    with open_store(roles.app) as store:
        drop(7)
        store.upkeep.maintain()
        store.upkeep.maintain()
        assert told() == ["INFO"], "once"
        drop(2)
        store.upkeep.maintain()
        assert told() == ["INFO", "WARNING"], "the owner's run did not come for days"
        drop(0)
        with pytest.raises(StoreNotAllowedError):
            store.upkeep.maintain()
        assert main(["db", "migrate", "--url", roles.owner]) == 0
        store.upkeep.maintain()


def test_the_owner_makes_months_beside_the_application(roles: Roles) -> None:
    """What the application takes out of a day meanwhile is noted, whatever it may write itself; months are not its to make, and its upkeep is
    no failure."""
    first, last = years.two_months_ago(datetime.now(UTC))
    years.fill(roles.owner, first, last, each=2)
    with psycopg.connect(roles.owner, autocommit=True) as owner:
        owner.execute("REVOKE ALL ON windlass.month_change FROM windlass_app")
    with open_store(roles.app) as store:
        failed = [job.id for job in store.jobs.list(JobFilter(state=State.FAILED), limit=100).jobs]
        assert store.upkeep.merge_history() is None, "there are few"
        with pytest.raises(StoreNotAllowedError):
            store.upkeep.merge_history(always=True)
        assert History(store).run() is None
        years.until(roles.owner, "copied")
        assert store.jobs.retry(failed[0]).generation == 2
        assert main(["db", "merge-history", "--url", roles.app]) == 77
        assert main(["db", "merge-history", "--url", roles.owner]) == 0
        assert (
            store.jobs.get(failed[0]).state is State.QUEUED
            and store.jobs.get(failed[1]).state is State.FAILED
        )
        assert len(years.ids(roles.owner)) == 2 * last.day - 1
        assert store.jobs.retry(failed[1]).generation == 2
