"""Usage mistakes: one line on stderr that says what was wrong and what to give instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.bench import Bench
from tests.cli.conftest import Windlass
from windlass.cli.durations import Seconds
from windlass.model import NewJob, State


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["worker", "x:app", "--phases", "a"],
            "error: No such option '--phases'; did you mean --phase, --processes?; see",
        ),
        (
            ["worker", "x:app", "--grace", "5x"],
            "'5x' is not a duration: write 500ms, 90s, 15m, 1h 30m, 7d (or a number",
        ),
        (
            ["worker", "x:app", "--grace", "-1"],
            "-1 is no number of seconds from 0; see `windlass worker --help`",
        ),
        (
            ["serve", "x:app", "--port", "x"],
            "error: Invalid value for '--port': 'x' is not a whole number; see `windlass serve --help`",
        ),
        (["phases", "pause", "a", "--reason", "x", "--for", "5"], "5 has no unit: 5s, 5m, 5h or 5d; see"),
        (
            ["jobs", "retry", "--where", "", "--url", "sqlite:///x.db"],
            "error: an empty filter is refused; for all jobs give --all; see",
        ),
        (
            ["jobs", "cancel", "7", "--all", "--url", "sqlite:///x.db"],
            "error: give ids of jobs, --where FILTER or --all, one of the three; see",
        ),
    ],
)
def test_a_usage_mistake_is_one_line_that_names_what_to_do(
    windlass: Windlass, arguments: list[str], told: str
) -> None:
    answer = windlass(*arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert told in answer.err


def test_a_group_without_a_command_shows_its_help(windlass: Windlass) -> None:
    answer = windlass("jobs")
    assert answer.code == 2
    assert "Usage: windlass jobs" in answer.err + answer.out


def test_options_in_seconds_are_also_durations() -> None:
    kind = Seconds()
    assert [kind.convert(text, None, None) for text in ("30", "0.5", "30s", "1m 30s")] == [30, 0.5, 30, 90]


def test_a_file_that_does_not_exist_is_told_so_and_not_made(windlass: Windlass, tmp_path: Path) -> None:
    answer = windlass("status", "--url", f"sqlite:///{tmp_path}/mistyped.db")
    assert answer.code == 1
    assert (
        f"the file of the database sqlite:///{tmp_path}/mistyped.db does not exist; correct the URL"
        in answer.err
    )
    assert not list(tmp_path.glob("mistyped.db*"))


def test_an_act_without_a_terminal_names_its_question_and_the_option(
    bench: Bench, windlass: Windlass
) -> None:
    job = bench.store.enqueue([NewJob(kind="Report")])[0]
    answer = windlass("jobs", "cancel", "--where", "kind:Report", "--url", bench.url)
    assert answer.code == 2
    assert answer.err == (
        "error: Cancel 1 job (kind:Report)? Give --yes: there is no terminal to ask on. Nothing was changed; "
        "see `windlass jobs cancel --help`\n"
    )
    assert bench.store.jobs.get(job.id).state is State.QUEUED
