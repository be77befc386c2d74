"""The roles of docs/guides/postgresql.md: exactly those grants, and everything an application does with them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.engine.shop import Shop
from tests.interleavings import years
from tests.waiting import PATIENCE
from windlass.cli import main
from windlass.errors import StoreError, StoreNotAllowedError
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.model import After, JobError, JobFilter, Key, NewJob, Retention, State
from windlass.observe.health import detailed
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


def _drop(roles: Roles, days_ahead: int) -> None:
    with psycopg.connect(roles.owner, autocommit=True) as owner:
        row = owner.execute(
            "SELECT to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + %s, 'YYYYMMDD')", (days_ahead,)
        ).fetchone()
        assert row is not None
        owner.execute(f"DROP TABLE windlass.job_done_{row[0]}".encode())


def test_a_role_that_cannot_make_partitions_says_so_in_its_log(
    roles: Roles, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, and once more when the owner's daily run is late; it is no error of the application's."""

    def told() -> list[str]:
        return [
            record.levelname
            for record in caplog.records
            if "may not make partitions" in record.getMessage()
            and "windlass db migrate" in record.getMessage()
        ]

    caplog.set_level("INFO", "windlass.store")
    with open_store(roles.owner) as store:
        _drop(roles, 7)
        assert store.upkeep.maintain() is None and not told(), "which makes it"
    with open_store(roles.app) as store:
        left = store.upkeep.maintain()
        assert left is not None and left.ahead == 8 and not left.is_late
        _drop(roles, 6)
        left = store.upkeep.maintain()
        assert left is not None and left.ahead == 6 and not left.is_late
        assert told() == ["INFO"], "once"
        _drop(roles, 5)
        left = store.upkeep.maintain()
        assert left is not None and left.ahead == 5 and left.is_late
        _drop(roles, 0)
        left = store.upkeep.maintain()
        assert left is not None and left.ahead == 0 and "cannot be finished" in left.text
        assert told() == ["INFO", "WARNING"], "the owner's run did not come for two days"
        assert main(["db", "migrate", "--url", roles.owner]) == 0
        left = store.upkeep.maintain()
        assert left is not None and left.ahead == 8


@pytest.mark.timing
def test_a_role_that_cannot_make_partitions_says_so_in_health(roles: Roles) -> None:
    """With the cure: a fault when the owner's daily run is late, else a note."""
    shop = Shop(roles.app)
    try:

        @shop.app.job
        def work() -> None: ...

        engine = shop.serve()
        shop.until(lambda: "partitions" in detailed(engine.report())["parts"])
        part = detailed(engine.report())["parts"]["partitions"]
        assert part["state"] == "ok" and "may not make partitions" in part["seen"]
        assert "windlass db migrate" in part["advice"]
        engine.stop()
        _drop(roles, 3)
        engine = shop.serve()
        shop.until(lambda: any(line.startswith("partitions: ") for line in engine.report().degraded))
        found = detailed(engine.report())
        assert (
            found["status"] == "degraded" and "windlass db migrate" in found["parts"]["partitions"]["advice"]
        )
    finally:
        shop.close()


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


def _serve(folder: Path) -> int:
    """The exit code of a worker that runs what there is to run."""
    command = [sys.executable, "-m", "windlass", "worker", "tests.cli.worker_app:app", "--drain"]
    environment = {**os.environ, "PYTHONPATH": str(GUIDE.parents[2])}
    return subprocess.run(command, cwd=folder, env=environment, timeout=PATIENCE, check=False).returncode


def test_the_table_of_commands_and_roles_is_true(
    roles: Roles, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process has the URL of its role in its environment, as docs/guides/two-roles.md shows."""
    page = (GUIDE.parent / "two-roles.md").read_text("utf-8")
    rows = re.findall(r"^\| `windlass ([^`]+)`[^|]* \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(rows) == 8
    (tmp_path / "windlass.toml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    first, _ = years.two_months_ago(datetime.now(UTC))
    years.fill(roles.owner, first, first + timedelta(days=1))
    with psycopg.connect(roles.owner, autocommit=True) as owner:
        owner.execute(  # the partition that the owner's daily run would make
            b"DO $$ BEGIN EXECUTE 'DROP TABLE windlass.job_done_' || to_char((clock_timestamp() AT TIME ZONE 'UTC')::date + 7, 'YYYYMMDD'); END $$"
        )
    with open_store(roles.app) as store:
        (job,) = store.enqueue([NewJob(kind="hello", args={"name": "two roles"})])
        for role in ("app", "owner"):  # the application first: the owner leaves nothing to be done
            monkeypatch.setenv("WINDLASS_DATABASE_URL", getattr(roles, role))
            for command, as_owner, as_app in rows:
                told = as_app if role == "app" else as_owner
                code = _serve(tmp_path) if command.startswith("worker") else main(command.split())
                assert code == (77 if "77" in told else 0), (role, command, capsys.readouterr().err)
        assert store.jobs.get(job.id).result == "hello two roles"
