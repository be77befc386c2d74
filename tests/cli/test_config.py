"""``windlass config show``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Windlass


def test_every_setting_is_shown_with_where_it_came_from(
    windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "windlass.toml").write_text("[worker]\nlease = 50\n")
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://me:hunter2@db/jobs")
    answer = windlass("config", "show", "-o", "json")
    rows = {row["key"]: row for row in answer.json()}
    assert answer.code == 0
    assert (rows["worker.lease"]["value"], rows["worker.lease"]["origin"]) == (
        "50.0",
        str(tmp_path / "windlass.toml"),
    )
    assert rows["database.url"]["origin"] == "environment WINDLASS_DATABASE_URL"
    assert "hunter2" not in answer.out and "db/jobs" in rows["database.url"]["value"]
    assert rows["background.retry.attempts"]["origin"] == "default"
    changed = windlass("config", "show", "--changed", "-o", "json")
    assert {row["key"] for row in changed.json()} == {"worker.lease", "database.url"}


def test_a_bad_setting_is_named(windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "windlass.toml").write_text("[worker]\nleese = 50\n")
    answer = windlass("config", "show")
    assert answer.code == 2 and "worker.leese" in answer.err and "did you mean worker.lease?" in answer.err


def test_variables_that_set_nothing_are_listed_and_stop_no_command(
    windlass: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_DATABASE_USER", "hunter2")
    monkeypatch.setenv("WINDLASS_HOME", "/srv")
    for own in ("WINDLASS_TEST_PG", "WINDLASS_DEMO_SITE", "WINDLASS_CHILD_PRELOAD", "WINDLASS_REQUIRE_REAL"):
        monkeypatch.setenv(own, "1")
    monkeypatch.setenv("WINDLASS_WORKER_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("WINDLASS_WORKER_PORT_8080_TCP_ADDR", "10.0.0.1")
    listed = windlass("config", "show", "-o", "json")
    assert listed.code == 0 and listed.json()
    assert listed.err.splitlines() == [
        f"warning: the variable {name} is no setting and is ignored"
        for name in ("WINDLASS_DATABASE_USER", "WINDLASS_HOME")
    ]
    status = windlass("db", "migrate", "--url", f"sqlite:///{tmp_path / 'jobs.db'}")
    assert status.code == 0 and "WINDLASS_HOME" not in status.err
