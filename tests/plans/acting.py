"""Every verb of acts once: on single jobs, on many as operations, on instances."""

from __future__ import annotations

from datetime import timedelta

from tests.conformance.life import BOOM
from windlass import App
from windlass.control.operation_runner import OperationRunner
from windlass.features import Store
from windlass.model import JobLimit, Json, Key, NewJob
from windlass.operations.request import RequestState
from windlass.store.jobs.edits import Edit
from windlass.store.jobs.holder import Holder

LATER = timedelta(days=1)


def acts(store: Store, holder: Holder, n: int) -> None:
    """All of it, with operations on n jobs."""
    app = App(store=store)
    single(app, store)
    many(app, store, holder, n)
    instance = holder.id
    request = store.requests.put(instance, "drain", actor="app")
    store.requests.asked(instance)
    store.requests.note(request, RequestState.REFUSED, "x")
    store.requests.get(request)
    store.requests.of(instance)
    app.audit.list(target="job")
    app.audit.list(target="instance", name=instance)


def single(app: App, store: Store) -> None:
    limits = [JobLimit(phase="acted", key="a", limit=1)]
    after = [JobLimit(phase="acted", key="b", limit=1)]
    made = store.enqueue(
        [
            NewJob(kind="acted", args={"n": 1}),
            NewJob(kind="acted", args={"n": 1}, delay=LATER, limits=limits),
            NewJob(kind="acted", args={"n": 1}, delay=LATER, key=Key("kept")),
        ]
    )
    queued, later, keyed = (answer.id for answer in made)
    changed = Edit(args=Json('{"n":2}'), priority=9, limits_before=limits, limits=after)
    store.jobs.edit(queued, changed)
    store.jobs.edit(later, changed)
    app.jobs.run_now(keyed)
    store.db.run("is_due", id=keyed)
    for job_id in (queued, keyed):
        app.jobs.cancel(job_id, "x")
        app.jobs.delete(job_id, "x")


def many(app: App, store: Store, holder: Holder, n: int) -> None:
    ids = [answer.id for answer in store.enqueue([NewJob(kind="bulk") for _ in range(n)])]
    named = f"id:{','.join(ids)}"
    runner = OperationRunner(app.parts)
    later = [answer.id for answer in store.enqueue([NewJob(kind="bulk", delay=LATER)])]
    app.operations.start("run_now", f"id:{later[0]}")
    stopped = app.jobs.retry_many(named, reason="x")
    app.operations.stop(stopped.id)
    while (operation := store.operations.next()) is not None:
        runner.run_page(operation)
    holder.nudge("bulk")
    for lease in holder.claim("bulk", n):
        holder.fail(lease, BOOM)
    holder.step()
    app.jobs.retry_many(named, reason="x").wait()
    app.jobs.cancel_many(named, reason="x").wait()
    app.jobs.cancel_many(named, reason="x").wait()
    handle = app.operations.start("delete", named, "x")
    handle.wait()
    app.operations.list()
    app.operations.get(handle.id)
    refused = store.enqueue([NewJob(kind="bulk", key=Key("again"))])[0].id
    app.jobs.cancel(refused, "x")
    store.enqueue([NewJob(kind="bulk", key=Key("again"))])
    assert app.jobs.retry_many(f"id:{refused}").wait().refused == 1
