"""Whose log a worker writes: the application's own where there is one, else its own on standard error."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integrations.running import environment
from tests.waiting import PATIENCE
from windlass.features import open_store
from windlass.model import NewJob
from windlass.observe import application_logs
from windlass.observe.application_logs import Logging

pytestmark = [pytest.mark.one_database, pytest.mark.timing]

BASIC = 'logging.basicConfig(filename="app.log", level=logging.INFO, format="%(name)s %(message)s")'
DICT = """import logging.config
logging.config.dictConfig({  # disable_existing_loggers is True, as it is by default
    "version": 1,
    "formatters": {"short": {"format": "%(name)s %(message)s"}},
    "handlers": {"file": {"class": "logging.FileHandler", "filename": "app.log", "formatter": "short"}},
    "root": {"handlers": ["file"], "level": "INFO"},
})"""
APP = """import logging
import windlass
{configuration}
logging.getLogger("shop").warning("imported")
app = windlass.App("sqlite:///jobs.db"{arguments})

@app.job
def speak() -> None:
    logging.getLogger("shop").info("from a thread")

@app.job(executor="process")
def shout() -> None:
    logging.getLogger("shop").info("from a child")
"""


OWN = """
def own(value):
    return value.replace("from a", "by a") if isinstance(value, str) else value
"""


def work(folder: Path, configuration: str, *options: str, arguments: str = "") -> tuple[str, str]:
    """Run a worker of an app with this configuration; its file and its standard error."""
    app = APP.replace("{configuration}", configuration).replace("{arguments}", arguments)
    (folder / "shop.py").write_text(app)
    with open_store(f"sqlite:///{folder}/jobs.db") as store:
        store.enqueue([NewJob(kind="speak"), *([NewJob(kind="shout")] if configuration else [])])
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", "shop", "--drain", *options],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    log = folder / "app.log"
    return log.read_text() if log.exists() else "", done.stderr


@pytest.mark.parametrize("configuration", [BASIC, DICT], ids=["basicConfig", "dictConfig"])
def test_the_logging_of_the_application_gets_the_lines(configuration: str, tmp_path: Path) -> None:
    written, errors = work(tmp_path, configuration, "--level", "error")
    assert errors == "", "the worker has no handler of its own"
    lines = written.splitlines()
    assert "shop imported" in lines and "shop from a thread" in lines and "shop from a child" in lines
    assert any(line.startswith("windlass.engine ") and "stopped" in line for line in lines), written
    assert any("--level error has no effect" in line for line in lines), written


def test_without_a_configuration_the_worker_has_its_own(tmp_path: Path) -> None:
    written, errors = work(tmp_path, "")
    lines = [json.loads(line) for line in errors.splitlines()]
    messages = [line["message"] for line in lines]
    assert {"imported", "from a thread"} <= set(messages) and not written
    assert {"instance.started", "instance.stopped"} <= {line["event"] for line in lines}


def test_the_redaction_of_the_app_is_applied_in_the_worker_and_its_children(tmp_path: Path) -> None:
    written, errors = work(tmp_path, OWN, arguments=", redact=own")
    messages = [json.loads(line)["message"] for line in errors.splitlines()]
    assert {"by a thread", "by a child"} <= set(messages) and not written


def test_log_none_never_touches_logging(tmp_path: Path) -> None:
    written, errors = work(tmp_path, "", "--log", "none")
    assert (written, errors) == ("", "imported\n"), "as Python does it without a configuration"


def test_the_own_log_of_the_worker_wins_where_it_is_asked_for(tmp_path: Path) -> None:
    written, errors = work(tmp_path, DICT, "--log", "json")
    assert any(json.loads(line)["event"] == "instance.started" for line in errors.splitlines())
    assert "shop from a thread" in written and "windlass" not in written


def test_a_django_project_is_asked_for_its_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose lines lead nowhere, for example with LOGGING for one logger of the project's own."""
    from django.conf import settings

    from tests.transactions import django_project  # noqa: F401  configures Django

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert application_logs.find() is Logging.NOBODY
    monkeypatch.setattr(settings, "LOGGING", {"version": 1, "loggers": {"shop": {}}})
    assert application_logs.find() is Logging.APPLICATION_WITHOUT_US
    monkeypatch.setattr(logging.getLogger("windlass"), "handlers", [logging.NullHandler()])
    assert application_logs.find() is Logging.APPLICATION
