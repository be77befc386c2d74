"""The harness that measures peers: its counting, its processes and its patience, with a stand-in for a peer.

Nothing is installed here. The stand-in keeps its jobs in SQLite and speaks through the same protocol.py as the real
scripts; ``options`` make it misbehave.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench import peers
from bench.peers import catalogue, databases, install, results, run
from bench.peers.catalogue import Definition
from bench.peers.process import Script, ScriptError, await_answers
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timing

STAND_IN = """
import asyncio, sqlite3, sys
from contextlib import asynccontextmanager
sys.path.insert(0, SCRIPTS)
from protocol import serve

class Client:
    def __init__(self, order):
        self.options = order.options
        self.db = sqlite3.connect(order.store, isolation_level=None, check_same_thread=False, timeout=10)
        self.db.execute("PRAGMA journal_mode = wal")
        self.db.execute("PRAGMA synchronous = off")
        self.db.execute("CREATE TABLE IF NOT EXISTS job (number INTEGER)")
    async def setup(self): pass
    async def one(self, number):
        self.db.execute("INSERT INTO job VALUES (?)", (number,))
    async def many(self, numbers):
        self.db.executemany("INSERT INTO job VALUES (?)", [(n,) for n in numbers][self.options.get("loses", 0):])
    async def work(self, tally, stop):
        if "dies" in self.options:
            raise RuntimeError("no wish to work")
        while not stop.is_set():
            row = self.db.execute("DELETE FROM job WHERE number IN (SELECT number FROM job LIMIT 1) RETURNING number").fetchone()
            if row and row[0] not in self.options.get("skips", []):
                for _ in range(2 if row[0] in self.options.get("doubles", []) else 1):
                    tally.start(row[0])
            await asyncio.sleep(0 if row else 0.001)
    def left(self):
        return self.db.execute("SELECT count(*) FROM job").fetchone()[0]

@asynccontextmanager
async def connect(order):
    yield Client(order)

serve(connect)
"""

MakePeer = Callable[..., peers.Peer]


@pytest.fixture
def make_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePeer:
    """A stand-in; ``script`` replaces all of it, other arguments are its options."""
    monkeypatch.setattr(run, "SETTLE_SECONDS", 0.0)

    def make(script: str = STAND_IN, **options: Any) -> peers.Peer:
        path = tmp_path / "stand_in.py"
        path.write_text(f"SCRIPTS = {str(install.SCRIPTS)!r}\n{script}")
        definition = Definition(
            name="stand-in",
            environment="stand-in",
            requirements=("stand-in==1.2",),
            script=path.name,
            database="sqlite",
            settings="",
            options=options,
        )
        return peers.Peer(definition, (sys.executable, str(path)), tmp_path, timeout=PATIENCE)

    return make


def test_a_drain_counts_every_job_once(make_peer: MakePeer, tmp_path: Path) -> None:
    result = make_peer().measure_drain(tmp_path, 2_500)
    assert (result["peer"], result["what"], result["jobs"]) == ("stand-in 1.2", "drain", 2_500)
    assert result["rate"] == pytest.approx(2_500 / result["seconds"])
    assert "wrong" not in result


def test_two_processes_share_a_drain(make_peer: MakePeer, tmp_path: Path) -> None:
    result = make_peer().measure_drain(tmp_path, 1_000, processes=2)
    assert "wrong" not in result
    assert (result["processes"], result["jobs"], sum(result["shares"])) == (2, 1_000, 1_000)


def test_enqueues_are_checked_against_the_store(make_peer: MakePeer, tmp_path: Path) -> None:
    peer = make_peer()
    one, bulk = peer.measure_enqueue(tmp_path, 0.1), peer.measure_bulk(tmp_path, 2_300)
    assert one["jobs"] > 0 and one["rate"] > 0 and "wrong" not in one
    assert bulk["jobs"] == 2_300 and bulk["rate"] > 0 and "wrong" not in bulk
    lossy = make_peer(loses=3).measure_bulk(tmp_path, 500)
    assert lossy["wrong"] == "enqueued 500 jobs of 500, the store holds 497"


def test_a_latency_is_measured_between_processes(make_peer: MakePeer, tmp_path: Path) -> None:
    result = make_peer().measure_latency(tmp_path, samples=20, interval=0.002)
    assert "wrong" not in result
    assert result["jobs"] == 20
    assert result["p50_ms"] <= result["p95_ms"] <= result["p99_ms"] < 1000 * PATIENCE


def test_a_job_run_twice_makes_a_drain_wrong(make_peer: MakePeer, tmp_path: Path) -> None:
    result = make_peer(doubles=[99]).measure_drain(tmp_path, 100)
    assert result["wrong"] == "101 jobs were executed, 100 were queued; 0 are left in the store"


def test_one_job_twice_and_another_never_is_seen(make_peer: MakePeer, tmp_path: Path) -> None:
    result = make_peer(doubles=[3], skips=[4]).measure_drain(tmp_path, 100)
    assert result["wrong"] == "100 jobs were executed, but not each of them once"


def test_a_worker_that_dies_is_a_wrong_result(make_peer: MakePeer, tmp_path: Path) -> None:
    result = make_peer(dies=True).measure_drain(tmp_path, 10, processes=2)
    assert result["rate"] == 0.0
    assert "no wish to work" in result["wrong"]
    assert "no wish to work" in make_peer(dies=True).measure_latency(tmp_path, 5)["wrong"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("print('hello')", "setup answered no JSON object: hello"),
        ("", "setup answered no JSON object: (nothing)"),
        ("import sys; sys.exit('no such module')", "setup ended with 1: no such module"),
        ("print('{}')", "an answer of its script has no 'jobs'"),
        ("import time; time.sleep(60)", "no answer within 0.5 s"),
    ],
)
def test_what_is_no_answer_is_said(make_peer: MakePeer, tmp_path: Path, script: str, complaint: str) -> None:
    peer = make_peer(script)
    timeout = 0.5 if "sleep" in script else PATIENCE
    peer = peers.Peer(peer.definition, peer.command, peer.folder, timeout=timeout)
    assert peer.measure_bulk(tmp_path, 10)["wrong"] == complaint


def test_a_script_that_cannot_start_is_said(make_peer: MakePeer, tmp_path: Path) -> None:
    peer = peers.Peer(make_peer().definition, (str(tmp_path / "gone"),), tmp_path)
    assert "can not be started" in peer.measure_enqueue(tmp_path, 1.0)["wrong"]


def test_the_answer_is_the_last_line(tmp_path: Path) -> None:
    """Peers may greet on stdout; and the order comes on stdin, for it holds a password."""
    code = "import json, sys; print('welcome'); print(json.dumps({'got': json.load(sys.stdin), 'verb': sys.argv[1]}))"
    with Script([sys.executable, "-c", code, "setup"], {"store": "x"}, tmp_path) as script:
        assert await_answers([script], PATIENCE) == [{"got": {"store": "x"}, "verb": "setup"}]


def test_one_that_fails_ends_the_waiting_for_all(tmp_path: Path) -> None:
    code = "import sys, time; time.sleep(1000 * (sys.argv[1] == 'sleep')); sys.exit(3)"
    command = [sys.executable, "-c", code]
    with (
        Script([*command, "sleep"], {}, tmp_path) as sleeper,
        Script([*command, "fail"], {}, tmp_path) as failing,
    ):
        with pytest.raises(ScriptError, match="fail ended with 3"):
            await_answers([sleeper, failing], PATIENCE)
        assert not sleeper.has_ended()


# --- results, without processes ------------------------------------------------------------------------------------


def answer(**facts: Any) -> dict[str, Any]:
    return {"handled": 2, "sum": 1, "began_at": 10.0, "ended_at": 12.0, "left": 0} | facts


def test_processes_count_from_the_first_start_to_the_first_sight_of_an_empty_store() -> None:
    first = answer(handled=1, sum=3, began_at=10.5, ended_at=12.5)
    second = answer(handled=3, sum=3, began_at=10.0, ended_at=12.0)
    assert results.drained([first, second], 4) == {
        "jobs": 4,
        "seconds": 2.0,
        "rate": 2.0,
        "processes": 2,
        "shares": [1, 3],
    }


def test_a_process_without_jobs_has_no_start() -> None:
    idle = answer(handled=0, sum=0, began_at=None)
    assert results.drained([idle, answer()], 2)["rate"] == 1.0


def test_a_drain_that_never_ended_has_no_rate() -> None:
    stuck = results.drained([answer(ended_at=None, left=7)], 2)
    assert stuck["rate"] == 0.0
    assert stuck["wrong"] == "all jobs were executed, but 7 are left in the store"


def test_percentiles_leave_the_warm_up_out() -> None:
    returns = [float(n) for n in range(105)]
    starts = [[n, n + (60.0 if n < 5 else (n - 4) / 1000)] for n in range(105)]
    worker = answer(handled=105, sum=105 * 104 // 2, starts=starts)
    result = results.waited(returns, [worker], warm_up=5)
    assert result["jobs"] == 100
    assert [round(result[key]) for key in ("p50_ms", "p95_ms", "p99_ms")] == [51, 96, 100]


def test_a_sample_that_never_started_makes_a_latency_wrong() -> None:
    worker = answer(handled=1, sum=0, starts=[[0, 1.5]], left=1)
    result = results.waited([1.0, 2.0], [worker], warm_up=0)
    assert result["p50_ms"] == 500.0
    assert "1 jobs were executed, 2 were queued" in result["wrong"]


# --- which peers there are, and installing them --------------------------------------------------------------------


def test_an_unknown_name_is_refused_and_the_known_ones_are_told() -> None:
    with pytest.raises(ValueError, match="no peer 'celery'; there are: pgqueuer, procrastinate"):
        peers.available(["pgqueuer", "celery"])


def test_every_peer_has_its_script_and_a_pinned_version() -> None:
    for definition in catalogue.look_up(peers.NAMES):
        assert (install.SCRIPTS / definition.script).is_file()
        assert definition.version[0].isdigit()


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"jobs": 5, "processes": 0}])
def test_nothing_to_measure_is_refused(make_peer: MakePeer, tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be more than 0"):
        make_peer().measure_drain(tmp_path, **wrong)


def test_a_peer_without_its_runtime_is_not_available_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    prepared = peers.prepare(["graphile-worker"], tmp_path / "home")
    assert prepared.peers == []
    assert prepared.missing == {"graphile-worker": "not available: node is not on PATH"}
    assert "peers: graphile-worker: not available: node" in capsys.readouterr().err
    assert peers.available(["graphile-worker"], tmp_path / "home") == []


def programs(folder: Path, npm: str) -> str:
    """A PATH with a node that does nothing and this npm."""
    folder.mkdir()
    for name, text in (("node", "exit 0"), ("npm", npm)):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.defpath}"


def test_an_installer_that_fails_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = "echo 'npm warn old'; echo 'npm error code E404'; echo 'npm error 404 Not Found'; echo bye; exit 1"
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", npm))
    home = tmp_path / "home"
    reason = "not available: npm install: npm error code E404; npm error 404 Not Found"
    assert peers.prepare(["graphile-worker"], home).missing == {"graphile-worker": reason}
    assert not (home / "graphile-worker" / "stamp.json").exists()


def test_an_environment_is_made_once_and_kept_out_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, home = tmp_path / "calls", tmp_path / "home"
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", f'echo "$@" >> {calls}'))
    (peer,) = peers.available(["graphile-worker"], home)
    assert peers.available(["graphile-worker"], home) == [peer]
    assert peer.command == (str(tmp_path / "bin" / "node"), str(install.SCRIPTS / "graphile_peer.mjs"))
    assert (home / ".gitignore").read_text() == "*\n"
    (line,) = calls.read_text().splitlines()
    assert "graphile-worker@" in line
    stamp = home / "graphile-worker" / "stamp.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), "requirements": ["graphile-worker@0.1"]}))
    peers.available(["graphile-worker"], home)
    assert len(calls.read_text().splitlines()) == 2


def test_a_database_lasts_as_long_as_its_measurement(
    postgres_empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "PREFIX", "windlass_test")
    monkeypatch.setattr(databases, "_numbers", itertools.count(900_000))
    with peers.fresh_database(postgres_empty_dsn) as dsn:
        peers.settle(dsn)
        with psycopg.connect(dsn) as connection:
            name = connection.info.dbname
    assert name == f"windlass_test_{os.getpid()}_900000"
    with psycopg.connect(postgres_empty_dsn) as connection:
        found = connection.execute("SELECT count(*) FROM pg_database WHERE datname = %s", (name,)).fetchone()
    assert found == (0,)
    with pytest.raises(ValueError, match="URL"), peers.fresh_database("host=localhost"):
        pass
