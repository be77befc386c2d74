"""The benchmarks' short forms run, and print what they promise; their figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_short_prune_bench_runs(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    answer = subprocess.run(
        [sys.executable, "-m", "bench", "prune", "--short", "--json", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert answer.returncode == 0, answer.stderr
    assert "slower while pruning" in answer.stdout
    rows = json.loads(path.read_text())["rows"]
    assert [row["when"] for row in rows] == ["before", "while pruning", "after"]
    assert all(row["jobs/s"] > 0 for row in rows)


@pytest.mark.slow
def test_the_short_store_bench_runs(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    answer = subprocess.run(
        [sys.executable, "-m", "bench", "store", "--short", "--json", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert answer.returncode == 0, answer.stderr
    rows = {row["what"]: row for row in json.loads(path.read_text())["rows"]}
    assert all(row["jobs/s"] > 0 for row in rows.values())
    assert rows["PostgreSQL: finish + claim, 100 per step"]["WAL B/job"] > 0
    assert "SQLite: finish + claim, 500 per step" in rows
