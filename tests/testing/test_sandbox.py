"""The test kit, used as its users would: jobs driven by hand, assertions, faults at chosen moments."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass.errors import ConfigError
from windlass.model import State
from windlass.testing import ManualClock, Sandbox

Make = Callable[..., Sandbox]


@pytest.fixture
def app() -> Iterator[windlass.App]:
    made = windlass.App("sqlite:///never-opened.db")
    yield made
    made.close()


def effects(box: Sandbox) -> list[int]:
    with closing(sqlite3.connect(box.url.removeprefix("sqlite:///"))) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM effect ORDER BY n, rowid")]


def create(box: Sandbox) -> None:
    with closing(sqlite3.connect(box.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("CREATE TABLE effect (n integer)")


@pytest.fixture
def report(app: windlass.App) -> Any:
    @app.job(chunk_retry=windlass.retry.fixed(1), retry=windlass.retry.fixed(5, wait=1))
    def report(ctx: windlass.Context) -> int:
        for chunk in ctx.chunks(total=5, size=1):
            with chunk as tx:
                tx.connection.execute("INSERT INTO effect VALUES (?)", (chunk.number,))
        return ctx.attempt

    return report


@pytest.mark.parametrize("is_own", [True, False])
def test_the_timeline_has_the_running_time_of_an_attempt(
    app: windlass.App, windlass_sandbox: Make, is_own: bool
) -> None:
    """It was counted from the start of the machine, and missing where the job ended in its own transaction."""

    @app.job
    def work(ctx: windlass.Context) -> None:
        if is_own:
            with ctx.transaction() as tx:
                tx.complete()

    box = windlass_sandbox(app)
    job = box.app.enqueue("work")
    began = time.monotonic()
    box.drain()
    took = time.monotonic() - began
    span = box.store.jobs.timeline(job.id)[-1]
    assert span.processor == "work-processor-1"
    assert span.ran is not None and span.ran.total_seconds() <= took + 0.001


def test_drain_runs_what_is_due_and_nothing_else(app: windlass.App, windlass_sandbox: Make) -> None:
    @app.job
    async def hello(name: str) -> str:
        return f"hello {name}"

    box = windlass_sandbox(app)
    now, later = box.app.enqueue("hello", name="a"), box.app.kind("hello").options(delay=60).enqueue(name="b")
    assert box.drain() == 1
    assert (
        box.store.jobs.get(now.id).result == "hello a"
        and box.store.jobs.get(later.id).state is State.SCHEDULED
    )
    box.advance(61)
    assert box.drain() == 1 and box.store.jobs.get(later.id).result == "hello b"
    assert isinstance(box.clock, ManualClock)


def test_retries_follow_the_clock(app: windlass.App, windlass_sandbox: Make) -> None:
    @app.job(retry=windlass.retry.fixed(3, wait=100))
    def shaky(ctx: windlass.Context) -> int:
        if ctx.attempt < 3:
            raise ConnectionError("no")
        return ctx.attempt

    box = windlass_sandbox(app)
    job = box.app.enqueue("shaky")
    assert box.drain() == 1 and box.store.jobs.get(job.id).state is State.SCHEDULED
    assert box.drain(advance=True) == 2 and box.store.jobs.get(job.id).result == 3


def test_assertions_say_what_is_there(app: windlass.App, windlass_sandbox: Make) -> None:
    @app.job
    def mail(to: str, subject: str) -> None: ...

    box = windlass_sandbox(app)
    box.app.enqueue("mail", to="ada", subject="hi")
    (job,) = box.assert_enqueued("mail", to="ada")
    assert box.only("mail").id == job.id
    box.refute_enqueued("mail", to="bob")
    box.assert_enqueued("mail", count=1)
    with pytest.raises(AssertionError, match=r"at least one wanted of mail with .*bob.*\n  mail .*ada"):
        box.assert_enqueued("mail", to="bob")
    with pytest.raises(AssertionError, match="none wanted"):
        box.refute_enqueued("mail", to="ada")
    with pytest.raises(AssertionError, match="2 wanted"):
        box.assert_enqueued("mail", count=2)


def test_a_job_killed_in_a_chunk_goes_on_there(
    report: Any, app: windlass.App, windlass_sandbox: Make
) -> None:
    box = windlass_sandbox(app)
    create(box)
    job = box.app.enqueue("report")
    box.faults.kill_at_chunk(2)
    box.faults.kill_at_chunk(3, after_commit=True)
    box.drain(advance=True)
    done = box.store.jobs.get(job.id)
    assert effects(box) == [0, 1, 2, 3, 4] and done.state is State.COMPLETED and done.attempt == 1
    assert [span.error["code"] for span in box.store.jobs.attempts(job.id) if span.error] == [
        "instance_died"
    ] * 2
    assert box.faults.struck == ["report chunk.commit 2", "report chunk.committed 3"]


def test_a_lost_lease_takes_the_chunk_back(report: Any, app: windlass.App, windlass_sandbox: Make) -> None:
    box = windlass_sandbox(app)
    create(box)
    job = box.app.enqueue("report")
    box.faults.lose_lease_at_chunk(1)
    box.drain(advance=True)
    assert effects(box) == [0, 1, 2, 3, 4] and box.store.jobs.get(job.id).state is State.COMPLETED


def test_a_database_that_is_away_is_a_failed_attempt(
    report: Any, app: windlass.App, windlass_sandbox: Make
) -> None:
    box = windlass_sandbox(app)
    create(box)
    job = box.app.enqueue("report")
    box.faults.database_away()
    box.drain()
    assert box.store.jobs.get(job.id).state is State.SCHEDULED
    (attempt,) = box.store.jobs.attempts(job.id)
    assert attempt.error is not None and attempt.error["code"] == "store_unreachable"
    box.drain(advance=True)
    assert effects(box) == [0, 1, 2, 3, 4]


def test_kills_at_the_end_are_counted_and_capped(app: windlass.App, windlass_sandbox: Make) -> None:
    runs: list[int] = []

    @app.job(retry=windlass.retry.fixed(9, wait=1))
    def poison() -> None:
        runs.append(1)

    box = windlass_sandbox(app)
    job = box.app.enqueue("poison")
    box.faults.kill_at_end(times=99)
    box.drain(advance=True)
    done = box.store.jobs.get(job.id)
    assert done.state is State.FAILED and (done.error or {})["code"] == "death_cap" and len(runs) == 10


def test_a_kill_at_the_start_comes_before_the_handler(app: windlass.App, windlass_sandbox: Make) -> None:
    runs: list[int] = []

    @app.job
    def pay(ctx: windlass.Context) -> None:
        runs.append(ctx.attempt)

    box = windlass_sandbox(app)
    job = box.app.enqueue("pay")
    box.faults.kill_at_start()
    box.drain(advance=True)
    assert box.store.jobs.get(job.id).state is State.COMPLETED
    assert (runs, box.faults.struck) == ([1], ["pay start 1"]), "the death has spent no attempt"


def test_a_lease_lost_at_the_end_has_the_job_done_by_another(
    app: windlass.App, windlass_sandbox: Make
) -> None:
    """What the first one wants to record is refused, and the second one's word stands."""
    runs: list[int] = []

    @app.job
    def pay(ctx: windlass.Context) -> int:
        runs.append(ctx._lease.token)
        return len(runs)

    box = windlass_sandbox(app)
    job = box.app.enqueue("pay")
    box.faults.lose_lease_at_end()
    box.drain(advance=True)
    done = box.store.jobs.get(job.id)
    assert (done.state, done.result) == (State.COMPLETED, 2)
    assert len(set(runs)) == 2 and box.faults.struck == ["pay end 1"]


def test_inline_runs_before_enqueue_returns(app: windlass.App, windlass_sandbox: Make) -> None:
    done: list[int] = []

    @app.job
    def note(n: int) -> None:
        done.append(n)

    box = windlass_sandbox(app)
    with box.inline():
        note.enqueue(n=1)
        assert done == [1]
        note.enqueue_many([{"n": 2}, {"n": 3}])
    assert done == [1, 2, 3] and len(box.jobs("note", state=State.COMPLETED)) == 3


def test_doubles_in_a_sandbox_are_not_seen_outside(app: windlass.App, windlass_sandbox: Make) -> None:
    class Mailer:
        name = "real"

    class Double(Mailer):
        name = "double"

    def who(mailer: Mailer) -> str:
        return mailer.name

    who.__annotations__ = {"mailer": Mailer, "return": str}
    app.job(who)
    app.provide(Mailer, Mailer)
    first, second = windlass_sandbox(app), windlass_sandbox(app)
    first.app.provide(Mailer, value=Double())
    jobs = [first.app.enqueue("who"), second.app.enqueue("who")]
    assert first.run_one(jobs[0]).result == "double" and second.run_one(jobs[1]).result == "real"


def test_pipelines_and_dependents_in_one_drain(app: windlass.App, windlass_sandbox: Make) -> None:
    pipe = app.pipeline("pipe")

    @pipe.phase("one")
    def one(n: int) -> int:
        return n + 1

    @pipe.phase("two")
    def two(n: int, ctx: windlass.Context) -> int:
        return int(ctx.output("one")) * 2

    @app.job
    def after() -> str:
        return "last"

    box = windlass_sandbox(app)
    parent = box.app.enqueue("pipe", n=3)
    child = box.app.kind("after").options(after=[parent]).enqueue()
    box.drain()
    assert box.store.jobs.get(parent.id).result == 8 and box.store.jobs.get(child.id).result == "last"


def test_inline_runs_what_coroutines_enqueue(app: windlass.App, windlass_sandbox: Make) -> None:
    @app.job
    async def note(n: int) -> int:
        return n

    box = windlass_sandbox(app)

    async def request() -> None:
        note.enqueue(n=1)
        assert [job.result for job in box.jobs("note")] == [1], (
            "also by a plain call on the test's event loop"
        )
        await note.enqueue_async(n=2)
        await note.enqueue_many_async([{"n": 3}, {"n": 4}])
        assert [job.result for job in box.jobs("note")] == [1, 2, 3, 4]

    with box.inline():
        asyncio.run(request())


def test_a_handler_knows_nothing_of_the_block_it_was_enqueued_in(
    app: windlass.App, windlass_sandbox: Make
) -> None:
    """As in a worker: a job has the rights that were captured with it, not those of whoever waits for it."""

    @app.job
    def child(ctx: windlass.Context) -> str:
        return ctx.principal.subject if ctx.principal else "nobody"

    @app.job
    def parent() -> None:
        child.enqueue()

    box = windlass_sandbox(app)
    box.app.enqueue("parent")
    with app.as_principal(windlass.Principal("admin")), box.inline():
        parent.options(principal=windlass.Principal("guest")).enqueue()
    assert sorted(str(job.result) for job in box.jobs("child")) == ["guest", "nobody"]


def test_tokens_are_kept_with_the_keys_of_the_app(windlass_sandbox: Make) -> None:
    key = base64.b64encode(bytes(32)).decode()
    app = windlass.App("sqlite:///never-opened.db", config={"principal.keys": f"k:{key}"})

    @app.job
    def size(ctx: windlass.Context) -> int:
        return len(ctx.token())

    box = windlass_sandbox(app)
    user = windlass.Principal("u-7")
    with box.app.as_principal(user, token="raw-token"):
        box.app.kind("size").options(keep_token=True).enqueue()
    box.drain()
    with box.inline(), app.as_principal(user, token="raw-token"):
        size.options(keep_token=True).enqueue()
    assert [job.result for job in box.jobs("size")] == [9, 9]


def test_what_handlers_enqueue_stays_in_the_sandbox(windlass_sandbox: Make, tmp_path: Path) -> None:
    app = windlass.App(f"sqlite:///{tmp_path}/real.db")

    @app.job
    def child() -> None: ...

    @app.job
    def parent() -> None:
        child.enqueue()

    box = windlass_sandbox(app)
    box.app.enqueue("parent")
    assert box.drain() == 2 and box.only("child").state is State.COMPLETED
    assert not (tmp_path / "real.db").exists()


def test_arguments_are_compared_as_they_are_stored(app: windlass.App, windlass_sandbox: Make) -> None:
    @app.job
    def bill(due: date, tags: set[str]) -> None: ...

    box = windlass_sandbox(app)
    box.app.enqueue("bill", due=date(2026, 1, 31), tags={"b", "a"})
    box.assert_enqueued("bill", due=date(2026, 1, 31), tags={"a", "b"})
    box.refute_enqueued("bill", due=date(2026, 2, 1))
    with pytest.raises(AssertionError, match="none wanted"):
        box.refute_enqueued("bill", due=date(2026, 1, 31))


def test_a_kind_that_is_spelled_wrong_is_told(app: windlass.App, windlass_sandbox: Make) -> None:
    with pytest.raises(ConfigError, match="one of the kinds"):
        windlass_sandbox(app).refute_enqueued("no such kind")
