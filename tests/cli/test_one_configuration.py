"""Every command finds its database the same way: flag, code, environment, windlass.toml, default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.bench import ROOT
from tests.cli.conftest import Windlass
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE
from windlass.cli import windlass as command_line
from windlass.features import open_store
from windlass.model import JobFilter, NewJob, State
from windlass.store.migrate import status
from windlass.urls import without_secrets

APP = "import windlass\napp = windlass.App({url})\n\n\n@app.cron('0 6 * * *')\ndef tidy() -> None: ...\n"


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path, fresh_postgres: FreshPostgres) -> str:
    """A database without Windlass's tables."""
    return "sqlite:///mine.db" if request.param == "sqlite" else fresh_postgres(empty=True)


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windlass: Windlass, request: pytest.FixtureRequest
) -> Iterator[Path]:
    """A folder of its own that commands are called in, with modules of its own."""
    made = tmp_path / "project"
    made.mkdir()
    monkeypatch.chdir(made)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(made))
    yield made
    for name in set(sys.modules) - before:
        if name.startswith("shop_"):
            del sys.modules[name]


def files(folder: Path) -> set[str]:
    """The files of a folder, without those that SQLite keeps beside its own."""
    return {item.name for item in folder.iterdir() if not item.name.endswith(("-wal", "-shm", "__pycache__"))}


def say_in_file(folder: Path, url: str) -> None:
    (folder / "windlass.toml").write_text(f"[database]\nurl = {json.dumps(url)}\n")


def test_migrate_makes_the_tables_of_the_database_in_the_file_and_of_no_other(
    folder: Path, empty_url: str, windlass: Windlass
) -> None:
    """It made a stray windlass.db beside the file, reported success, and the app failed as before."""
    say_in_file(folder, empty_url)
    done = windlass("db", "migrate")
    assert done.code == 0, done.err
    assert f"{without_secrets(empty_url)} ({folder}/windlass.toml) is up to date" in done.err
    assert files(folder) == {"windlass.toml"} | ({"mine.db"} if empty_url.startswith("sqlite") else set())
    assert windlass("db", "status").code == 0
    assert windlass("db", "status", "--url", empty_url).code == 0


COMMANDS = (
    ("db", "migrate"),
    ("db", "status"),
    ("db", "sql"),
    ("db", "prune"),
    ("db", "merge-history"),
    ("schedules", "ls"),
    ("schedules", "show", "tidy"),
    ("schedules", "pause", "tidy"),
    ("schedules", "resume", "tidy"),
    ("schedules", "run", "tidy"),
    ("schedules", "rm", "tidy"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_any_url_nothing_is_made_and_the_cure_is_named(
    folder: Path, windlass: Windlass, command: tuple[str, ...]
) -> None:
    refused = windlass(*command)
    assert refused.code == 2 and refused.out == "" and files(folder) == set()
    for cure in ("--url", "--app", "WINDLASS_DATABASE_URL", "windlass.toml"):
        assert cure in refused.err


def test_the_default_file_is_used_where_it_exists(folder: Path, windlass: Windlass) -> None:
    open_store("sqlite:///windlass.db").close()
    done = windlass("db", "migrate")
    assert (done.code, done.err) == (0, "sqlite:///windlass.db (default) is up to date\n")


def test_every_command_of_a_database_takes_an_app_and_a_url() -> None:
    def leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for name, child in command.commands.items():
                yield from leaves(child, f"{path} {name}".strip())
        else:
            yield path, command

    without = {
        path
        for path, command in leaves(command_line, "")
        if not {"--app", "--url"} <= {option for item in command.params for option in item.opts}
    }
    assert without == {"completion", "demo", "init"}, "which have no database, or one of their own"


def test_commands_work_on_the_database_of_an_app(folder: Path, empty_url: str, windlass: Windlass) -> None:
    (folder / "shop_code.py").write_text(APP.format(url=repr(empty_url)))
    app = ("--app", "shop_code:app")
    assert windlass("db", "status", *app).code == 1
    assert windlass("db", "migrate", *app).err.endswith(
        f"{without_secrets(empty_url)} (code) is up to date\n"
    )
    with open_store(empty_url) as store:
        store.enqueue([NewJob(kind="tidy")])
        (lease,) = (holder := store.join()).claim("tidy", 1)
        holder.complete(lease)
        holder.leave()
    assert windlass("db", "prune", *app, "--completed", "0s", "-o", "json").json() == [
        {"removed": 1, "archived": 0}
    ]
    assert windlass("schedules", "ls", *app, "-o", "json").json() == []
    assert "windlass.db" not in files(folder)


WORKER = (
    *(sys.executable, "-m", "windlass", "worker"),
    *("--app", "tests.cli.worker_app:app", "--drain", "--log", "json"),
)
ORDER = ("flag --url", "code", "environment WINDLASS_DATABASE_URL", "windlass.toml", "default")


@pytest.mark.parametrize("first", range(len(ORDER)), ids=ORDER)
def test_the_first_source_that_has_a_url_wins(
    folder: Path, windlass: Windlass, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """All sources from the one under test on have a URL, those before it have none."""
    has = {source: place >= first for place, source in enumerate(ORDER)}
    if has["windlass.toml"]:
        say_in_file(folder, "sqlite:///file.db")
    if has["environment WINDLASS_DATABASE_URL"]:
        monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://me:hunter2@db/environment")
    module = f"shop_order_{first}"
    (folder / f"{module}.py").write_text(APP.format(url="'sqlite:///code.db'" if has["code"] else ""))
    flag = ("--url", "postgresql://me:hunter2@db/flag") if has["flag --url"] else ()
    shown = windlass("config", "show", "--app", f"{module}:app", "--changed", "-o", "json", *flag)
    (row,) = [row for row in shown.json() if row["key"] == "database.url"]
    wanted = (
        "postgresql://me:***@db/flag",
        "sqlite:///code.db",
        "postgresql://me:***@db/environment",
        "sqlite:///file.db",
        "sqlite:///windlass.db",
    )
    origin = str(folder / "windlass.toml") if ORDER[first] == "windlass.toml" else ORDER[first]
    assert (row["value"], row["origin"]) == (wanted[first], origin)
    assert files(folder) <= {"windlass.toml", f"{module}.py"}, "nothing was opened"


def test_an_app_that_was_opened_at_import_is_refused_with_a_url(folder: Path, windlass: Windlass) -> None:
    """Its jobs would be elsewhere than the command says."""
    (folder / "shop_open.py").write_text(APP.format(url="'sqlite:///open.db'") + "\napp.store.now()\n")
    refused = windlass("db", "status", "--app", "shop_open:app", "--url", "sqlite:///other.db")
    assert refused.code == 2 and "has not opened its database" in refused.err and "open.db" in refused.err
    sys.modules["shop_open"].app.close()


def test_tables_are_changed_on_the_way_around_a_pooler(
    folder: Path, windlass: Windlass, fresh_postgres: FreshPostgres
) -> None:
    """A pooler in transaction mode cannot hold the migrators' lock."""
    direct = fresh_postgres(empty=True)
    text = (
        f"[database]\nurl = 'postgresql://pooler:1/app'\ndirect_url = {json.dumps(direct)}\npooled = true\n"
    )
    (folder / "windlass.toml").write_text(text)
    assert windlass("db", "status").code == 1
    done = windlass("db", "migrate")
    assert done.code == 0 and f"{without_secrets(direct)} ({folder / 'windlass.toml'})" in done.err
    assert "pooler:1" not in done.err, "the text names the database that was used"
    assert windlass("db", "status").code == 0
    elsewhere = windlass("db", "status", "--url", "sqlite:///other.db")
    assert elsewhere.code == 1 and "other.db" in elsewhere.err, "the way belongs to the database of the file"


@pytest.mark.parametrize("by", ["code", "environment"])
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_migrate_changes_the_database_that_it_names(
    by: str,
    dialect: str,
    folder: Path,
    windlass: Windlass,
    fresh_postgres: FreshPostgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It migrated the direct_url of the file, and named the URL that had replaced the file's."""
    old = fresh_postgres(empty=True)
    new = "sqlite:///new.db" if dialect == "sqlite" else fresh_postgres(empty=True)
    (folder / "windlass.toml").write_text(
        f"[database]\nurl = 'postgresql://pooler:1/app'\ndirect_url = {json.dumps(old)}\npooled = true\n"
    )
    arguments: tuple[str, ...] = ()
    if by == "code":
        (folder / f"shop_{dialect}.py").write_text(APP.format(url=repr(new)))
        arguments = ("--app", f"shop_{dialect}:app")
    else:
        monkeypatch.setenv("WINDLASS_DATABASE_URL", new)
    done = windlass("db", "migrate", *arguments)
    assert done.code == 0 and f"{without_secrets(new)} ({by}" in done.err, done.err
    assert windlass("db", "status", *arguments).code == 0
    assert not status(new).pending
    assert status(old).pending, "another database, which nothing named"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name the app to serve"),
        (("a:app", "--app", "b:app"), "two apps are named, a:app and --app b:app"),
    ],
)
def test_a_worker_serves_one_app(windlass: Windlass, arguments: tuple[str, ...], told: str) -> None:
    answer = windlass("worker", *arguments)
    assert answer.code == 2 and told in answer.err


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.one_database
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_worker_with_a_url_keeps_to_it_in_all_its_processes(
    dialect: str, tmp_path: Path, fresh_postgres: FreshPostgres
) -> None:
    """Its first line names the database. What a handler enqueues in a process of its own is there, too."""
    url = fresh_postgres() if dialect == "postgresql" else f"sqlite:///{tmp_path}/flag.db"
    with open_store(url) as store:
        (job,) = store.enqueue([NewJob(kind="pass_on", args={"name": "child"})])
        worker = subprocess.run(
            [*WORKER, "--url", url],
            cwd=ROOT,
            env={**os.environ, "WINDLASS_DATABASE_URL": f"sqlite:///{tmp_path / 'environment.db'}"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert worker.returncode == 0, worker.stderr
        first = json.loads(worker.stderr.splitlines()[0])
        assert (first["event"], first["fields"]["origin"]) == ("store.chosen", "flag --url")
        assert first["fields"]["database"] == without_secrets(url)
        assert store.jobs.get(job.id).state is State.COMPLETED, worker.stderr
        (child,) = store.jobs.list(JobFilter(kind="hello")).jobs
        assert child.result == "hello child"
    assert not (tmp_path / "environment.db").exists()
