"""Batches and chains: stored as a whole, and the job behind them runs once, with what the others left."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from windlass import App, Cancel, Context, Fail, JobFailed, Key, Principal, Throttle, injected
from windlass.errors import ConfigError, JobNotFoundError, NoPrincipalError, PayloadError, UnknownParentError
from windlass.model import ParentCounts, State
from windlass.store.ids import new_id
from windlass.testing import Sandbox


class Size(BaseModel):
    width: int
    height: int = 1


app = App()


@app.job
def resize(n: int) -> Size:
    if n == 3:
        raise Fail("too dark")
    if n == 4:
        raise Cancel("not wanted")
    return Size(width=n)


@app.job
def double(n: int = 1) -> int:
    return 2 * n


@app.job
def album(ctx: Context, name: str = "") -> dict[str, Any]:
    parents = ctx.parents(resize)
    return {
        "widths": [size.width for size in parents.results()],
        "failures": {str(item.state): (item.error or {})["message"] for item in parents.failures()},
        "counts": [ctx.parents().counts().total, parents.counts().total, len(list(ctx.parents()))],
        "has any": ctx.parents().counts().total > 0,
        "order": [item.id for item in ctx.parents()],
    }


@app.job
def follow(ctx: Context, add: int) -> int:
    """A step of a chain: what the one before it returned, and more."""
    (before,) = ctx.parents(int).results()
    return before + add


@app.job
def whose(principal: Principal = injected()) -> str:
    return f"{principal.subject} {' '.join(sorted(principal.roles))}"


@app.job
def outer(ctx: Context, n: int) -> str:
    """A member that makes a batch of its own."""
    return ctx_app().batch([double.request(n), double.request(n + 1)], then=total.request()).then.id


@app.job
def total(ctx: Context) -> int:
    return sum(ctx.parents(double).results())


def ctx_app() -> App:
    return app


@pytest.fixture
def box(store_url: str) -> Iterator[Sandbox]:
    with Sandbox(app, url=store_url) as made:
        yield made


def test_a_summary_runs_once_when_all_members_have_ended(box: Sandbox) -> None:
    batch = box.app.batch([resize.request(n) for n in range(25)], then=album.request(name="July"))
    assert batch.progress() == ParentCounts(25) and batch.progress().left == 25
    job = box.store.jobs.get(batch.then.id)
    assert (job.state, job.reason, job.why) == (State.WAITING, "waiting", "waits for 25 of 25 jobs")
    for member in batch.members[:24]:
        box.run_one(member)
    assert box.store.jobs.get(batch.then.id).why == "waits for 1 of 25 jobs"
    assert box.drain() == 2
    summary = box.only("album")
    assert summary.state is State.COMPLETED and summary.args == {"name": "July"}
    assert summary.result["widths"] == [n for n in range(25) if n not in (3, 4)]
    assert summary.result["failures"] == {"failed": "too dark", "cancelled": "not wanted"}
    assert summary.result["counts"] == [25, 25, 25] and summary.result["has any"]
    assert summary.result["order"] == sorted(member.id for member in batch.members)
    assert batch.progress() == ParentCounts(25, completed=23, failed=1, cancelled=1)
    assert batch.progress().ended == 25 and batch.progress().left == 0


def test_a_member_that_expires_has_ended(box: Sandbox) -> None:
    batch = box.app.batch([double.options(expires=1).request(1), double.request(2)], then=album.request())
    box.advance(2)
    box.drain()
    assert box.only("album").result["failures"] == {}, "of another kind"
    assert batch.progress() == ParentCounts(2, completed=1, cancelled=1)


def test_with_no_members_the_summary_runs_at_once(box: Sandbox) -> None:
    batch = box.app.batch([], then=album.request())
    assert batch.progress() == ParentCounts(0)
    assert box.run_one(batch.then).result == {
        "widths": [],
        "failures": {},
        "counts": [0, 0, 0],
        "has any": False,
        "order": [],
    }


def test_members_may_be_of_different_kinds_with_options_and_keys(box: Sandbox) -> None:
    """A member whose key finds a job is that job, also where it has ended; the same job twice counts once."""
    existing = box.app.parts.submitter.submit(
        double.options(key="k").request(5).new_job(box.app.parts.authority)
    )
    requests: list[Any] = [
        double.options(key="k").request(5),
        double.options(key=Key("k")).request(5),
        resize.options(priority=9).request(7),
        double.options(delay=60).request(),
        existing,
    ]
    batch = box.app.batch(requests, then=album.request())
    assert [member.created for member in batch.members] == [False, False, True, True, False]
    assert {batch.members[place].id for place in (0, 1, 4)} == {existing.id}
    assert box.store.jobs.get(batch.members[2].id).priority == 9
    assert batch.progress().total == 3
    box.drain()
    assert box.store.jobs.get(batch.then.id).why == "waits for 1 of 3 jobs"
    box.drain(advance=True)
    assert box.only("album").result["widths"] == [7]
    assert box.only("album").result["counts"] == [3, 1, 3]


def test_all_is_stored_or_nothing(box: Sandbox) -> None:
    with pytest.raises(PayloadError, match=r"requests\[1\]"):
        box.app.batch([double.request(1), double.request("x")], then=album.request())  # type: ignore[arg-type]
    with pytest.raises(PayloadError):
        box.app.batch([double.request(1)], then=follow.request(add="x"))  # type: ignore[arg-type]
    with pytest.raises(UnknownParentError):
        box.app.batch([double.request(1), new_id()], then=album.request())
    with pytest.raises(PayloadError, match=r"requests\[1\]"):
        box.app.chain(double.request(1), follow.request(add="x"))  # type: ignore[arg-type]
    assert box.jobs() == []


@pytest.mark.parametrize("bad", [double, 7, "seven", {"n": 7}, None])
def test_what_is_no_request_is_refused(box: Sandbox, bad: Any) -> None:
    with pytest.raises(ConfigError, match=r"requests\[0\].*request"):
        box.app.batch([bad], then=album.request())
    with pytest.raises(ConfigError, match=r"then .*then=summary.request"):
        box.app.batch([], then=bad)
    with pytest.raises(ConfigError, match=r"chain\[1\]"):
        box.app.chain(double.request(1), bad)


def test_a_chain_of_none_or_with_an_unknown_policy_is_refused(box: Sandbox) -> None:
    with pytest.raises(ConfigError, match="one request or more"):
        box.app.chain()
    with pytest.raises(ConfigError, match="cancel, wait or run"):
        box.app.chain(double.request(1), policy="stop")


def test_each_step_of_a_chain_reads_the_result_of_the_one_before(box: Sandbox) -> None:
    chain = box.app.chain(double.request(1), follow.request(add=10), follow.request(add=100))
    assert [box.store.jobs.get(job.id).reason for job in chain.jobs] == [None, "waiting", "waiting"]
    assert chain.first == chain.jobs[0]
    assert box.drain() == 3
    assert box.store.jobs.get(chain.last.id).result == 112


@pytest.mark.parametrize(
    ("policy", "expected"), [("cancel", State.CANCELLED), ("wait", State.WAITING), ("run", State.FAILED)]
)
def test_a_step_that_fails_ends_the_chain_unless_the_policy_says_otherwise(
    box: Sandbox, policy: str, expected: State
) -> None:
    """With ``run`` the next step finds no result, and fails by itself."""
    chain = box.app.chain(resize.request(3), follow.options(max_attempts=1).request(add=1), policy=policy)
    box.drain()
    assert box.store.jobs.get(chain.last.id).state is expected


def test_a_cancel_reaches_all_members_and_the_summary_does_not_run(box: Sandbox) -> None:
    batch = box.app.batch([double.request(n) for n in range(3)], then=album.request())
    box.run_one(batch.members[0])
    assert batch.cancel("enough") == 3
    assert batch.cancel("enough") == 0
    assert box.drain() == 0
    states = [str(box.store.jobs.get(job.id).state) for job in (*batch.members, batch.then)]
    assert states == ["completed", "cancelled", "cancelled", "cancelled"]
    error = box.store.jobs.get(batch.then.id).error
    assert error is not None and error["message"] == "enough"
    chain = box.app.chain(double.request(1), follow.request(add=1))
    assert chain.cancel("enough") == 2


def test_a_batch_and_a_chain_can_be_made_from_a_coroutine(box: Sandbox) -> None:
    async def make() -> tuple[Any, Any, int]:
        batch = await box.app.batch_async([double.request(1)], then=total.request())
        chain = await box.app.chain_async(double.request(1), follow.request(add=1))
        await asyncio.to_thread(box.drain)
        assert (await batch.progress_async()).completed == 1
        assert [await batch.result_async(60), await chain.result_async(60)] == [2, 3]
        other = await box.app.batch_async([double.request(1)], then=total.request())
        third = await box.app.chain_async(double.request(1))
        return batch, chain, await other.cancel_async() + await third.cancel_async()

    batch, chain, cancelled = asyncio.run(make())
    assert [batch.result(60), chain.result(60)] == [2, 3]
    assert cancelled == 3


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_batch_and_a_chain_of_the_callers_own_transaction(
    box: Sandbox, store_url: str, commits: bool, form: str
) -> None:
    def ends(connection: Any) -> None:
        connection.commit() if commits else connection.rollback()

    def sync() -> tuple[Any, Any]:
        connection: Any
        if store_url.startswith("sqlite"):
            connection = sqlite3.connect(store_url.removeprefix("sqlite:///"))
            connection.execute("BEGIN IMMEDIATE")
        else:
            connection = psycopg.connect(store_url)
        try:
            batch = box.app.batch_in(connection, [double.request(1), double.request(2)], then=total.request())
            chain = box.app.chain_in(connection, double.request(1), follow.request(add=1))
            ends(connection)
            return batch, chain
        finally:
            connection.close()

    async def unsync() -> tuple[Any, Any]:
        connection = await psycopg.AsyncConnection.connect(store_url)
        try:
            requests = [double.request(1), double.request(2)]
            batch = await box.app.batch_in_async(connection, requests, then=total.request())
            chain = await box.app.chain_in_async(connection, double.request(1), follow.request(add=1))
            await (connection.commit() if commits else connection.rollback())
            return batch, chain
        finally:
            await connection.close()

    if form == "async" and store_url.startswith("sqlite"):
        import aiosqlite

        async def unsync_file() -> tuple[Any, Any]:
            async with aiosqlite.connect(store_url.removeprefix("sqlite:///")) as connection:
                await connection.execute("BEGIN IMMEDIATE")
                requests = [double.request(1), double.request(2)]
                batch = await box.app.batch_in_async(connection, requests, then=total.request())
                chain = await box.app.chain_in_async(connection, double.request(1), follow.request(add=1))
                await (connection.commit() if commits else connection.rollback())
                return batch, chain

        batch, chain = asyncio.run(unsync_file())
    else:
        batch, chain = asyncio.run(unsync()) if form == "async" else sync()
    box.drain()
    if commits:
        assert [box.store.jobs.get(job.id).result for job in (batch.then, chain.last)] == [6, 3]
    else:
        assert box.jobs() == []
        with pytest.raises(JobNotFoundError):
            batch.progress()


def test_a_handler_makes_batches_of_its_own(box: Sandbox) -> None:
    """Nested: the jobs of a running job's batch have its correlation id; a batch of batches waits for their summaries."""
    batch = box.app.batch([outer.request(1), outer.request(2)], then=album.request())
    box.drain()
    inner = [str(box.store.jobs.get(member.id).result) for member in batch.members]
    assert [box.store.jobs.get(job).result for job in inner] == [6, 10]
    assert [box.store.jobs.get(job).correlation_id for job in inner] == [
        member.id for member in batch.members
    ]
    both = [box.app.batch([double.request(n)], then=total.request()) for n in (1, 2)]
    last = box.app.batch([one.then for one in both], then=album.request())
    box.drain()
    assert box.store.jobs.get(last.then.id).result["order"] == [one.then.id for one in both]


def test_members_and_summary_have_the_principal_and_the_summary_no_more_rights(box: Sandbox) -> None:
    ada = Principal(subject="ada", roles=frozenset({"edit", "read"}))
    narrow = Principal(subject="ada", roles=frozenset({"read"}))
    with box.app.as_principal(ada):
        batch = box.app.batch([whose.request(), whose.request()], then=whose.request())
    box.drain()
    assert {str(box.store.jobs.get(job.id).result) for job in (*batch.members, batch.then)} == {
        "ada edit read"
    }
    heir = box.app.batch(
        [
            whose.options(principal=ada).request(),
            whose.options(principal=narrow).request(),
            double.request(1),
        ],
        then=whose.request(),
    )
    box.drain()
    assert box.store.jobs.get(heir.then.id).result == "ada read", "only the rights that all members have"
    with pytest.raises(ConfigError, match="different principals"):
        other = whose.options(principal=Principal(subject="bob")).request()
        box.app.batch([whose.options(principal=ada).request(), other], then=whose.request())
    with pytest.raises(NoPrincipalError):
        box.app.batch([whose.request()], then=whose.request())


def test_the_summary_has_the_correlation_id_of_the_first_member(box: Sandbox) -> None:
    batch = box.app.batch(
        [double.options(correlation_id="july").request(1), double.request(2)], then=album.request()
    )
    assert box.store.jobs.get(batch.then.id).correlation_id == "july"
    both = box.app.batch([double.request(1)], then=album.options(correlation_id="own").request())
    assert box.store.jobs.get(both.then.id).correlation_id == "own"


def test_a_result_that_does_not_fit_is_named(box: Sandbox) -> None:
    chain = box.app.chain(resize.request(7), follow.options(max_attempts=1).request(add=1))
    box.drain()
    error = box.store.jobs.get(chain.last.id).error
    assert error is not None
    assert f"result of job {chain.first.id} cannot be read" in error["message"] and "int" in error["message"]


def test_a_summary_that_may_find_another_job_is_refused(box: Sandbox) -> None:
    """That job would not wait for the members."""
    for then in (
        album.options(key="july").request(),
        album.options(id=new_id()).request(),
        album.options(debounce="july", delay=1).request(),
        album.options(throttle=Throttle("july", 60)).request(),
    ):
        with pytest.raises(ConfigError, match="may find a job that exists"):
            box.app.batch([resize.request(1)], then=then)
    assert box.jobs() == []


def test_requests_of_another_app_are_refused(box: Sandbox) -> None:
    other = App()
    foreign = other.job(name="resize")(lambda n: n).request(1)
    calls: list[Callable[[], object]] = [
        lambda: box.app.batch([foreign], then=album.request()),
        lambda: box.app.batch([resize.request(1)], then=foreign),
        lambda: box.app.chain(double.request(), foreign),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="made by another app"):
            call()
    with pytest.raises(PayloadError, match="give requests of resize of this app"):
        resize.enqueue_many([foreign])
    assert box.jobs() == []


def test_a_chain_raises_the_error_that_stopped_it(box: Sandbox) -> None:
    chain = box.app.chain(resize.request(3), follow.request(1), follow.request(2))
    box.drain()
    with pytest.raises(JobFailed, match=f"job {chain.first.id} of kind resize failed: too dark"):
        chain.result(60)
