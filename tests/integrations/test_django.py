"""Django: a project with jobs, on both databases, with its commands and its test runner."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from urllib.parse import urlsplit

import click
import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.integrations.running import run, write_example
from tests.servers.plugin import FreshPostgres
from tests.transactions import django_project  # also configures Django for this process
from windlass.cli.worker import worker
from windlass.features import open_store
from windlass.integrations.django.management.commands.windlass_worker import Command
from windlass.integrations.django.project import read_settings, url_of
from windlass.model import JobFilter, State

pytestmark = pytest.mark.timing

SUBMIT = """
from io import StringIO
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from shop.jobs import confirm, counted, heavy
from windlass.integrations.django import app

placed = Client().post("/orders").json()
try:
    with transaction.atomic():
        confirm.enqueue_in(connection, order_id=99)
        raise RuntimeError
except RuntimeError:
    pass
heavy.enqueue(n=10)
counted.options(after=[placed["job"]]).enqueue(n=20)
said = StringIO()
call_command("migrate", run_syncdb=True, stdout=said)
print(app.url)
print(sorted(kind.name for kind in app.parts.registry))
print("Windlass:" in said.getvalue())
"""
HEAVY = """

@app.job(executor="process")
def heavy(n: int) -> int:
    return Order.objects.count() + n


@app.job
async def counted(n: int) -> int:
    return await Order.objects.filter(state="confirmed").acount() + n
"""
JOBS = """

@app.job
def mailed(to: str) -> None:
    from django.core.mail import send_mail

    send_mail("hello", "", None, [to])


@app.job
def moved(ctx: Context, order_id: int) -> str:
    with ctx.transaction() as tx:
        mark = "?" if connection.vendor == "sqlite" else "%s"
        tx.connection.execute(f"UPDATE shop_order SET note = 'moved' WHERE id = {mark}", (order_id,))
        mailed.enqueue_in(tx, to="ada")
        tx.complete("moved")


@app.job
def fails(ctx: Context, order_id: int) -> None:
    with transaction.atomic():
        Order.objects.filter(id=order_id).update(note="half")
        raise ValueError("on purpose")


@app.job
def later() -> str:
    return "later"


@app.job
async def waits(n: int) -> int:
    return counted.enqueue(n=n).result() + await (await counted.enqueue_async(n=n)).result_async()
"""
CASES = Path(__file__).parent / "django_tests" / "cases.py"
LOGGING = """
LOGGING = {
    "version": 1,  # existing loggers are disabled, as they are by default
    "formatters": {"plain": {"format": "%(levelname)s %(name)s %(message)s"}},
    "handlers": {
        "file": {"class": "logging.FileHandler", "filename": "shop.log", "formatter": "plain"}
    },
    "root": {"handlers": ["file"], "level": "INFO"},
}
"""


def manage(project: Path, *arguments: str, expect: int = 0, **variables: str) -> str:
    return run(project, "manage.py", *arguments, expect=expect, **variables)


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, tmp_path: Path) -> Path:
    """The project of the guide, with jobs in a child process and on the event loop besides."""
    write_example("django", tmp_path)
    with (tmp_path / "shop" / "jobs.py").open("a") as file:
        file.write(HEAVY)
    (tmp_path / "shop" / "__init__.py").touch()  # `startapp` makes one, and the test runner looks for it
    if request.param == "postgresql":
        url = fresh_postgres(empty=True)
        test = {"TEST": {"NAME": f"{urlsplit(url).path.removeprefix('/')}_django"}}
        with (tmp_path / "project" / "settings.py").open("a") as file:
            file.write(f'\nDATABASES["default"] = {django_project.database(url) | test!r}\n')
    return tmp_path


@pytest.mark.slow
@pytest.mark.one_database
def test_a_project_with_jobs(project: Path) -> None:
    said = manage(project, "migrate", "--run-syncdb")
    assert "Windlass: start" in said, "its tables come with Django's own"
    show = ("-m", "windlass", "config", "show", "--app", "windlass.integrations.django:app", "--changed")
    shown = run(project, *show, DJANGO_SETTINGS_MODULE="project.settings")
    assert "Django's DATABASES['default']" in shown, "commands find the project's database"
    url, kinds, *said_again = manage(project, "shell", "--verbosity", "0", "-c", SUBMIT).strip().splitlines()
    assert kinds == "['confirm', 'counted', 'heavy']", "jobs are found by themselves"
    assert said_again == ["False"], "there is nothing to migrate a second time"
    with open_store(url) as store:
        before = store.jobs.list(JobFilter()).jobs
        assert sorted((job.kind, job.state) for job in before) == [
            ("confirm", State.QUEUED),
            ("counted", State.WAITING),
            ("heavy", State.QUEUED),
        ], "and the one that was rolled back never existed"
        manage(
            project, "windlass_worker", "--drain", "--level", "warning", "--grace", "5", "--set", "lease=20"
        )
        after = {job.kind: (job.state, job.result) for job in store.jobs.list(JobFilter()).jobs}
    assert after == {
        "confirm": (State.COMPLETED, "order 1"),
        "counted": (State.COMPLETED, 21),
        "heavy": (State.COMPLETED, 11),
    }


def test_the_worker_command_has_the_options_of_the_worker() -> None:
    parser = ArgumentParser()
    Command().add_arguments(parser)
    has = {name for action in parser._actions for name in action.option_strings}
    options = [item for item in worker.params if isinstance(item, click.Option) and not item.hidden]
    assert {item.opts[0] for item in options} - has == {"--app", "--url"}, "these are the project's own"


def test_the_worker_command_refuses_what_the_worker_refuses(tmp_path: Path) -> None:
    write_example("django", tmp_path)
    said = manage(tmp_path, "windlass_worker", "--phase", "nothing", expect=2)
    assert "a name that is defined; phases: confirm" in said


@pytest.mark.parametrize(
    ("module", "added", "cause"),
    [
        ("", "", "DJANGO_SETTINGS_MODULE = '' cannot be used: it must be the settings module of the project"),
        ("nope.settings", "", "there is no module 'nope' here: start in the folder that holds it"),
        ("project.settings", "WINDLASS = {'DATABSE': 'default'}", "WINDLASS['DATABSE'] is unknown; did you mean DATABASE?"),
        pytest.param("project.settings", "WINDLASS = {'CONFIG': {'worker.leese': 1}}", "worker.leese", marks=pytest.mark.long),
        pytest.param("project.settings", "import nowhere", "it imports 'nowhere', which is neither installed nor here", marks=pytest.mark.long),
        pytest.param("project.settings", "1 / 0", "importing it raised ZeroDivisionError: division by zero (settings.py:", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_commands_name_what_keeps_the_project_from_loading(
    tmp_path: Path, module: str, added: str, cause: str
) -> None:
    """In one line, as a mistake of the caller, without a traceback."""
    write_example("django", tmp_path)
    with (tmp_path / "project" / "settings.py").open("a") as file:
        file.write(f"\n{added}\n")
    show = ("-m", "windlass", "config", "show", "--app", "windlass.integrations.django:app")
    said = run(tmp_path, *show, expect=2, DJANGO_SETTINGS_MODULE=module)
    assert cause in said and said.startswith("error: ") and said.count("\n") == 1, said


def test_the_workers_lines_go_where_logging_says(tmp_path: Path) -> None:
    """The worker replaced the project's LOGGING by its own handler, and the file stayed empty."""
    write_example("django", tmp_path)
    with (tmp_path / "project" / "settings.py").open("a") as file:
        file.write(LOGGING)
    manage(tmp_path, "migrate", "--run-syncdb", "--verbosity", "0")
    log = tmp_path / "shop.log"
    log.unlink()
    manage(tmp_path, "windlass_worker", "--drain")
    assert "windlass.engine" in log.read_text() and "stopped" in log.read_text()


@pytest.mark.slow
def test_the_tests_of_the_project(project: Path) -> None:
    """A session of Windlass's own kept the test database of PostgreSQL from being dropped, and SQLite's in memory became a file."""
    (project / "shop" / "tests.py").write_text(CASES.read_text())
    with (project / "shop" / "jobs.py").open("a") as file:
        file.write(JOBS)
    with (project / "shop" / "models.py").open("a") as file:
        file.write('    note = models.CharField(max_length=20, default="")\n')
    before = {path.name for path in project.iterdir()}
    said = manage(project, "test", "--verbosity", "1", WINDLASS_DATABASE_URL="sqlite:///never.db")
    assert f"Found {CASES.read_text().count('def test_')} test(s)." in said
    assert {path.name for path in project.iterdir()} - before <= {"__pycache__"}


@pytest.mark.parametrize(
    ("database", "wanted"),
    [
        ({"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/a b.db"}, "sqlite:////srv/a%20b.db"),
        ({"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}, "postgresql:///shop?"),
        (
            {
                "ENGINE": "django.contrib.gis.db.backends.postgis",
                "NAME": "shop",
                "USER": "me@home",
                "PASSWORD": "p/w &x",
                "HOST": "/var/run/postgresql",
                "PORT": 5433,
                "OPTIONS": {"sslmode": "require", "pool": True, "isolation_level": 3},
            },
            "postgresql:///shop?sslmode=require&host=%2Fvar%2Frun%2Fpostgresql&port=5433&user=me%40home&password=p%2Fw%20%26x",
        ),
    ],
)
def test_a_database_of_the_settings_as_a_url(database: dict[str, object], wanted: str) -> None:
    assert url_of(database) == wanted
    if wanted.startswith("postgresql"):
        read = psycopg.conninfo.conninfo_to_dict(wanted)
        assert read["dbname"] == "shop" and read.get("password") == database.get("PASSWORD")


def test_another_kind_of_database_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"PostgreSQL or SQLite, not django\.db\.backends\.mysql"):
        url_of({"ENGINE": "django.db.backends.mysql", "NAME": "shop"})


def test_a_setting_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.conf import settings

    monkeypatch.setattr(settings, "WINDLASS", {"DATABSE": "default"}, raising=False)
    with pytest.raises(ImproperlyConfigured, match=r"'DATABSE'.*DATABASE"):
        read_settings()


def test_a_project_without_the_app_is_told(tmp_path: Path) -> None:
    write_example("django", tmp_path)
    settings = tmp_path / "project" / "settings.py"
    settings.write_text(settings.read_text().replace(', "windlass.integrations.django"', ""))
    said = run(
        tmp_path,
        "-c",
        "from windlass.integrations.django import app",
        expect=1,
        DJANGO_SETTINGS_MODULE="project.settings",
    )
    assert "add 'windlass.integrations.django' to INSTALLED_APPS" in said
