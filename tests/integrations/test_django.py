"""Django: a project with jobs, on both databases, with its commands and its test runner."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured

import tests.callers.django_project  # noqa: F401  configures Django for this process
from tests.integrations.running import run, write_example
from tests.servers.plugin import FreshPostgres
from windlass.integrations.django.project import read_settings, url_of
from windlass.model import JobFilter, State
from windlass.store import open_store

PLACE = "from django.test import Client; print(Client().post('/orders').json()['order'])"
ROLL_BACK = """
from django.db import connection, transaction
from shop.jobs import confirm
try:
    with transaction.atomic():
        confirm.enqueue_in(connection, order_id=99)
        raise RuntimeError
except RuntimeError:
    pass
"""
HEAVY = """

@app.job(executor="process")
def heavy(n: int) -> int:
    return Order.objects.count() + n


@app.job
async def counted(n: int) -> int:
    return await Order.objects.acount() + n
"""
TESTS = """
from django.db import connection, transaction
from django.test import Client, TestCase
from shop.jobs import confirm
from shop.models import Order


def jobs() -> int:
    with connection.cursor() as cursor:
        table = "windlass_jobs" if connection.vendor == "sqlite" else "windlass.jobs"
        cursor.execute(f"SELECT count(*) FROM {table}")
        return cursor.fetchone()[0]


class OrderTest(TestCase):
    def test_an_order_has_a_job(self):
        self.assertEqual(Client().post("/orders").status_code, 202)
        self.assertEqual((Order.objects.count(), jobs()), (1, 1))

    def test_each_test_begins_with_none(self):
        self.assertEqual(jobs(), 0)
        with transaction.atomic():
            confirm.enqueue_in(connection, order_id=1, key="k")
        self.assertEqual(jobs(), 1)
"""


def manage(project: Path, *arguments: str, expect: int = 0) -> str:
    return run(project, "manage.py", *arguments, expect=expect)


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, tmp_path: Path) -> Path:
    """The project of the guide, with jobs in a child process and on the event loop besides."""
    write_example("django", tmp_path)
    with (tmp_path / "shop" / "jobs.py").open("a") as file:
        file.write(HEAVY)
    (tmp_path / "shop" / "tests.py").write_text(TESTS)
    if request.param == "postgresql":
        parts = urlsplit(fresh_postgres(empty=True))
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path.removeprefix("/"),
            "USER": parts.username,
            "PASSWORD": unquote(parts.password or ""),
            "HOST": parts.hostname,
            "PORT": parts.port,
            "TEST": {"NAME": f"{parts.path.removeprefix('/')}_django"},
        }
        with (tmp_path / "project" / "settings.py").open("a") as file:
            file.write(f'\nDATABASES["default"] = {database!r}\n')
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_project_with_jobs(project: Path) -> None:
    manage(project, "makemigrations", "shop", "--verbosity", "0")
    said = manage(project, "migrate")
    assert "Windlass: start" in said, "its tables come with Django's own"
    assert "Windlass:" not in manage(project, "migrate"), "and only once"
    assert manage(project, "shell", "--verbosity", "0", "-c", PLACE).strip() == "1"
    manage(project, "shell", "--verbosity", "0", "-c", ROLL_BACK)
    more = "from shop.jobs import heavy, counted; heavy.enqueue(n=10); counted.enqueue(n=20)"
    manage(project, "shell", "--verbosity", "0", "-c", more)
    manage(project, "windlass_worker", "--drain", "--level", "warning", "--grace", "5", "--set", "lease=20")
    asked = (
        "from windlass.integrations.django import app; from shop.models import Order\n"
        "print(sorted((job.kind, job.state.value, job.result) for job in app.store.jobs.list().jobs))\n"
        "print(Order.objects.get().state)"
    )
    lines = manage(project, "shell", "--verbosity", "0", "-c", asked).strip().splitlines()
    assert lines == [
        "[('confirm', 'completed', 'order 1'), ('counted', 'completed', 21), ('heavy', 'completed', 11)]",
        "confirmed",
    ]
    said = manage(project, "windlass_worker", "--phase", "nothing", expect=2)
    assert "one of the phases that are defined" in said
    assert "--drain" in manage(project, "windlass_worker", "--help")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_test_runner_of_the_project(project: Path) -> None:
    """Test databases have the tables, also SQLite's in memory, and a TestCase takes its jobs back."""
    manage(project, "makemigrations", "shop", "--verbosity", "0")
    manage(project, "test", "--verbosity", "0")


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


def test_jobs_are_found_and_kept(project: Path) -> None:
    """What `enqueue` stores outside of a transaction is there for a store of another process."""
    manage(project, "makemigrations", "shop", "--verbosity", "0")
    manage(project, "migrate", "--verbosity", "0")
    said = manage(
        project,
        "shell",
        "--verbosity",
        "0",
        "-c",
        "from windlass.integrations.django import app; from shop.jobs import confirm; confirm.enqueue(order_id=5); "
        "print(app.url); print(sorted(kind.name for kind in app.registry))",
    )
    url, kinds = said.strip().splitlines()
    assert kinds == "['confirm', 'counted', 'heavy']"
    with open_store(url) as store:
        (job,) = store.jobs.list(JobFilter()).jobs
        assert job.state is State.QUEUED and job.args == {"order_id": 5}
