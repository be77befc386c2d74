"""Django: a project with jobs, on both databases, with its commands and its test runner."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.integrations.running import run, write_example
from tests.servers.plugin import FreshPostgres
from tests.transactions import django_project  # also configures Django for this process
from windlass.features import open_store
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
counted.enqueue(n=20, after=[placed["job"]])
said = StringIO()
call_command("migrate", run_syncdb=True, stdout=said)
print(app.url)
print(sorted(kind.name for kind in app.registry))
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
TESTS = """
from unittest import skipIf
from django.db import connection, transaction
from django.test import Client, TestCase, TransactionTestCase
from django.utils import timezone
from shop.jobs import confirm
from shop.models import Order
from windlass.integrations.django import app
from windlass.testing import Sandbox


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


@skipIf(connection.vendor == "sqlite", "its test database is in memory")
class RunTest(TransactionTestCase):
    def test_an_order_is_confirmed(self):
        order = self.client.post("/orders").json()["order"]
        with Sandbox(app, url=app.url, start=timezone.now()) as box:
            box.drain()
        self.assertEqual(Order.objects.get(id=order).state, "confirmed")
"""


def manage(project: Path, *arguments: str, expect: int = 0) -> str:
    return run(project, "manage.py", *arguments, expect=expect)


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, tmp_path: Path) -> Path:
    """The project of the guide, with jobs in a child process and on the event loop besides."""
    write_example("django", tmp_path)
    with (tmp_path / "shop" / "jobs.py").open("a") as file:
        file.write(HEAVY)
    (tmp_path / "shop" / "__init__.py").touch()  # `startapp` makes one, and the test runner looks for it
    (tmp_path / "shop" / "tests.py").write_text(TESTS)
    if request.param == "postgresql":
        url = fresh_postgres(empty=True)
        test = {"TEST": {"NAME": f"{urlsplit(url).path.removeprefix('/')}_django"}}
        with (tmp_path / "project" / "settings.py").open("a") as file:
            file.write(f'\nDATABASES["default"] = {django_project.database(url) | test!r}\n')
    return tmp_path


@pytest.mark.slow
def test_a_project_with_jobs(project: Path) -> None:
    said = manage(project, "migrate", "--run-syncdb")
    assert "Windlass: start" in said, "its tables come with Django's own"
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


def test_the_worker_command_refuses_what_the_worker_refuses(tmp_path: Path) -> None:
    write_example("django", tmp_path)
    said = manage(tmp_path, "windlass_worker", "--phase", "nothing", expect=2)
    assert "one of the phases that are defined: confirm" in said


@pytest.mark.slow
def test_the_test_runner_of_the_project(project: Path) -> None:
    """Test databases have the tables, also SQLite's in memory, and a TestCase takes its jobs back."""
    said = manage(project, "test", "--verbosity", "1")
    assert "Found 3 test(s)." in said


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
