"""What a million jobs are read by: every read of the control service, of each actor, also those that find nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bench.control_fill import BATCH, INSTANCE, KINDS, RARE, Crowd
from windlass import App
from windlass.control.actor import ADMIN, OPERATOR
from windlass.control.overview_sample import read_sample
from windlass.control.service import Control
from windlass.model import NewSchedule
from windlass.model.principal import Principal
from windlass.model.rule import Rule
from windlass.operations.request import RequestState

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


Read = tuple[str, str, Callable[[], Any]]
"""The call that is measured (``jobs.list``), what is asked, and the call with its arguments."""


def reads(app: App, crowd: Crowd) -> Iterator[Read]:
    """Every read of the control service, of each actor and for each filter."""
    actors: dict[str, Control] = {
        "all": app.acting_as(Principal("root", roles=frozenset({ADMIN}))),
        "own": app.acting_as(VISITOR),
        "tenant": app.acting_as(OPERATOR_OF_TENANT),
        "nobody": app.acting_as(NOBODY),
    }
    known = filters(crowd)
    for name, text in known.items():
        yield "jobs.list", name, _list(actors["all"], text)
        yield "jobs.count", name, _count(actors["all"], text)
    for actor in ("own", "tenant", "nobody"):
        for name in ("all", "state", "no such kind", "no such argument", "key", "batch"):
            yield "jobs.list", f"{name} ({actor})", _list(actors[actor], known[name])
            yield "jobs.count", f"{name} ({actor})", _count(actors[actor], known[name])
    yield from _of_jobs(actors, crowd)
    yield from _of_the_whole(actors["all"])
    yield from _of_the_system(actors["all"])
    yield from _of_people(actors, crowd)


def _of_jobs(actors: Mapping[str, Control], crowd: Crowd) -> Iterator[Read]:
    """Reads of one job: the oldest, the newest, and the last job of a batch."""
    jobs, own, oldest = actors["all"].jobs, actors["own"].jobs, crowd.id(0)
    for what, job in (
        ("the oldest", oldest),
        ("the newest", crowd.id(crowd.jobs - 1)),
        ("of a batch", BATCH),
    ):
        for name in ("get", "timeline", "why", "logs", "progress", "outputs", "related", "batch", "present"):
            yield f"jobs.{name}", what, partial(getattr(jobs, name), job)
    for name in ("get", "why", "related"):
        yield f"jobs.{name}", "the oldest (own)", partial(getattr(own, name), oldest)
    for number in (crowd.ended, crowd.ended + 1):
        yield "jobs.why", "one that waits", partial(jobs.why, crowd.id(number))
    yield "jobs.events", "the first", lambda: next(iter(jobs.events(oldest)))
    yield "jobs.iterate", "the first page", lambda: next(iter(jobs.iterate("state:failed")))


def _of_the_whole(control: Control) -> Iterator[Read]:
    """Reads that concern all jobs."""
    now = datetime.now(UTC)
    for name in ("counts", "oldest", "paused", "names"):
        yield f"phases.{name}", "", getattr(control.phases, name)
    yield "overview.read", "", control.overview.read
    yield "overview.ping", "", control.overview.ping
    yield "events", "a sample", lambda: read_sample(control.jobs._store, None)
    yield "metrics.render", "", control.metrics.render
    yield "instances.list", "", control.instances.list
    yield "instances.pools", "", control.instances.pools
    yield "instances.requests", "", partial(control.instances.requests, INSTANCE)
    for name in ("request", "wait"):
        yield f"instances.{name}", "the newest", partial(_of_newest, control, name)
    for phase in (None, "report", "nothing"):
        spans = (
            ((60, 0.69), (3600, 41), (86_400, 730)) if phase is None else ((60, 3), (3600, 90), (86_400, 730))
        )
        for step, days in spans:
            yield (
                "history.read",
                f"{'all phases' if phase is None else phase}, {days} days by {step} s",
                partial(control.history.read, since=now - timedelta(days=days), step=step, phase=phase),
            )
    yield "schedules.list", "", control.schedules.list
    for name in ("get", "ticks", "next_times"):
        yield f"schedules.{name}", "", partial(getattr(control.schedules, name), "schedule-7")
    yield "rules.list", "", control.rules.list
    yield "rules.get", "", partial(control.rules.get, "rule-7")
    yield "rules.open", "", control.rules.open
    yield "rules.why", "", partial(control.rules.why, "rule-7", "nothing")


def _of_the_system(control: Control) -> Iterator[Read]:
    """Reads of what is set up, and of the health of the database."""
    yield "pipelines.list", "", control.pipelines.list
    yield "pipelines.get", "", partial(control.pipelines.get, "report")
    yield "tokens.list", "", control.tokens.list
    yield "deploys.list", "", control.deploys.list
    yield "doctor.settings", "", control.doctor.settings
    yield "doctor.tables", "", control.doctor.tables
    yield "doctor.examine", "", control.doctor.examine


def _of_people(actors: Mapping[str, Control], crowd: Crowd) -> Iterator[Read]:
    """Reads of failures, operations and acts, for each actor."""
    now = datetime.now(UTC)
    operations = actors["all"].operations
    yield "operations.get", "", partial(operations.get, crowd.id(7))
    yield "operations.handle", "", partial(operations.handle, crowd.id(7))
    yield "operations.wait", "one that has ended", partial(operations.wait, crowd.id(7))
    for actor, control in actors.items():
        yield "failures.list", f"({actor})", control.failures.list
        yield "failures.list", f"of no such kind ({actor})", partial(control.failures.list, kind="nothing")
        yield "operations.list", f"({actor})", control.operations.list
        yield "operations.list", f"that run ({actor})", partial(control.operations.list, state="running")
        asked: dict[str, dict[str, Any]] = {
            "all": {},
            "of visitor": {"actor": "visitor"},
            "of no such actor": {"actor": "nobody"},
            "of a job": {"target": "job", "name": INSTANCE},
            "of phases": {"target": "phase"},
            "of instances": {"target": "instance"},
            "of the last hour": {"since": now - timedelta(hours=1)},
            "of tomorrow, by olga": {"since": now + timedelta(days=1), "actor": "olga"},
        }
        for what, arguments in asked.items():
            yield "audit.list", f"{what} ({actor})", partial(control.audit.list, **arguments)


def settle(app: App) -> None:
    """Thirty instances with boards, a hundred schedules, rules and tokens, and fifty marks of deploys and requests to an instance."""
    store = app.store
    for n in range(100):
        app.tokens.create(f"token-{n}", ["view"])
    for n in range(50):
        app.deploys.mark(f"release {n}")
        request = store.requests.put(INSTANCE, "drain", actor="olga")
        store.requests.note(request, RequestState.DONE, "drained")
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


def _of_newest(control: Control, name: str) -> Any:
    newest = control.instances.requests(INSTANCE)[0]
    return getattr(control.instances, name)(newest.id)


def _list(actor: Control, text: str) -> Callable[[], Any]:
    return lambda: actor.jobs.list(text)


def _count(actor: Control, text: str) -> Callable[[], Any]:
    return lambda: actor.jobs.count(text)
