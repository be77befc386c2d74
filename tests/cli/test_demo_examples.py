"""``windlass demo``, the worked examples with users: to their end, interrupted, killed, and gone on with."""

from __future__ import annotations

import importlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from tests.cli.demos import Start, demos, finish
from tests.waiting import PATIENCE
from windlass import App
from windlass.cli import main
from windlass.errors import PayloadError
from windlass.features import open_store
from windlass.model import JobFilter
from windlass_examples.demo import run

pytestmark = [pytest.mark.slow, pytest.mark.timing]
command = importlib.import_module("windlass.cli.demo")  # the name in windlass.cli is the command
EXPORTS, SUMMARIES, ROWS = 24, 12, 60_000


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from demos(tmp_path)


def is_right(facts: dict[str, float]) -> None:
    assert facts["completed"] == facts["jobs"] > EXPORTS + SUMMARIES
    assert (facts["rows exported"], facts["results twice"], facts["results missing"]) == (ROWS, 0, 0)


def until_at_work(demo: subprocess.Popen[str]) -> None:
    """Read until an export has ended, and not all have."""
    assert demo.stderr is not None
    for line in iter(demo.stderr.readline, ""):
        if (found := re.search(r"exports (\d+)/\d+", line)) and 0 < int(found[1]) < EXPORTS:
            return
    raise AssertionError("it ended before it was at work")


def test_everything_completes_once_beside_the_dashboard(start: Start) -> None:
    demo = start()
    assert demo.stderr is not None
    (address,) = re.findall(r"^dashboard: (http://127.0.0.1:\d+/)$", demo.stderr.readline(), re.MULTILINE)
    (code,) = re.findall(rf"^Sign in .*: {address}login#(\S+)$", demo.stderr.readline(), re.MULTILINE)
    with httpx.Client(base_url=address, timeout=PATIENCE) as browser:
        assert browser.get("v1/jobs").status_code == 401
        assert browser.post("v1/session", json={"code": code}).status_code == 200
        assert "<title>" in browser.get("").text
        assert browser.get("v1/jobs").status_code == 200
        browser.cookies.clear()
        assert browser.post("v1/session", json={"code": code}).status_code == 401, "it works once"
    facts, _ = finish(demo)
    is_right(facts)
    assert facts["retries"] >= 1 and facts["duplicates prevented"] >= 1
    assert facts["phases completed"] == facts["jobs"] + 2 * (facts["jobs"] - EXPORTS - SUMMARIES)


@pytest.mark.long
def test_on_a_private_postgres_too(start: Start) -> None:
    facts, _ = finish(start("--postgres"))
    is_right(facts)


@pytest.mark.long
def test_after_ctrl_c_the_next_start_goes_on(start: Start, tmp_path: Path) -> None:
    first = start()
    until_at_work(first)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130 and "the next start continues with" in err
    assert '"results twice"' in out, "the table shows what was done"
    continues(start, tmp_path)


@pytest.mark.long
def test_after_a_kill_the_next_start_goes_on(start: Start, tmp_path: Path) -> None:
    first = start()
    until_at_work(first)
    first.kill()
    first.wait(PATIENCE)
    continues(start, tmp_path)


def continues(start: Start, folder: Path) -> None:
    with open_store(f"sqlite:///{folder}/windlass-demo.db") as store:
        before = {job.id for job in store.jobs.list(JobFilter(kind="hours"), limit=100).jobs}
        facts, err = finish(start())
        assert "continuing with" in err
        assert facts["completed"] == facts["jobs"]
        assert facts["results twice"] == facts["results missing"] == 0
        after = {job.id for job in store.jobs.list(JobFilter(kind="hours"), limit=100).jobs}
        assert after == before, "no second round was begun"


@pytest.mark.parametrize("form", [[], ["--kill"]], ids=["examples", "parcels"])
def test_a_file_that_cannot_be_made_is_one_line_as_for_db_migrate(start: Start, form: list[str]) -> None:
    demo = start("--file", "/nowhere/demo.db", *form)
    _, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 69
    assert err.startswith("error: /nowhere/demo.db cannot be opened") and err.count("\n") == 1


def test_a_number_of_jobs_without_kill_is_refused(start: Start, tmp_path: Path) -> None:
    """It would change nothing."""
    demo = start("--jobs", "50")
    _, err = demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 2 and "--jobs is for the demonstration with --kill" in err
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_command_that_adds_the_dashboard_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = SimpleNamespace(is_right=True, is_interrupted=False, table=lambda: [{"what": "jobs", "count": 3}])
    monkeypatch.setattr(command, "_demonstration", lambda: lambda url, folder, *, is_endless: facts)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--once"]) == 0
    out, err = capsys.readouterr()
    assert err == "the dashboard needs an extra: pip install 'windlass[api]'\n"
    assert out.split() == ["WHAT", "COUNT", "jobs", "3"]


def test_the_dashboard_has_the_boards_of_both_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with command._dashboard(f"sqlite:///{tmp_path}/jobs.db", 0):
        printed = capsys.readouterr().err
        (address,) = re.findall(r"^dashboard: (\S+)$", printed, re.MULTILINE)
        with httpx.Client(base_url=address, timeout=PATIENCE) as browser:
            for code in re.findall(r"/login#(\S+)", printed):
                browser.post("v1/session", json={"code": code})
            listed = browser.get("v1/pipelines").json()["pipelines"]
    phases = {pipeline["name"]: [phase["label"] for phase in pipeline["phases"]] for pipeline in listed}
    assert phases["visibility"] == list(run.LABELS)
    assert phases.keys() == {"visibility", "hours", "leave", "summary", "nightly", "remove_old"}


def test_the_app_of_the_dashboard_submits_to_the_database_of_the_demonstration(tmp_path: Path) -> None:
    with closing(App(f"sqlite:///{tmp_path}/jobs.db", config={"database.auto_migrate": True})) as app:
        command._add_kinds(app)
        job = app.enqueue("hours", period="2026-09", county="Harju")
        assert app.jobs.get(job.id).phase == "hours"
        with pytest.raises(PayloadError, match="county is missing"):
            app.enqueue("hours", period="2026-09")


def test_the_demonstration_is_found_by_its_entry_point() -> None:
    assert command._demonstration().__module__ == "windlass_examples.demo.run"
