"""Every read of the control service with a million jobs: at most 100 ms at the 95th percentile, also when nothing is found."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench.control_fill import BATCH, INSTANCE, KINDS, RARE, Crowd, fill_postgres, fill_sqlite
from bench.load import percentile
from bench.report import say, show
from bench.server import postgres, version
from windlass import App
from windlass.control.actor import OPERATOR
from windlass.control.overview_sample import read_sample
from windlass.control.service import Control
from windlass.features import Store, open_store
from windlass.model import NewSchedule
from windlass.model.principal import Principal
from windlass.model.rule import Rule

MOST_MS = 100.0
VISITOR = Principal("visitor", tenant="small")
OPERATOR_OF_TENANT = Principal("olga", tenant="tenant-3", roles=frozenset({OPERATOR}))
NOBODY = Principal("nobody", tenant="nowhere")


def filters(crowd: Crowd) -> dict[str, str]:
    """A filter for each key, those that find nothing among them."""
    newest = crowd.id(crowd.jobs - 1)
    return {
        "all": "",
        "state": "state:failed",
        "two states": "state:failed,cancelled",
        "processing": "state:processing",
        "waiting": "state:waiting",
        "kind": "kind:report",
        "kind*": "kind:rep*",
        "rare kind, failed": f"kind:{RARE} state:failed",
        "rare kind": f"kind:{RARE}",
        "no such kind": "kind:nothing",
        "no such kind, failed": "kind:nothing state:failed",
        "no such kind*": "kind:nothing*",
        "no such phase, queued": "phase:nothing state:queued",
        "id": f"id:{newest}",
        "correlation": f"correlation:{newest}",
        "no such correlation": "correlation:nothing",
        "key": "key:key-500",
        "no such key": "key:nothing",
        "principal": "principal:user-7",
        "principal of three jobs": "principal:visitor",
        "no such principal": "principal:nobody",
        "not of a principal": "-principal:user-7",
        "tenant": "tenant:tenant-3",
        "no such tenant": "tenant:nothing",
        "age": "age:>5d",
        "no such age": "age:>5000d",
        "finished": "finished:<2020-01-01",
        "priority": "priority:>=8",
        "no such attempt": "attempt:>9",
        "instance": f"instance:{INSTANCE}",
        "no such instance": f"instance:{BATCH}",
        "error": "error:exception",
        "no such error": "error:nothing",
        "no such exception": "exception:Nothing",
        "batch": f"batch:{BATCH}",
        "no such batch": f"batch:{INSTANCE}",
        "args": "args.user.id:7",
        "no such argument": "args.user.id:-1",
        "comparison of an argument": "args.user.id:>999",
        "six terms, nothing": "state:failed kind:report error:exception exception:KeyError priority:3 args.user.id:>5000",
    }  # fmt: skip


def reads(app: App, crowd: Crowd) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every read with its name."""
    actors: dict[str, Control] = {
        "all": app.acting_as(Principal("root", roles=frozenset({OPERATOR}))),
        "own": app.acting_as(VISITOR),
        "tenant": app.acting_as(OPERATOR_OF_TENANT),
        "nobody": app.acting_as(NOBODY),
    }
    known = filters(crowd)
    for name, text in known.items():
        yield f"list {name}", _list(actors["all"], text)
        yield f"count {name}", _count(actors["all"], text)
    for actor in ("own", "tenant", "nobody"):
        for name in ("all", "state", "no such kind", "no such argument", "key", "batch"):
            yield f"list {name} ({actor})", _list(actors[actor], known[name])
            yield f"count {name} ({actor})", _count(actors[actor], known[name])
    first, last = crowd.id(0), crowd.id(crowd.jobs - 1)
    for job in (first, last):
        yield "get", partial(actors["all"].jobs.get, job)
        yield "timeline", partial(actors["all"].jobs.timeline, job)
        yield "why", partial(actors["all"].jobs.why, job)
        yield "logs", partial(actors["all"].jobs.logs, job)
    yield "get (own)", partial(actors["own"].jobs.get, first)
    yield "why (own)", partial(actors["own"].jobs.why, first)
    for number in (crowd.ended, crowd.ended + 1):
        yield "why, waits", partial(actors["all"].jobs.why, crowd.id(number))
    yield from _of_the_whole(actors["all"])
    yield from _of_people(actors)


def _of_the_whole(control: Control) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Reads that concern all jobs."""
    now = datetime.now(UTC)
    yield "phases", control.phases.counts
    yield "phases, oldest", control.phases.oldest
    yield "phases, paused", control.phases.paused
    yield "phases, names", control.phases.names
    yield "overview", control.overview.read
    yield "sample of events", lambda: read_sample(control.jobs._store, None)
    yield "instances", control.instances.list
    yield "instances, requests", partial(control.instances.requests, INSTANCE)
    for step, days in ((60, 1), (3600, 90), (86_400, 730)):
        yield (
            f"history, {days} days by {step} s",
            partial(control.history.read, since=now - timedelta(days=days), step=step),
        )
    for phase in ("report", "nothing"):
        yield (
            f"history of {phase}, 3 days by 60 s",
            partial(control.history.read, since=now - timedelta(days=3), phase=phase),
        )
    yield "schedules", control.schedules.list
    yield "schedule", partial(control.schedules.get, "schedule-7")
    yield "schedule, ticks", partial(control.schedules.ticks, "schedule-7")
    yield "schedule, next times", partial(control.schedules.next_times, "schedule-7")
    yield "rules", control.rules.list
    yield "rule", partial(control.rules.get, "rule-7")
    yield "rules, open", control.rules.open
    yield "rule, why", partial(control.rules.why, "rule-7", "nothing")


def _of_people(actors: Mapping[str, Control]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Reads of failures, operations and acts, for each actor."""
    now = datetime.now(UTC)
    for actor, control in actors.items():
        yield f"failures ({actor})", control.failures.list
        yield f"failures of no such kind ({actor})", partial(control.failures.list, kind="nothing")
        yield f"operations ({actor})", control.operations.list
        yield f"operations that run ({actor})", partial(control.operations.list, state="running")
        asked: dict[str, dict[str, Any]] = {
            "": {},
            " of visitor": {"actor": "visitor"},
            " of no such actor": {"actor": "nobody"},
            " of a job": {"target": "job", "name": INSTANCE},
            " of phases": {"target": "phase"},
            " of instances": {"target": "instance"},
            " of the last hour": {"since": now - timedelta(hours=1)},
            " of tomorrow, by olga": {"since": now + timedelta(days=1), "actor": "olga"},
        }
        for what, arguments in asked.items():
            yield f"audit{what} ({actor})", partial(control.audit.list, **arguments)


def settle(store: Store) -> None:
    """Thirty instances with boards, a hundred schedules, and a hundred rules."""
    phases = {kind: {"size": 50, "busy": 50, "queue": 20} for kind in KINDS}
    running = [{"name": f"report-processor-{n}", "state": "busy", "job": INSTANCE} for n in range(250)]
    for _ in range(30):
        holder = store.join(info={"phases": list(KINDS), "host": "bench"}, lease=timedelta(days=1))
        store.boards.put(holder.id, json.dumps({"state": "running", "phases": phases, "processors": running}))
    store.schedules.define(
        [NewSchedule(name=f"schedule-{n}", kind="report", expression="0 2 * * *") for n in range(100)]
    )
    store.rules.define(
        [
            Rule(name=f"rule-{n}", parents=(f"north-{n}", f"south-{n}"), create="report", phase="report", key=("args.period",))
            for n in range(100)
        ]
    )  # fmt: skip


def _list(actor: Control, text: str) -> Callable[[], Any]:
    return lambda: actor.jobs.list(text)


def _count(actor: Control, text: str) -> Callable[[], Any]:
    return lambda: actor.jobs.count(text)


@contextmanager
def sqlite(crowd: Crowd) -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as folder:
        path = Path(folder) / "jobs.db"
        open_store(f"sqlite:///{path}").close()
        fill_sqlite(str(path), crowd)
        yield "SQLite", f"sqlite:///{path}"


@contextmanager
def server(crowd: Crowd) -> Iterator[tuple[str, str]]:
    with postgres() as url:
        fill_postgres(url, crowd)
        yield f"PostgreSQL {version(url)}", url


def run(*, jobs: int, rounds: int, only: str, output: Path | None) -> bool:
    """Measure; True when every read is under ``MOST_MS`` at the 95th percentile."""
    crowd, rows, slow = Crowd(jobs), [], []
    for open_database in (sqlite, server):
        say(f"filling {jobs:,} jobs")
        with open_database(crowd) as (name, url), App(url) as app:
            settle(app.store)
            for what, read in reads(app, crowd):
                if only not in what:
                    continue
                read()  # prepares statements, reads pages
                times: list[float] = []
                last: Any = None
                for _ in range(rounds):
                    began = time.perf_counter()
                    last = read()
                    times.append((time.perf_counter() - began) * 1000)
                p95 = percentile(times, 0.95)
                searched = getattr(last, "searched", "")
                found = (
                    len(last.jobs) if hasattr(last, "jobs") else last.count if hasattr(last, "exact") else ""
                )
                rows.append(
                    {
                        "database": name,
                        "read": what,
                        "p50 ms": percentile(times, 0.5),
                        "p95 ms": p95,
                        "found": found,
                        "searched": searched,
                    }
                )
                if p95 > MOST_MS:
                    slow.append(f"{what} on {name}: {p95:.0f} ms")
    show(f"Reads of the control service, {jobs:,} jobs, {rounds} times each", rows, output)
    print(
        f"\n{len(slow)} of {len(rows)} reads are over {MOST_MS:g} ms at p95"
        + "".join(f"\n  {line}" for line in slow)
    )
    return not slow
