"""``windlass worker`` with options, targets, addresses and databases that cannot work: named before anything is claimed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.bench import ROOT, TARGET, Bench, heard
from tests.cli.conftest import Windlass
from tests.waiting import PATIENCE
from windlass.cli.worker import _address
from windlass.examples.embedded.postgres import PostgresServer
from windlass.features import open_store
from windlass.model import NewJob, State
from windlass.store.migrate import migrate

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


@pytest.mark.parametrize(
    ("text", "address"),
    [("9100", ("127.0.0.1", 9100)), ("[::1]:0", ("::1", 0)), ("::1:0", ("::1", 0)), ("here:1", ("here", 1))],
)
def test_an_address_may_have_the_brackets_of_a_url(text: str, address: tuple[str, int]) -> None:
    assert _address(text) == address


def test_an_address_that_cannot_be_had_is_named_before_anything_is_claimed(bench: Bench) -> None:
    """The engine was started first, claimed jobs, and its process ended without giving them back."""
    app = bench.app()
    job = app.wait.enqueue(seconds=60)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker = bench.worker("--metrics", str(taken.getsockname()[1]))
        output, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 2 and "Traceback" not in errors, errors
    assert "an address this process may listen on" in errors and "instance.started" not in errors
    assert output == "" and bench.store.instances.list() == []
    assert (bench.store.jobs.get(job.id).state, bench.store.jobs.get(job.id).attempt) == (State.QUEUED, 0)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["tests.cli.nothing:app"], "there is no module 'tests.cli.nothing'"),
        (["tests.cli.worker_app:nope"], "tests.cli.worker_app has tests.cli.worker_app:app"),
        (["tests.cli.worker_app:"], "module:attribute"),
        ([TARGET, "--set", "lease=soon"], "lease = 'soon'"),
        ([TARGET, "--set", "leese=3"], "one of"),
        ([TARGET, "--set", "database_url=x"], "one of"),
        ([TARGET, "--set", "lease"], "NAME=VALUE"),
        ([TARGET, "--set", "lease=inf"], "lease = 'inf'"),
        ([TARGET, "--set", "processors=3"], "use --phase NAME=N"),
        ([TARGET, "--set", "processors=none"], "use --phase NAME=N"),
        ([TARGET, "--set", "phases=hello"], "use --phase NAME"),
        ([TARGET, "--set", "phases=none"], "use --phase NAME"),
        ([TARGET, "--set", "memory_limit=much"], "a whole number from"),
        ([TARGET, "--set", "page=1.5"], "page = '1.5' cannot be used: it must be a whole number from"),
        (
            [TARGET, "--set", "worker.lease=soon"],
            "worker.lease = 'soon' cannot be used: it must be a number of seconds",
        ),
        ([TARGET, "--set", "worker.leese=3"], "did you mean worker.lease?"),
        ([TARGET, "--set", "lease="], "lease = '' cannot be used: it must be a number of seconds"),
        ([TARGET, "--set", "=3"], "one of"),
        ([TARGET, "--set", "worker.processors=hello=3"], "use --phase NAME=N"),
        ([TARGET, "--set", "database.url=sqlite:///x.db"], "use --url URL"),
        ([TARGET, "--set", "background.retry.attempts=3"], "by WINDLASS_BACKGROUND_RETRY_ATTEMPTS"),
        ([TARGET, "--phase", "hallo"], "did you mean hello?"),
        ([TARGET, "--phase", "hal*"], "a pattern that matches a phase or a kind; phases: hello,"),
        ([TARGET, "--set", "groups=hello"], "[worker.groups] of windlass.toml"),
        ([TARGET, "--phase", "hello=many"], "whole number"),
        ([TARGET, "--phase", "hello=²"], "whole number"),
        ([TARGET, "--metrics", "here"], "HOST:PORT"),
        ([TARGET, "--metrics", "²"], "HOST:PORT"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], told: str, windlass: Windlass, monkeypatch: pytest.MonkeyPatch, sqlite_path: Path
) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{sqlite_path}")
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = windlass("worker", *arguments, "--drain")  # a mistake that is overlooked must not serve for ever
    assert done.code == 2 and told in done.err and "Traceback" not in done.err, done.err
    assert done.err.count("error:") == 1 and done.out == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([TARGET, "--set", "lease=soon"], "lease = 'soon'"),
        ([TARGET, "--processes", "2", "--metrics", "here"], "HOST:PORT"),
        ([TARGET, "--processes", "2", "--metrics", "65535"], "room for 2 processes"),
        ([TARGET, "--processes", "2", "--phase", "nosuch"], "nosuch"),
        ([TARGET, "--processes", "2", "--set", "processors=3"], "--phase NAME=N"),
        (["tests.cli.nothing:app", "--processes", "2"], "there is no module 'tests.cli.nothing'"),
        (["tests.cli.unready_app:app", "--processes", "2"], "is not provided"),
    ],
)
def test_mistakes_are_named_and_nothing_is_started(
    arguments: list[str], told: str, sqlite_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", *arguments],
        cwd=ROOT,
        env={**os.environ, "WINDLASS_DATABASE_URL": f"sqlite:///{sqlite_path}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("error:") == 1 and "starting another" not in done.stderr


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        ("shop.py:app", "", "a module, not a file: shop:app"),
        ("./pkg/shop.py", "", "a module, not a file: pkg.shop:app"),
        ("shop:app", "import windlass\napp = windlass.App()\n", "none are defined; shop must import"),
        (
            "shop:make",
            "import windlass\ndef make(): return windlass.App()\n",
            "this is a function; make the app",
        ),
        ("shop:app", "jobs = []\n", "shop has none at its top"),
        pytest.param(
            "shop:app",
            "import pkg.other\n",
            "imports 'pkg', which is neither installed nor here",
            marks=pytest.mark.long,
        ),
        ("shop:app", "x = 1\ndef oops(:\n", "(shop.py:2)"),
        (
            "shop:app",
            "import windlass\napp = windlass.App()\n\n@app.job\ndef a(): ...\n\n@app.job(name='a')\ndef b(): ...\n",
            "(shop.py:7)",
        ),
        pytest.param("shop:app", "import json\njson.loads('{')\n", "(shop.py:2)", marks=pytest.mark.long),
    ],
)
def test_a_target_that_leads_nowhere_says_where_to_go(
    target: str, code: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", target, "--drain"],
        cwd=tmp_path,
        env={**os.environ, "WINDLASS_DATABASE_URL": f"sqlite:///{tmp_path / 'jobs.db'}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("url", "code", "told"),
    [
        ("postgresql://windlass@127.0.0.1:1/nowhere?connect_timeout=2", 69, "does not answer"),
        ("sqlite:///{here}", 1, "is not a SQLite database"),
    ],
)
def test_a_database_that_cannot_be_used_ends_the_worker_however_many_processes(
    url: str, code: int, told: str, processes: str, tmp_path: Path
) -> None:
    """With several, each was started again and again."""
    (tmp_path / "jobs.db").write_text("a letter to grandmother, and no database at all\n" * 100)
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", TARGET, "--drain", "--processes", processes],
        cwd=ROOT,
        env={**os.environ, "WINDLASS_DATABASE_URL": url.format(here=tmp_path / "jobs.db")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code and told in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "starting another" not in done.stderr


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_can_wait_for_its_database(
    own_postgres: Callable[..., PostgresServer], processes: str
) -> None:
    """One that is started while the server (or a pooler before it) is down."""
    server = own_postgres(durable=True)
    migrate(server.dsn())
    with open_store(server.dsn()) as store:
        (job,) = store.enqueue([NewJob(kind="hello", args={"name": "x"})])
    server.crash()

    def start(patience: str) -> subprocess.Popen[str]:
        options = ("--drain", "--log", "json", "--processes", processes, "--wait-for-database", patience)
        return subprocess.Popen(
            [sys.executable, "-m", "windlass", "worker", TARGET, *options],
            cwd=ROOT,
            env={**os.environ, "WINDLASS_DATABASE_URL": server.dsn()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with start("1") as hasty:
        errors = hasty.communicate(timeout=PATIENCE)[1]
        assert hasty.returncode == 69 and "does not answer" in errors, errors
    with start("100") as patient:
        errors = heard(patient, "store.awaited")
        server.start()
        errors += patient.communicate(timeout=PATIENCE)[1]
        assert patient.returncode == 0, errors
    with open_store(server.dsn()) as store:
        assert store.jobs.get(job.id).result == "hello x"
