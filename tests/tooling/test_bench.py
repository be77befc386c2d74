"""The benchmarks' short forms run, and print what they promise; their figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.compare import Figures

pytestmark = [pytest.mark.timing, pytest.mark.timeout(700)]

ROOT = Path(__file__).parents[2]


def run_short(path: Path, *command: str) -> str:
    """What a short bench prints."""
    answer = subprocess.run(
        [sys.executable, "-m", "bench", *command, "--short", "--json", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # a hang: it measures for half a minute, and a busy machine sets servers up for minutes
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_every_measurement_can_be_asked_for() -> None:
    """Its modules can be imported, and its options are read."""
    for name in sorted(path.stem for path in (ROOT / "bench").glob("*.py")):
        import_module(f"bench.{name}")
    assert {"prune", "store", "limits", "counted"} <= set(main.commands)


@pytest.mark.slow
@pytest.mark.long
def test_the_short_bench_runs(tmp_path: Path) -> None:
    """Every claim that needs no peer is judged, whatever comes of it."""
    printed = run_short(tmp_path / "figures.json")
    claims = {row["claim"]: row for row in json.loads((tmp_path / "figures.json").read_text())["rows"]}
    assert len(claims) == 10 and all(row["holds"] in ("yes", "NO") for row in claims.values())
    assert claims["drain, two processes to one"]["seen"] > 0
    assert "windlass-sqlite" in printed and "pickup, idle worker" in printed


@pytest.mark.long
@pytest.mark.slow
def test_the_short_prune_bench_runs(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert "slower while pruning" in run_short(path, "prune")
    rows = json.loads(path.read_text())["rows"]
    assert [row["when"] for row in rows] == ["before", "while pruning", "after"]
    assert all(row["jobs/s"] > 0 for row in rows)


@pytest.mark.slow
def test_the_short_store_bench_runs(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    run_short(path, "store")
    rows = {row["what"]: row for row in json.loads(path.read_text())["rows"]}
    assert all(row["jobs/s"] >= 0 for row in rows.values()), "on a busy machine a short round may end no job"
    assert rows["PostgreSQL: finish + claim, 100 per step"]["WAL B/job"] > 0
    assert "SQLite: finish + claim, 500 per step" in rows


def test_ratios_are_taken_within_a_round() -> None:
    """A machine that is slow for a while is slow for both; a round that somebody has no figure of does not count."""
    figures = Figures()
    for number, (mine, theirs) in enumerate([(100.0, 50.0), (10.0, 4.0), (60.0, 20.0), (7.0, None)]):
        figures.note("we", "drain", number, mine)
        if theirs is not None:
            figures.note("they", "drain", number, theirs)
    figures.ratio("ahead", ("we", "drain"), ("they", "drain"), 2.4)
    figures.ratio("far ahead", ("we", "drain"), ("they", "drain"), 2.6)
    figures.ratio("nobody there", ("we", "drain"), ("nobody", "drain"), 1.0)
    figures.judge("cheap", 3.0, 2.0, at_most=True)
    assert [(row["claim"], row["seen"], row["holds"]) for row in figures.verdicts] == [
        ("ahead", 2.5, "yes"),
        ("far ahead", 2.5, "NO"),
        ("cheap", 3.0, "NO"),
    ]
    assert (figures.verdicts[0]["least"], figures.verdicts[0]["most"]) == (2.0, 3.0)
    assert not figures.hold
    assert figures.fastest([("we", "drain"), ("they", "drain"), ("nobody", "drain")]) == ("we", "drain")
