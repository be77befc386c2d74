"""``windlass doctor``: output and exit codes. The findings are tested in tests/control/doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.bench import Bench
from tests.cli.conftest import Windlass
from windlass.model import NewJob


def test_a_good_system_ends_with_0(bench: Bench, windlass: Windlass) -> None:
    answer = windlass("doctor", "--url", bench.url)
    assert (answer.code, answer.out) == (0, "")
    assert "no findings" in answer.err


def test_findings_end_with_1(bench: Bench, windlass: Windlass) -> None:
    bench.store.enqueue([NewJob(kind="report")])
    answer = windlass("doctor", "--url", bench.url)
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "error    phase.unserved: The phase report has 1 open job (1 queued), and no living instance serves it.",
        "cure     Start a worker that serves it: windlass worker APP --phase report.",
    ]
    assert "1 error" in answer.err
    (found,) = windlass("doctor", "--url", bench.url, "-o", "json").json()
    assert set(found) == {"severity", "code", "sentence", "cure"}
    assert (found["severity"], found["code"]) == ("error", "phase.unserved")


def test_a_database_that_is_away_ends_with_69(windlass: Windlass) -> None:
    answer = windlass("doctor", "--url", "postgresql://u:secret@127.0.0.1:1/none", "-o", "json")
    assert answer.code == 69
    assert [row["code"] for row in answer.json()] == ["store.unreachable"]
    assert "secret" not in answer.out + answer.err


def test_settings_that_cannot_work_are_findings(
    windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = windlass("doctor", "-o", "json")
    assert answer.code == 1
    assert [row["code"] for row in answer.json()] == ["settings.invalid"], "nothing names a database"
    (tmp_path / "windlass.toml").write_text("[worker]\nlease = 1\nheartbeat = 10\n")
    answer = windlass("doctor", "-o", "json")
    assert answer.code == 1
    assert "worker.lease" in answer.json()[0]["sentence"]
