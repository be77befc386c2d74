"""``windlass db`` on real databases."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Windlass
from tests.interleavings import years
from tests.servers.plugin import FreshPostgres
from windlass.cli import main
from windlass.clock import ManualClock
from windlass.features import Store, open_store
from windlass.model import JobError, NewJob, Retention
from windlass.store.postgres import partitions
from windlass.store.schema.migrations import available
from windlass.urls import without_secrets


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, sqlite_path: Path, fresh_postgres: FreshPostgres) -> str:
    """A database without Windlass's tables; the SQLite file does not exist yet."""
    return f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres(empty=True)


@pytest.fixture(params=["sqlite", "postgres"])
def url(
    request: pytest.FixtureRequest, sqlite_path: Path, fresh_postgres: FreshPostgres, windlass: Windlass
) -> str:
    """A migrated database."""
    if request.param == "postgres":
        return fresh_postgres()
    url = f"sqlite:///{sqlite_path}"
    windlass("db", "migrate", "--url", url)
    return url


# --- months of history ------------------------------------------------------------------------------------------------


def test_status_warns_of_many_partitions(postgres_dsn: str, windlass: Windlass) -> None:
    today = datetime.now(UTC).date()
    there = len(years.names(postgres_dsn))
    years.fill(postgres_dsn, today, today + timedelta(days=190), each=0)
    few = windlass("db", "status", "--url", postgres_dsn)
    assert len(years.names(postgres_dsn)) < 200 and "warning" not in few.err, there
    years.fill(postgres_dsn, today, today + timedelta(days=200), each=0)
    many = windlass("db", "status", "--url", postgres_dsn)
    assert many.code == 0 and f"history has {len(years.names(postgres_dsn))} partitions" in many.err
    assert "windlass db merge-history" in many.err


def test_merge_history_makes_months_and_says_which(postgres_dsn: str, windlass: Windlass) -> None:
    first, last = years.two_months_ago(datetime.now(UTC))
    years.fill(postgres_dsn, first, last, each=2)
    before = years.contents(postgres_dsn)
    made = windlass("db", "merge-history", "--url", postgres_dsn, "-o", "json")
    assert (made.code, made.json()) == (0, [{"month": f"{first:%Y%m}", "jobs": 2 * last.day}])
    assert made.err == f"history has {len(years.names(postgres_dsn))} partitions\n"
    assert years.contents(postgres_dsn) == before
    assert windlass("db", "merge-history", "--url", postgres_dsn, "-o", "json").json() == []


def test_merge_history_gives_up_behind_an_open_transaction_and_goes_on_later(
    postgres_dsn: str, windlass: Windlass
) -> None:
    first, _ = years.two_months_ago(datetime.now(UTC))
    years.fill(postgres_dsn, first, first + timedelta(days=2))
    with psycopg.connect(postgres_dsn) as report:
        report.execute("SELECT count(*) FROM windlass.job_done")
        stuck = windlass("db", "merge-history", "--url", postgres_dsn, "--wait", "0.1")
        assert stuck.code == 124 and "pg_stat_activity" in stuck.err and "Nothing is lost" in stuck.err
    assert windlass("db", "merge-history", "--url", postgres_dsn).code == 0
    assert partitions.month_of(first) in years.names(postgres_dsn)


def test_merge_history_has_nothing_to_do_on_sqlite(sqlite_path: Path, windlass: Windlass) -> None:
    url = f"sqlite:///{sqlite_path}"
    assert windlass("db", "merge-history", "--url", url).code == 1, "a mistyped name makes no file"
    windlass("db", "migrate", "--url", url)
    done = windlass("db", "merge-history", "--url", url)
    assert (done.code, done.err) == (0, "history is one table; there is nothing to merge\n")


# --- migrate, status, sql ---------------------------------------------------------------------------------------------


def test_migrate_says_what_it_applied_and_then_has_nothing_to_do(empty_url: str, windlass: Windlass) -> None:
    first = windlass("db", "migrate", "--url", empty_url)
    assert (first.code, first.out) == (0, "".join(f"{step.name}\n" for step in available("sqlite")))
    second = windlass("db", "migrate", "--url", empty_url)
    assert (second.code, second.out, second.err) == (0, "", f"{without_secrets(empty_url)} is up to date\n")


def test_status_ends_with_1_while_something_is_pending(empty_url: str, windlass: Windlass) -> None:
    before = windlass("db", "status", "--url", empty_url, "-o", "json")
    assert before.code == 1
    steps = [(step.version, step.name) for step in available("sqlite")]
    assert before.json() == [{"version": n, "name": name, "state": "pending"} for n, name in steps]
    assert before.err == f"{len(steps)} pending in {without_secrets(empty_url)}; run `windlass db migrate`\n"
    windlass("db", "migrate", "--url", empty_url)
    after = windlass("db", "status", "--url", empty_url, "-o", "json")
    assert after.code == 0
    assert after.json() == [{"version": n, "name": name, "state": "applied"} for n, name in steps]
    assert after.err == f"{without_secrets(empty_url)} is up to date\n"


def test_status_does_not_create_a_file(sqlite_path: Path, windlass: Windlass) -> None:
    assert windlass("db", "status", "--url", f"sqlite:///{sqlite_path}").code == 1
    assert not sqlite_path.exists()


def test_a_migration_of_a_later_release_is_shown_and_is_no_failure(url: str, windlass: Windlass) -> None:
    insert = "INSERT INTO {} (version, name, checksum) VALUES (9001, 'from_the_future', 'x')"
    if url.startswith("sqlite:"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(insert.format("windlass_migration"))
        connection.close()
    else:
        with psycopg.connect(url) as postgres:
            postgres.execute(insert.format("windlass.migration"))
    answer = windlass("db", "status", "--url", url, "-o", "jsonl")
    assert answer.code == 0
    assert json.loads(answer.out.splitlines()[-1])["state"] == "newer"


def test_the_url_may_come_from_the_environment(
    empty_url: str, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", empty_url)
    assert windlass("db", "migrate").code == 0
    assert windlass("db", "status", "--url", empty_url).code == 0


def test_the_formats_hold_the_same_facts(url: str, windlass: Windlass) -> None:
    shown = {
        form: windlass("db", "status", "--url", url, "-o", form).out
        for form in ("table", "json", "jsonl", "csv")
    }
    facts = json.loads(shown["json"])
    assert [json.loads(line) for line in shown["jsonl"].splitlines()] == facts
    assert list(csv.DictReader(io.StringIO(shown["csv"]))) == [
        {name: str(value) for name, value in row.items()} for row in facts
    ]
    assert shown["table"].splitlines()[0].split() == ["VERSION", "NAME", "STATE"]
    assert shown["table"].splitlines()[1].split() == ["1", "start", "applied"]


def test_sql_applied_by_hand_gives_the_same_database(
    empty_url: str, windlass: Windlass, tmp_path: Path, fresh_postgres: FreshPostgres
) -> None:
    """Whoever must run migrations with psql or sqlite3 gets a database that `db status` and the store accept."""
    script = windlass("db", "sql", "--url", empty_url)
    assert script.code == 0
    assert script.out == windlass("db", "sql", "--url", empty_url, "--all").out
    _run_script(empty_url, script.out)
    assert windlass("db", "status", "--url", empty_url).code == 0
    assert windlass("db", "migrate", "--url", empty_url).out == ""
    assert windlass("db", "sql", "--url", empty_url).out == ""
    migrated = (
        f"sqlite:///{tmp_path / 'other.db'}"
        if empty_url.startswith("sqlite:")
        else fresh_postgres(empty=True)
    )
    windlass("db", "migrate", "--url", migrated)
    assert _schema(empty_url) == _schema(migrated)
    with open_store(empty_url) as store:
        assert _end_jobs(store, completed=1) == 1


def test_sql_of_everything_needs_no_database(windlass: Windlass) -> None:
    answer = windlass("db", "sql", "--all", "--url", "postgresql://nobody@127.0.0.1:1/nothing")
    assert answer.code == 0
    assert "CREATE TABLE windlass.job " in answer.out


def _run_script(url: str, script: str) -> None:
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(script)
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as postgres:
            postgres.execute(script.encode())


def _schema(url: str) -> list[tuple[object, ...]]:
    if url.startswith("sqlite:"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        rows = connection.execute(
            "SELECT name, trim(sql, char(10)) FROM sqlite_master ORDER BY name"
        ).fetchall()
        connection.close()
        return rows
    with psycopg.connect(url) as postgres:
        return postgres.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = 'windlass' AND table_name !~ '_[0-9]{8}$' ORDER BY 1, 2"
        ).fetchall()


# --- prune ------------------------------------------------------------------------------------------------------------


def test_prune_keeps_what_is_not_past_its_time(url: str, windlass: Windlass) -> None:
    with open_store(url) as store:
        _end_jobs(store, completed=3, failed=2, cancelled=1)
        assert windlass("db", "prune", "--url", url, "-o", "json").json() == [{"removed": 0, "archived": 0}]
        kept = windlass("db", "prune", "--url", url, "--completed", "0s", "--failed", "forever", "-o", "json")
        assert kept.json() == [{"removed": 3, "archived": 0}]
        rest = windlass(
            *("db", "prune", "--url", url, "--failed", "0s", "--cancelled", "0s"),
            *("--reason", "disk is full", "-o", "json"),
        )
        assert rest.json() == [{"removed": 3, "archived": 0}]
        assert store.jobs.list().jobs == []
        last, first = store.audit.list(target="database").records
        assert (last.act, last.reason, last.after["removed"]) == ("db.prune", "disk is full", 3)
        assert first.after == {
            "removed": 3,
            "keep": {"completed": "0:00:00", "failed": None, "cancelled": "30 days, 0:00:00"},
            "archive": None,
        }
        assert first.actor.startswith("os:")


def test_prune_without_options_follows_the_default_retention(windlass: Windlass) -> None:
    text = windlass("db", "prune", "--help").out
    keep = Retention()
    for lasts in (keep.completed, keep.failed, keep.cancelled):
        assert lasts is not None
        assert f"else {lasts.days}d)]" in " ".join(text.split())


def test_the_archive_has_every_job_that_was_removed(url: str, windlass: Windlass, tmp_path: Path) -> None:
    file = tmp_path / "old.jsonl"
    file.write_text('{"id": "was here before"}\n')
    with open_store(url) as store:
        _end_jobs(store, completed=2, failed=1)
        wanted = {job.id: job for job in store.jobs.list().jobs}
    answer = windlass(
        "db",
        "prune",
        "--url",
        url,
        "--completed",
        "0s",
        "--failed",
        "0s",
        "--archive",
        str(file),
        "-o",
        "json",
    )
    assert answer.json() == [{"removed": 3, "archived": 3}]
    first, *lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert first == {"id": "was here before"}
    assert {line["id"] for line in lines} == set(wanted)
    for line in lines:
        job = wanted[line["id"]]
        assert line["args"] == job.args == {"n": line["args"]["n"], "text": "grün"}
        assert line["state"] == job.state
        assert line["result"] == job.result
        assert datetime.fromisoformat(line["finished_at"]) == job.finished_at
        assert (line["error"] or {}).get("code") == (job.error or {}).get("code")


def test_the_archive_of_the_settings_counts_without_an_option(
    url: str, windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command removed jobs that the workers would have archived."""
    monkeypatch.setenv("WINDLASS_RETENTION_ARCHIVE", str(tmp_path / "settings.jsonl"))
    for option, name in ((), "settings"), (("--archive", str(tmp_path / "option.jsonl")), "option"):
        with open_store(url) as store:
            _end_jobs(store, completed=2)
        pruned = windlass("db", "prune", "--url", url, "--completed", "0s", "-o", "json", *option)
        assert pruned.json() == [{"removed": 2, "archived": 2}]
        assert len((tmp_path / f"{name}.jsonl").read_text().splitlines()) == 2


def test_a_job_whose_archive_cannot_be_written_is_kept(url: str, windlass: Windlass) -> None:
    with open_store(url) as store:
        _end_jobs(store, completed=2)
        answer = windlass("db", "prune", "--url", url, "--completed", "0s", "--archive", "/dev/full")
        assert answer.code == 1
        assert answer.err.startswith(
            "error: the archive /dev/full could not be written (No space left on device)"
        )
        assert len(store.jobs.list().jobs) == 2


def test_an_archive_that_cannot_be_opened_is_a_usage_mistake(
    url: str, windlass: Windlass, tmp_path: Path
) -> None:
    answer = windlass("db", "prune", "--url", url, "--archive", str(tmp_path / "no" / "folder.jsonl"))
    assert answer.code == 2
    assert "No such file or directory" in answer.err


def test_prune_refuses_a_database_without_tables(
    empty_url: str, windlass: Windlass, sqlite_path: Path
) -> None:
    answer = windlass("db", "prune", "--url", empty_url)
    assert answer.code == 1
    missing = "does not exist" if empty_url.startswith("sqlite") else "has no Windlass tables"
    assert f"the database {without_secrets(empty_url)} {missing}" in answer.err
    assert not sqlite_path.exists()


@pytest.mark.parametrize("text", ["d", "1w", "-3d", "1.5h", "99999d", "forevr"])
def test_what_is_not_a_duration_is_refused(text: str, windlass: Windlass) -> None:
    answer = windlass("db", "prune", "--completed", text)
    assert answer.code == 2
    assert "forever" in answer.err


def test_prune_drops_whole_days_on_postgresql(postgres_dsn: str, windlass: Windlass, tmp_path: Path) -> None:
    """A day that every retention has passed goes as a partition; with an archive its jobs are written down before."""
    long_ago = ManualClock(datetime.now(UTC) - timedelta(days=200))
    for expected in ([], ["--archive", str(tmp_path / "old.jsonl")]):
        with open_store(postgres_dsn, clock=long_ago) as store:
            store.upkeep.maintain()
            _end_jobs(store, completed=2, failed=1)
        partition = f"job_done_{long_ago.now():%Y%m%d}"
        assert partition in _partitions(postgres_dsn)
        answer = windlass("db", "prune", "--url", postgres_dsn, "-o", "json", *expected)
        assert answer.json() == [{"removed": 3, "archived": 3 if expected else 0}]
        assert partition not in _partitions(postgres_dsn)
        with open_store(postgres_dsn) as store:
            assert store.jobs.list().jobs == []


def _partitions(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'job_done_2%' AND relkind = 'r'"
        )
        return {row[0] for row in rows}


def _end_jobs(store: Store, *, completed: int = 0, failed: int = 0, cancelled: int = 0) -> int:
    """Bring jobs to their ends; answers how many."""
    total = completed + failed + cancelled
    store.enqueue([NewJob(kind="work", args={"n": n, "text": "grün"}) for n in range(total)])
    holder = store.join()
    for number, lease in enumerate(holder.claim("work", total)):
        if number < completed:
            holder.complete(lease, {"n": number})
        elif number < completed + failed:
            holder.fail(lease, JobError(type="Boom", code="boom", message="it broke"))
        else:
            holder.cancel(lease)
    holder.leave()
    return total


def test_prune_keeps_to_the_configured_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own defaults count only where nothing is configured, an option before both."""
    seen: list[Retention] = []

    def prune_store(
        store: Store, keep: Retention, archive: Path | None, reason: str | None
    ) -> dict[str, int]:
        seen.append(keep)
        return {"removed": 0, "archived": 0}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("windlass.cli.db_prune.prune_store", prune_store)
    (tmp_path / "windlass.toml").write_text('[retention]\ncompleted = "60d"\nfailed = "forever"\n')
    url = ["--url", "sqlite:///jobs.db"]
    assert main(["db", "migrate", *url]) == 0
    assert main(["db", "prune", *url]) == 0
    assert seen[-1] == Retention(completed=timedelta(days=60), failed=None, cancelled=timedelta(days=30))
    assert main(["db", "prune", *url, "--failed", "1h", "--completed", "forever"]) == 0
    assert seen[-1] == Retention(completed=None, failed=timedelta(hours=1), cancelled=timedelta(days=30))


def test_tables_are_listed_with_their_sizes(url: str, windlass: Windlass) -> None:
    found = json.loads(windlass("db", "tables", "--url", url, "-o", "json").out)
    assert {"table", "rows", "bytes"} == found[0].keys()
    assert {"job", "job_done", "audit"} <= {one["table"].removeprefix("windlass_") for one in found}
