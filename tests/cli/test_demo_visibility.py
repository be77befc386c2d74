"""``windlass demo``, the main demonstration: pages, a model, a chunked report; interrupted, killed, and gone on with."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.demos import Start, demos, finish
from tests.waiting import PATIENCE
from windlass.examples.visibility.reading import read_page
from windlass.features import open_store
from windlass.model import JobFilter

pytestmark = [pytest.mark.slow, pytest.mark.timing]
RIGHT = {"jobs": 14, "completed": 14, "phase outputs": 24, "records": 50_000, "records twice": 0}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from demos(tmp_path)


def finished(demo: subprocess.Popen[str]) -> dict[str, float]:
    facts, _ = finish(demo)
    facts.pop("seconds")
    return facts


def until_under_way(demo: subprocess.Popen[str]) -> None:
    """Read until the report has records and is not done."""
    assert demo.stderr is not None
    for line in iter(demo.stderr.readline, ""):
        if "report " in line:
            done = line.partition("report ")[2].partition("/")[0].replace(",", "")
            if done.isdigit() and 0 < int(done) < 50_000:
                return
    raise AssertionError("it ended before it was under way")


def test_everything_completes_once(start: Start) -> None:
    assert finished(start()) == RIGHT


def test_on_a_private_postgres_too(start: Start) -> None:
    assert finished(start("--postgres")) == RIGHT


@pytest.mark.long
def test_after_ctrl_c_the_next_start_goes_on(start: Start, tmp_path: Path) -> None:
    first = start()
    until_under_way(first)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130 and "the next start continues with" in err
    second = start()
    assert finished(second) == RIGHT
    with open_store(f"sqlite:///{tmp_path}/windlass-demo.db") as store:
        assert len(store.jobs.list(JobFilter(), limit=100).jobs) == 14, "no second round was begun"


def test_after_a_kill_the_next_start_goes_on(start: Start) -> None:
    first = start()
    until_under_way(first)
    first.kill()
    first.wait(PATIENCE)
    assert finished(start()) == RIGHT


@pytest.mark.long
def test_a_second_round_follows_a_finished_one(start: Start, tmp_path: Path) -> None:
    assert finished(start()) == RIGHT
    assert finished(start()) == RIGHT
    with open_store(f"sqlite:///{tmp_path}/windlass-demo.db") as store:
        assert len(store.jobs.list(JobFilter(), limit=100).jobs) == 28


def test_pages_are_read_as_a_person_would() -> None:
    page = read_page(
        "<title> A  page </title><style>p{}</style><h1>One <b>bold</b></h1><p>three little words<br>and<a href=x>link</a></p>"
        "<h2>Two</h2><script>no words</script><a>no link</a>"
    )
    assert (page.title, page.headings, page.links) == ("A page", ["One bold", "Two"], 1)
    assert page.words == len(["One", "bold", "three", "little", "words", "and", "link", "Two", "no", "link"])


@pytest.mark.parametrize("form", [[], ["--kill"]], ids=["pages", "parcels"])
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
