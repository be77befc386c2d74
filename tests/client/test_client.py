"""The client against a server with a store and a worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.client.conftest import Server
from tests.waiting import eventually
from windlass import (
    ActRefusedError,
    EditConflictError,
    JobCancelled,
    JobNotFoundError,
    OperationNotFoundError,
    Principal,
    ResultTimeout,
    RuleNotFoundError,
)
from windlass.client import AsyncClient, Client, NewRemoteJob
from windlass.control.actor import Actor
from windlass.model import NewSchedule
from windlass.model.rule import Rule

NO_ID = "01a1eeb3-7ddf-7d79-9983-2c11d739063d"
TOKEN = "token-of-the-boss"


def test_a_job_is_submitted_and_its_result_waited_for(client: Client, server: Server) -> None:
    job = client.submit("double", {"number": 21}, priority=9, correlation_id="order-7")
    assert job.result(timeout=60) == 42
    found = client.jobs.get(job.id)
    stored = server.app.jobs.get(job.id)
    for name in (
        "kind", "phase", "state", "priority", "attempt", "args", "result", "version", "created_at", "finished_at", "correlation_id"
    ):  # fmt: skip
        assert getattr(found, name) == getattr(stored, name), name
    assert found.priority == 9 and found.correlation_id == "order-7"


def test_every_way_to_read_a_job_says_what_the_app_says(client: Client, server: Server) -> None:
    job = client.submit("double", {"number": 4})
    job.wait(60)
    assert client.jobs.timeline(job.id) == server.app.jobs.timeline(job.id)
    assert client.jobs.outputs(job.id) == list(server.app.jobs.outputs(job.id))
    assert client.jobs.why(job.id) == server.app.jobs.why(job.id)
    assert client.jobs.progress(job.id) is None
    assert client.jobs.count(f"id:{job.id}") == server.app.jobs.count(f"id:{job.id}")
    logs = client.jobs.logs(job.id)
    assert [(log.phase, line.message) for log in logs for line in log.lines] in (
        [],
        [("double", "doubles 4")],
    )


def test_many_jobs_are_listed_page_by_page(client: Client) -> None:
    made = client.submit_many("idle", [{"number": number} for number in range(7)], correlation_id="paged")
    page = client.jobs.list("correlation:paged", limit=3)
    assert [job.id for job in page.jobs] == [job.id for job in reversed(made)][:3] and page.more
    assert [job.args["number"] for job in client.jobs.iterate("correlation:paged", page=2)] == [
        6,
        5,
        4,
        3,
        2,
        1,
        0,
    ]
    assert client.jobs.count("correlation:paged").count == 7


def test_a_job_waits_for_others_and_for_its_time(client: Client) -> None:
    first = client.submit("idle")
    second = client.submit("idle", after=[first], delay=None, expires=timedelta(hours=1))
    assert client.jobs.get(second.id).state == "waiting"
    assert client.jobs.get(second.id).why == "waits for 1 of 1 jobs"
    later = client.submit("idle", delay=timedelta(days=1))
    due = client.jobs.get(later.id).run_at
    now = client.jobs.run_now(later.id, "hurry").run_at
    assert due is not None and now is not None and due - now > timedelta(hours=23)
    assert client.submit("idle", {"number": 1}, key="k").created
    assert not client.submit("idle", {"number": 1}, key="k").created


def test_jobs_are_changed_cancelled_retried_and_deleted(client: Client) -> None:
    job = client.submit("idle", {"number": 1})
    before = client.jobs.get(job.id)
    changed = client.jobs.edit(job.id, version=before.version, arguments={"number": 2}, reason="typo")
    assert changed.args == {"number": 2}
    with pytest.raises(EditConflictError):
        client.jobs.edit(job.id, version=before.version, priority=1)
    assert job.cancel("ordered twice") == "cancelled"
    with pytest.raises(JobCancelled, match="ordered twice"):
        job.result(10)
    assert job.retry().generation == before.generation + 1
    with pytest.raises(ActRefusedError):
        client.jobs.delete(job.id, "tidy")
    job.cancel()
    client.jobs.delete(job.id, "tidy")
    with pytest.raises(JobNotFoundError):
        job.job()


def test_a_filter_is_acted_on_by_workers(client: Client) -> None:
    client.submit_many("idle", [{}, {}, {}], correlation_id="bulk")
    assert client.jobs.cancel_many("correlation:bulk", reason="r", dry_run=True).matched == 3
    handle = client.jobs.cancel_many("correlation:bulk", reason="ordered twice")
    ended = handle.wait(60)
    assert (ended.state, ended.done, handle.get().is_over) == ("done", 3, True)
    assert handle.stop() is False
    assert handle.id in {one.id for one in client.operations.list().operations}
    assert client.jobs.retry_many("correlation:bulk").wait(60).done == 3


def test_an_operation_that_was_begun_before_is_waited_for(client: Client) -> None:
    begun = client.jobs.cancel_many("correlation:nothing-has-it", reason="r")
    assert client.operations.wait(begun.id, 60).state == "done"
    assert client.operations.handle(begun.id).get().state == "done"
    with pytest.raises(OperationNotFoundError):
        client.operations.handle(NO_ID)


def test_a_batch_is_submitted_and_counted(client: Client, server: Server) -> None:
    existing = client.submit("idle", {"number": 1})
    members: list[NewRemoteJob | str] = [
        NewRemoteJob("double", {"number": 1}),
        NewRemoteJob("idle", {}, {"priority": 8}),
        existing.id,
    ]
    batch = client.submit_batch(members, then=NewRemoteJob("idle", {"number": 9}))
    assert [job.created for job in batch.members] == [True, True, False]
    batch.members[0].wait(60)
    assert batch.progress() == server.app.jobs.batch(batch.then.id)
    assert (batch.progress().total, client.jobs.get(batch.members[1].id).priority) == (3, 8)
    assert client.jobs.related(batch.then.id) == server.app.jobs.related(batch.then.id)
    client.jobs.present(batch.then.id)
    with pytest.raises(JobNotFoundError):
        client.jobs.present(NO_ID)


def test_the_stack_of_a_job_that_does_not_run_is_refused(client: Client) -> None:
    job = client.submit("idle")
    with pytest.raises(ActRefusedError, match="no instance runs it"):
        client.jobs.stack(job.id, "it hangs", timeout=1)


def test_rules_are_explained_and_removed(client: Client, server: Server) -> None:
    server.app.store.rules.put(
        Rule(name="sum", parents=("double", "fail"), create="idle", phase="idle", key=("args.number",))
    )
    assert client.rules.why("sum", 7) == server.app.rules.why("sum", 7)
    assert client.rules.remove("sum", "not needed") == 0
    with pytest.raises(RuleNotFoundError):
        client.rules.get("sum")
    assert client.audit.list(target="rule").records[0].name == "sum"


def test_deploys_are_marked_and_statistics_read(client: Client, server: Server) -> None:
    mark = client.deploys.mark("release 41")
    assert client.deploys.list() == server.app.deploys.list() == [mark]
    since, local = mark.at - timedelta(hours=1), server.app.acting_as(Actor("a")).history

    def are_the_same() -> bool:  # the worker may write statistics between the two
        return client.history.read(since=since, step=3600) == local.read(since=since, step=3600)

    eventually(are_the_same)
    assert {pool.phase for pool in client.instances.pools()} >= {"double", "fail"}
    (living,) = [one for one in client.instances.list() if one.is_alive]
    asked = client.instances.set_processors(living.id, "double", 3)
    assert client.instances.wait(asked.id, 60).state == "done"
    assert asked.id in [one.id for one in client.instances.requests(living.id)]


def test_phases_are_paused_and_resumed(client: Client, server: Server) -> None:
    client.phases.pause("idle", "disk is full", lasts=timedelta(minutes=5))
    assert client.phases.paused() == list(server.app.phases.paused())
    assert client.phases.resume("idle") and not client.phases.resume("idle")
    local = server.app.phases.counts()
    assert {name: counts for name, counts in client.phases.counts().items() if name in local} == local
    assert set(client.phases.names()) == set(server.app.phases.names()) == set(client.phases.oldest())


# ---------------------------------------------------------------------- coroutines and imports


async def _async_verbs(server: Server) -> None:
    async with AsyncClient(server.url, token=TOKEN) as client:
        job = await client.submit("double", {"number": 3})
        assert await job.result(60) == 6
        assert (await job.wait(1)).is_final and (await job.state()).is_final
        made = await client.submit_many("idle", [{}, {}], correlation_id="async")
        assert [one.id async for one in client.jobs.iterate("correlation:async", page=1)] == [
            one.id for one in reversed(made)
        ]
        with pytest.raises(ResultTimeout):
            await made[0].result(0.01)
        handle = await client.jobs.cancel_many("correlation:async", reason="r")
        assert (await handle.wait(60)).done == 2
        assert (await client.jobs.get(made[0].id)).state == "cancelled"
        with pytest.raises(JobNotFoundError):
            await client.jobs.get(NO_ID)
        assert "idle" in await client.phases.names()


def test_the_async_client_has_the_same_verbs(server: Server) -> None:
    asyncio.run(_async_verbs(server))

    def verbs(noun: object) -> set[str]:
        return {name for name in dir(noun) if not name.startswith("_")}

    sync = Client(server.url)
    coroutines = AsyncClient(server.url)
    for name in ("jobs", "operations", "phases"):
        assert verbs(getattr(sync, name)) == verbs(getattr(coroutines, name))
    local = verbs(server.app.jobs)
    assert verbs(sync.jobs) - {"wait", "result"} <= local, "each verb is one of app.jobs"
    sync.close()
    asyncio.run(coroutines.close())


def test_importing_the_client_imports_no_database_engine_or_web_framework() -> None:
    code = "import sys, windlass.client; print('\\n'.join(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = (
        "windlass.store",
        "windlass.engine",
        "windlass.app",
        "windlass.features",
        "fastapi",
        "starlette",
        "psycopg",
        "sqlite3",
    )
    assert [name for name in found if name.startswith(heavy)] == []
    assert "windlass.client" in found and "httpx" in found


def test_events_of_a_job_continue_after_a_cut_without_loss_or_repetition(
    client: Client, server: Server
) -> None:
    job = client.submit("double", {"number": 1}, delay=0.5)
    server.faults.seen.clear()
    server.faults.next[:] = ["cut", "busy", "cut"]
    seen = [event.type for event in client.jobs.events(job.id)]
    assert [kind for kind in seen if kind != "progress"] == ["created", "started", "completed"]
    assert server.faults.headers("Last-Event-ID"), "the stream was cut, and continued"
    events = list(server.app.jobs.events(job.id))
    assert list(client.jobs.events(job.id, after=events[0].id)) == events[1:]
    assert list(client.jobs.events(job.id, after=events[-1].id)) == []
    with pytest.raises(JobNotFoundError):
        list(client.jobs.events(NO_ID))


def test_samples_of_everything_continue_after_a_cut(client: Client, server: Server) -> None:
    job = client.submit("idle", {"number": 1})
    server.faults.next[:] = ["cut"]
    samples = client.events()
    first, second = next(samples), next(samples)
    samples.close()  # type: ignore[attr-defined]
    assert (first.number, second.number) == (1, 2) and first.at <= second.at
    assert second.phases["idle"].counts.queued >= 1 and second.instances[0].is_alive
    job.cancel()


def test_events_for_coroutines(client: Client, server: Server) -> None:
    job = client.submit("double", {"number": 1})
    server.faults.next[:] = ["cut"]

    async def watch() -> tuple[list[str], set[str], list[str]]:
        async with AsyncClient(server.url, token=TOKEN) as other:
            seen = [event.type async for event in other.jobs.events(job.id)]
            sample = await anext(other.events())
            return seen, set(sample.phases), [view.name for view in await other.pipelines.list()]

    seen, phases, pipelines = asyncio.run(watch())
    assert [kind for kind in seen if kind != "progress"] == ["created", "started", "completed"]
    assert "double" in phases and pipelines == ["double", "fail", "idle"]


def test_what_concerns_the_whole_is_what_the_app_says(client: Client, server: Server) -> None:
    app = server.app
    app.store.schedules.put(
        NewSchedule(name="nightly", kind="idle", expression="0 2 * * *", jitter=timedelta(seconds=5))
    )
    app.when_all(["double", "idle"], create="fail", key=["args.number"], args={}, name="both")
    app.sync()
    client.submit("double", {"number": 77}).wait(60)
    client.submit("fail").wait(60)
    eventually(app.rules.open)
    schedule = replace(app.schedules.get("nightly"), principal=client.schedules.get("nightly").principal)
    assert client.schedules.list() == [schedule] and client.schedules.get("nightly") == schedule
    assert client.schedules.next_times("nightly", 3) == app.schedules.next_times("nightly", 3)
    assert client.schedules.pause("nightly", "no disk").pause_reason == "no disk"
    assert client.schedules.resume("nightly") and not client.schedules.resume("nightly")
    made = client.schedules.run_now("nightly")
    assert client.jobs.get(made.id).kind == "idle" and client.schedules.ticks("nightly") == []
    assert client.rules.list() == app.rules.list() and client.rules.get("both") == app.rules.get("both")
    assert client.rules.open() == app.rules.open() != []
    assert client.pipelines.list() == app.acting_as(Principal("x")).pipelines.list()
    assert client.failures.list() == app.failures.list()
    assert client.audit.list(target="schedule") == app.audit.list(target="schedule")
    (instance,) = [one for one in client.instances.list() if one.is_alive]
    known = next(one for one in app.instances.list() if one.id == instance.id)
    assert (instance.host, instance.lease, instance.started_at) == (known.host, known.lease, known.started_at)
    asked = client.instances.set_processors(instance.id, "double", 3)
    assert client.instances.wait(asked.id, 60) == app.instances.request(asked.id)
    assert client.instances.request(asked.id).state == "done"
    assert {one.name for one in client.overview.read().phases} == {
        one.name for one in app.overview.read().phases
    }
    client.schedules.remove("nightly", "test")
    assert client.schedules.list() == []
