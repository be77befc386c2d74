"""The benchmarks' short forms run, and print what they promise; their figures are not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from bench import counted_beside, own, retention
from bench.__main__ import main
from bench.compare import Figures
from bench.control_fill import Crowd
from bench.control_reads import reads
from bench.versions import NotSetUpError, of_checkout
from tests.control.calls import public_calls
from windlass import App

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
    for name in sorted(path.stem for path in (ROOT / "bench" / "api").glob("[!_]*.py")):
        import_module(f"bench.api.{name}")
    assert {
        *(
            "prune",
            "retention",
            "store",
            "limits",
            "counted",
            "wait",
            "versions",
            "api",
            "board",
            "shapes",
            "fairness",
        )
    } <= set(main.commands)


ACTS = {
    *("jobs.cancel", "jobs.retry", "jobs.run_now", "jobs.delete", "jobs.edit", "jobs.retry_many", "jobs.cancel_many", "jobs.stack"),
    *("submits.many", "submits.batch", "submits.ended", "submits.keyed", "submits.note_end", "operations.start", "operations.stop"),
    *("phases.pause", "phases.resume", "rules.remove", "deploys.mark", "tokens.create", "tokens.revoke"),
    *("schedules.pause", "schedules.resume", "schedules.run_now", "schedules.remove"),
    *("instances.drain", "instances.set_processors"),
}  # fmt: skip
"""Calls of the control service that change something, or wait for a job or an instance."""


def test_every_read_of_the_control_service_is_measured(sqlite_path: Path) -> None:
    """A new call is measured, or is one of the acts."""
    with App(f"sqlite:///{sqlite_path}") as app:
        measured = {call for call, _, _ in reads(app, Crowd(1000))}
    public = {call.removesuffix("_async") for call in public_calls()}
    assert measured == public - ACTS
    assert public >= ACTS


@pytest.mark.long
@pytest.mark.slow
def test_the_short_control_bench_runs(tmp_path: Path) -> None:
    """Each read is measured on both databases, and finds what the filling has."""
    path = tmp_path / "figures.json"
    assert "reads are over 100 ms at p95" in run_short(path, "control")
    rows = json.loads(path.read_text())["rows"]
    found = {(row["database"].partition(" ")[0], row["read"]): row["found"] for row in rows}
    assert {database for database, _ in found} == {"SQLite", "PostgreSQL"}
    for database in ("SQLite", "PostgreSQL"):
        assert found[database, "jobs.list all"] == 50 and found[database, "jobs.list no such kind"] == 0
        assert found[database, "jobs.count principal of three jobs"] == 3


@pytest.mark.long
@pytest.mark.slow
def test_the_short_watch_bench_runs(tmp_path: Path) -> None:
    """Five watchers are measured beside one, on both databases."""
    path = tmp_path / "figures.json"
    run_short(path, "watch")
    rows = {row["database"]: row for row in json.loads(path.read_text())["rows"]}
    assert rows.keys() == {"sqlite", "postgresql"}
    for row in rows.values():
        assert row["watched / not"] > 0 and 0 < row["statements/s, many"] < 5 * row["statements/s, one"]


@pytest.mark.slow
@pytest.mark.long
def test_the_short_bench_runs(tmp_path: Path) -> None:
    """Every claim that needs no peer is judged, whatever comes of it."""
    printed = run_short(tmp_path / "figures.json")
    claims = {row["claim"]: row for row in json.loads((tmp_path / "figures.json").read_text())["rows"]}
    assert len(claims) == 13 and all(row["holds"] in ("yes", "NO") for row in claims.values())
    assert claims["drain, 2 processes, of the bare statement's rate on as many connections"]["seen"] > 0
    assert "windlass-sqlite" in printed and "pickup, idle worker" in printed


@pytest.mark.long
@pytest.mark.slow
def test_the_short_bench_of_shapes_runs(tmp_path: Path) -> None:
    run_short(tmp_path / "shapes.json", "shapes")
    rows = json.loads((tmp_path / "shapes.json").read_text())["rows"]
    assert len(rows) == 7 and all(row["phases/s"] > 0 for row in rows)


@pytest.mark.long
@pytest.mark.slow
def test_the_short_prune_bench_runs(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert "slower while pruning" in run_short(path, "prune")
    rows = json.loads(path.read_text())["rows"]
    assert [row["when"] for row in rows] == ["before", "while pruning", "after"]
    assert all(row["jobs/s"] > 0 for row in rows)


@pytest.mark.long
@pytest.mark.slow
def test_the_short_retention_bench_runs(tmp_path: Path) -> None:
    """Its rates are not judged, but that every pruned job is in the archive."""
    path = tmp_path / "figures.json"
    assert "0 jobs lost" in run_short(path, "retention")
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2 and all(row["lost"] == 0 and row["without, jobs/s"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("least queued at an end", "SQLite: the queue ran empty"),
        ("least pruned in a span", "SQLite: nothing was pruned"),
        ("least unpruned at an end", "SQLite: pruning was over"),
    ],
)
def test_a_retention_bench_whose_rates_say_nothing_fails(cell: str, fault: str) -> None:
    """Both rates are those of the queue, or no round had a worker that pruned."""
    row = {
        "database": "SQLite",
        "least queued at an end": 1,
        "least pruned in a span": 1,
        "least unpruned at an end": 1,
    }
    assert retention.faults([row]) == []
    (found,) = retention.faults([row, {**row, cell: 0}])
    assert found.startswith(fault)


@pytest.mark.long
@pytest.mark.slow
def test_the_short_everyday_bench_runs(tmp_path: Path) -> None:
    """Every claim that needs no peer is judged."""
    printed = run_short(tmp_path / "figures.json", "everyday")
    claims = {row["claim"]: row for row in json.loads((tmp_path / "figures.json").read_text())["rows"]}
    assert len(claims) == 8 and all(row["seen"] > 0 for row in claims.values())
    assert "pickup under load, p99 ms" in printed and "windlass-10" in printed


@pytest.mark.slow
def test_the_short_store_bench_runs(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    run_short(path, "store")
    rows = {row["what"]: row for row in json.loads(path.read_text())["rows"]}
    assert all(row["jobs/s"] >= 0 for row in rows.values()), "on a busy machine a short round may end no job"
    assert rows["PostgreSQL: finish + claim, 100 per step"]["WAL B/job"] > 0
    assert "SQLite: finish + claim, 500 per step" in rows


@pytest.mark.long
@pytest.mark.slow
def test_the_short_wait_bench_runs(tmp_path: Path) -> None:
    """However many callers wait, they cost this process one connection."""
    path = tmp_path / "figures.json"
    run_short(path, "wait")
    rows = {row["database"]: row for row in json.loads(path.read_text())["rows"]}
    assert rows["postgresql"]["connections for waiting"] == 1
    assert all(row["drain with callers / without"] > 0 for row in rows.values())


@pytest.mark.long
@pytest.mark.slow
def test_the_short_api_bench_runs(tmp_path: Path) -> None:
    """Each part measures both databases, and no request fails."""
    path = tmp_path / "figures.json"
    run_short(path, "api")
    rows = json.loads(path.read_text())["rows"]
    parts = {(row["part"], row["database"]) for row in rows}
    assert parts == {
        (part, name)
        for part in ("reads", "submits", "clients", "streams")
        for name in ("SQLite", "PostgreSQL")
    }
    assert all(row["failed"] == 0 and row["requests/s"] > 0 for row in rows if row["part"] == "clients")
    assert all(row["p99 ms with"] > 0 for row in rows if row["part"] == "streams")


@pytest.mark.long
@pytest.mark.slow
def test_the_short_board_bench_runs(tmp_path: Path) -> None:
    """Each page is loaded, on both databases, and no page is larger than is promised."""
    path = tmp_path / "figures.json"
    run_short(path, "board")
    rows = json.loads(path.read_text())["rows"]
    pages = [row for row in rows if "bytes" in row]
    assert len(pages) == 2 * 12 and all(20_000 < row["bytes"] <= 150_000 for row in pages)
    opened = [row for row in rows if row["what"] == "open page"]
    assert len(opened) == 2 and all(row["renders/s"] <= 4.5 for row in opened)


@pytest.mark.long
@pytest.mark.slow
def test_the_short_versions_bench_runs(tmp_path: Path) -> None:
    """A checkout beside itself."""
    checkout, path = tmp_path / "checkout", tmp_path / "figures.json"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    (checkout / "bench").symlink_to(ROOT / "bench")
    run_short(path, "versions", str(checkout))
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 6 and all(row["this / other"] > 0 for row in rows)


@pytest.mark.long
@pytest.mark.slow
def test_the_short_counts_beside_another_version_run(tmp_path: Path) -> None:
    """A checkout beside itself."""
    checkout, path = tmp_path / "checkout", tmp_path / "figures.json"
    checkout.mkdir()
    for name in ("bench", "src"):
        (checkout / name).symlink_to(ROOT / name)
    (checkout / ".venv").symlink_to(sys.prefix)
    assert "higher by more than the error" in run_short(path, "counted", str(checkout))
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 23 and all(row["before"] >= 0 and row["after"] >= 0 for row in rows)
    (calls,) = (row for row in rows if (row["what"], row["count"]) == ("sqlite: enqueue", "Python calls/job"))
    assert calls["before"] == calls["after"] > 0


def test_a_count_that_is_higher_by_more_than_its_error_is_marked() -> None:
    """The least of the rounds counts, and a count that one version lacks is left out."""
    calls, engine, gone = (
        ("sqlite: enqueue", "Python calls/job"),
        ("sqlite: engine, all of it", "Python calls/job"),
        ("sqlite: enqueue", "statements/job"),
    )
    before = [{calls: 105.0, engine: 100.0, gone: 1.0}, {calls: 100.0, engine: 110.0, gone: 1.0}]
    after = [{calls: 101.5, engine: 102.5}, {calls: 109.0, engine: 120.0}]
    rows = counted_beside.compared(before, after)
    assert [(row["before"], row["after"], row["difference"], row["higher"]) for row in rows] == [
        (100.0, 101.5, 1.5, "HIGHER"),
        (100.0, 102.5, 2.5, ""),
    ]


def test_a_version_that_is_not_set_up_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotSetUpError, match=r"run \./dev setup there"):
        of_checkout(tmp_path, own.WINDLASS)
    with pytest.raises(NotSetUpError, match=r"run \./dev setup there"):
        counted_beside.run(tmp_path, jobs=1, rounds=1, output=None)


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
