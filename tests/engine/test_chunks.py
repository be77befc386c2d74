"""Chunked work: resumed at the checkpoint, each chunk's effect once, stopped at the edge."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.engine.chunk_effects import effects, insert
from tests.engine.shop import Shop
from windlass.handlers.context import Context
from windlass.model import State
from windlass.model.retry import fixed

pytestmark = pytest.mark.timing


QUICK_CHUNKS = fixed(3, wait=0.01)


def test_each_chunk_is_a_commit_of_effect_checkpoint_and_progress(records: Shop) -> None:
    seen: list[tuple[int, int | None]] = []

    @records.app.job
    def report(ctx: Context, county: str) -> str:
        for chunk in ctx.chunks(total=2350, size=1000):
            with chunk as tx:
                tx.connection.execute(insert(chunk))
            progress = records.job(ctx.job_id).progress
            assert progress is not None
            seen.append((progress.done, progress.total))
        return county

    job = report.enqueue(county="Kent")
    records.drained(records.serve())
    assert effects(records) == [(0, 0, 1000), (1, 1000, 2000), (2, 2000, 2350)]
    assert seen == [(1000, 2350), (2000, 2350), (2350, 2350)]
    done = records.job(job)
    assert done.result == "Kent" and done.progress is not None
    assert done.progress.percent == 100 and done.progress.rate and done.progress.seconds_left == 0


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_after_a_failure_the_job_goes_on_at_its_checkpoint(records: Shop, colour: str) -> None:
    begun: list[int] = []

    def break_down(chunk: Any, ctx: Context) -> None:
        begun.append(chunk.number)
        if chunk.number == 2 and ctx.attempt == 1:
            raise ConnectionError("gone")

    if colour == "plain":

        @records.app.job(name="long", retry=fixed(2, wait=0.02), chunk_retry=fixed(1))
        def long(ctx: Context) -> int:
            for chunk in ctx.chunks(total=50, size=10):
                with chunk as tx:
                    tx.connection.execute(insert(chunk))
                    break_down(chunk, ctx)
            return ctx.attempt

    else:

        @records.app.job(name="long", retry=fixed(2, wait=0.02), chunk_retry=fixed(1))
        async def long(ctx: Context) -> int:
            async for chunk in ctx.chunks(total=50, size=10):
                async with chunk as tx:
                    await tx.execute(insert(chunk))
                    break_down(chunk, ctx)
            return ctx.attempt

    job = long.enqueue()
    records.drained(records.serve())
    assert records.job(job).result == 2 and begun == [0, 1, 2, 2, 3, 4]
    assert [row[0] for row in effects(records)] == [0, 1, 2, 3, 4], (
        "the broken chunk's effect was rolled back"
    )


@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_chunk_that_fails_is_tried_again_by_its_own_policy(
    records: Shop, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[tuple[int, int]] = []

    def shaky(chunk: Any) -> None:
        tries.append((chunk.number, chunk.attempt))
        if chunk.number == 1 and chunk.attempt < 3:
            raise TimeoutError("slow")

    if colour == "plain":

        @records.app.job(name="job", chunk_retry=QUICK_CHUNKS)
        def job(ctx: Context) -> int:
            for chunk in ctx.chunks(total=3, size=1):
                with chunk as tx:
                    tx.connection.execute(insert(chunk))
                    shaky(chunk)
            return ctx.attempt

    else:

        @records.app.job(name="job", chunk_retry=QUICK_CHUNKS)
        async def job(ctx: Context) -> int:
            async for chunk in ctx.chunks(total=3, size=1):
                async with chunk as tx:
                    await tx.run(lambda connection: connection.execute(insert(chunk)))  # noqa: B023
                    shaky(chunk)
            return ctx.attempt

    enqueued = job.enqueue()
    records.drained(records.serve())
    assert records.job(enqueued).result == 1, "the job itself was not tried again"
    assert tries == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]
    assert [row[0] for row in effects(records)] == [0, 1, 2]
    told = [line for line in caplog.records if getattr(line, "event", "") == "chunk.retried"]
    assert [(line.__dict__["job_id"], line.__dict__["chunk"]) for line in told] == [(enqueued.id, 1)] * 2
    assert "TimeoutError: slow; try 1 of 3" in told[0].getMessage()


def test_a_chunk_that_never_works_is_the_jobs_failure(records: Shop) -> None:
    tries: list[int] = []

    @records.app.job(retry=fixed(1), chunk_retry=fixed(2, wait=0.01))
    def job(ctx: Context) -> None:
        for chunk in ctx.chunks(total=3, size=1):
            with chunk:
                tries.append(chunk.number)
                raise ValueError("bad data")

    enqueued = job.enqueue()
    records.drained(records.serve())
    assert tries == [0, 0] and records.job(enqueued).state is State.FAILED
    assert (records.job(enqueued).error or {})["type"] == "ValueError"


def test_chunks_may_follow_a_key_and_resume_after_it(records: Shop) -> None:
    keys = [f"k{n:03}" for n in range(25)]
    seen: list[list[str]] = []

    @records.app.job(retry=fixed(2, wait=0.02), chunk_retry=fixed(1))
    def walk(ctx: Context) -> str:
        for chunk in ctx.chunks(size=10):
            with chunk as tx:
                rows = [key for key in keys if chunk.after is None or key > chunk.after][: chunk.limit]
                tx.connection.execute(insert(chunk))
                chunk.reached(rows[-1] if len(rows) == chunk.limit else None, count=len(rows))
                if chunk.number == 1 and ctx.attempt == 1:
                    raise ConnectionError("gone")
                seen.append(rows)
        return "walked"

    job = walk.enqueue()
    records.drained(records.serve())
    done = records.job(job)
    assert done.result == "walked" and [row for rows in seen for row in rows] == keys
    assert done.progress is not None and (done.progress.done, done.progress.total) == (25, None)


@pytest.mark.parametrize("count", [0, 20])
def test_the_last_chunk_of_a_keyset_may_be_empty_and_have_used_its_transaction(
    records: Shop, count: int
) -> None:
    for number in range(1, count + 1):
        records.run(f"INSERT INTO effect VALUES (-1, {number}, {number})")

    @records.app.job(retry=fixed(1), chunk_retry=fixed(1))
    def walk(ctx: Context) -> int:
        seen = 0
        for chunk in ctx.chunks(size=10):
            with chunk as tx:
                query = f"SELECT first FROM effect WHERE first > {chunk.after or 0} ORDER BY first LIMIT 10"
                rows = [row[0] for row in tx.connection.execute(query).fetchall()]
                chunk.reached(rows[-1] if rows else None, count=len(rows))
                seen += len(rows)
        return seen

    job = walk.enqueue()
    records.drained(records.serve())
    assert (records.job(job).state, records.job(job).result) == (State.COMPLETED, count)


def test_positions_without_progress_can_be_saved_in_transactions(records: Shop) -> None:
    @records.app.job(retry=fixed(1))
    def walk(ctx: Context) -> Any:
        for place in ("page-1", "page-2", "page-3"):
            with ctx.transaction(ends=False) as tx:
                tx.checkpoint(place)
        saved = ctx.resume()
        return saved.position if saved else None

    job = walk.enqueue()
    records.drained(records.serve())
    assert records.job(job).result == "page-3"


def test_a_second_loop_is_refused_since_it_would_go_on_where_the_first_one_ended(records: Shop) -> None:
    @records.app.job(retry=fixed(1))
    def twice(ctx: Context) -> None:
        for _ in range(2):
            for chunk in ctx.chunks(total=10, size=5):
                with chunk as tx:
                    tx.connection.execute(insert(chunk))

    job = twice.enqueue()
    records.drained(records.serve())
    assert records.job(job).state is State.FAILED and len(effects(records)) == 2
    assert "second loop" in (records.job(job).error or {})["message"]


def test_where_the_effect_is_elsewhere_the_checkpoint_follows_it(records: Shop) -> None:
    sent: list[int] = []

    @records.app.job(retry=fixed(2, wait=0.02), chunk_retry=fixed(1))
    def send(ctx: Context) -> None:
        for chunk in ctx.chunks(total=4, size=1):
            with chunk:
                sent.append(chunk.number)
            if chunk.number == 1 and ctx.attempt == 1:
                raise ConnectionError("between two chunks")

    job = send.enqueue()
    records.drained(records.serve())
    assert records.job(job).state is State.COMPLETED and sent == [0, 1, 2, 3]


def test_bad_records_are_skipped_up_to_a_limit_and_kept(records: Shop) -> None:
    @records.app.job(retry=fixed(1), chunk_retry=fixed(1))
    def load(ctx: Context, bad: list[int]) -> int:
        for chunk in ctx.chunks(total=10, size=5, skip_limit=2):
            with chunk as tx:
                tx.connection.execute(insert(chunk))
                for n in range(chunk.offset, chunk.offset + chunk.limit):
                    if n in bad:
                        chunk.skip({"n": n}, f"record {n} is broken")
        return 10 - len(bad)

    fine, spoilt = load.enqueue(bad=[3, 7]), load.enqueue(bad=[1, 2, 8])
    records.drained(records.serve())
    done = records.job(fine)
    assert done.result == 8
    assert [(item.name, item.value) for item in done.outputs] == [
        ("skipped:0", [{"record": {"n": 3}, "reason": "record 3 is broken"}]),
        ("skipped:1", [{"record": {"n": 7}, "reason": "record 7 is broken"}]),
    ]
    failed = records.job(spoilt)
    assert failed.state is State.FAILED and failed.error is not None
    assert failed.error["code"] == "too_many_skipped" and "record 8" in failed.error["message"]


def test_a_retry_by_hand_keeps_what_was_skipped_before_its_checkpoint(records: Shop) -> None:
    """Chunks before the checkpoint do not come again: what they left out counts, and is seen at the end."""
    bad = [1, 2, 8]

    @records.app.job(retry=fixed(1), chunk_retry=fixed(1))
    def load(ctx: Context) -> None:
        for chunk in ctx.chunks(total=10, size=5, skip_limit=2):
            with chunk:
                for n in range(chunk.offset, chunk.offset + chunk.limit):
                    if n in bad:
                        chunk.skip(n, "broken")

    job = load.enqueue()
    records.drained(records.serve())
    assert (records.job(job).error or {})["code"] == "too_many_skipped"
    records.store.jobs.retry(job.id)
    records.drained(records.serve())
    assert (records.job(job).error or {})["code"] == "too_many_skipped", "two were skipped before"
    bad.remove(8)
    records.store.jobs.retry(job.id)
    records.drained(records.serve())
    done = records.job(job)
    assert done.state is State.COMPLETED
    assert [(item.name, len(item.value)) for item in done.outputs] == [("skipped:0", 2)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"total": 10, "size": 0}, "size = 0"),
        ({"total": 10, "size": -5}, "size = -5"),
        ({"total": -1}, "total = -1"),
        ({"total": 1.5}, "total = 1.5"),
        ({"total": 1, "skip_limit": -1}, "skip_limit = -1"),
    ],
)
def test_mistakes_are_named(records: Shop, options: dict[str, Any], told: str) -> None:
    @records.app.job(retry=fixed(1))
    def job(ctx: Context) -> None:
        for chunk in ctx.chunks(**options):
            with chunk:
                pass

    enqueued = job.enqueue()
    records.drained(records.serve())
    assert told in (records.job(enqueued).error or {})["message"]


@pytest.mark.parametrize("smaller", [10, 25])  # less than is done; less than there was to do
def test_a_total_may_grow_but_not_shrink(records: Shop, smaller: int) -> None:
    totals = {1: 30, 2: smaller, 3: 40}

    @records.app.job(retry=fixed(3, wait=0.02), chunk_retry=fixed(1))
    def job(ctx: Context) -> int:
        for chunk in ctx.chunks(total=totals[ctx.attempt], size=10):
            with chunk as tx:
                tx.connection.execute(insert(chunk))
                if chunk.number == 2 and ctx.attempt == 1:
                    raise ConnectionError("gone")
        return ctx.attempt

    enqueued = job.enqueue()
    records.drained(records.serve())
    assert records.job(enqueued).result == 3 and [row[0] for row in effects(records)] == [0, 1, 2, 3]
    second = records.store.jobs.attempts(enqueued.id)[1]
    assert second.error is not None and "may grow, not shrink" in second.error["message"]


def test_a_loop_that_forgets_its_block_is_told(records: Shop) -> None:
    @records.app.job(retry=fixed(1))
    def forgetful(ctx: Context) -> None:
        for _chunk in ctx.chunks(total=3, size=1):
            time.sleep(0)

    @records.app.job(retry=fixed(1))
    def silent(ctx: Context) -> None:
        for chunk in ctx.chunks(size=1):
            with chunk:
                pass

    jobs = [forgetful.enqueue(), silent.enqueue()]
    records.drained(records.serve())
    messages = [(records.job(job).error or {})["message"] for job in jobs]
    assert "with chunk as tx" in messages[0] and "chunk.reached" in messages[1]


def test_checkpoints_without_chunks_have_a_rate_from_the_second_on(shop: Shop) -> None:
    """Of a handler that resumes, from the first; one that saves positions only has none."""
    seen: list[float | None] = []

    @shop.app.job
    def plain(ctx: Context) -> None:
        for done in (10, 30):
            ctx.checkpoint({"rate": "mine"}, done=done, total=100)
            progress = shop.store.jobs.progress(ctx.job_id)
            assert progress is not None and progress.position == {"rate": "mine"}
            seen.append(progress.rate)

    @shop.app.job
    def resuming(ctx: Context) -> None:
        ctx.resume()
        ctx.checkpoint(done=10)
        seen.append(shop.store.jobs.progress(ctx.job_id).rate)  # type: ignore[union-attr]

    job = plain.enqueue()
    shop.drained(shop.serve())
    done = shop.job(job).progress
    assert seen[0] is None and seen[1] is not None and seen[1] > 0
    assert done is not None and done.rate == seen[1] and done.seconds_left == pytest.approx(70 / seen[1])
    resuming.enqueue()
    shop.drained(shop.serve())
    assert seen[2] is not None and seen[2] > 0


def test_a_chunk_loop_shows_its_key_and_nothing_of_windlass(records: Shop) -> None:
    shown: list[tuple[object, int | None]] = []

    @records.app.job
    def walk(ctx: Context) -> None:
        for chunk in ctx.chunks(size=5):
            if (progress := records.store.jobs.progress(ctx.job_id)) is not None:
                shown.append((progress.position, progress.chunk))
            with chunk:
                chunk.reached({"chunk": 7} if chunk.number < 2 else None, count=5)

    job = walk.enqueue()
    records.drained(records.serve())
    assert shown == [({"chunk": 7}, 1), ({"chunk": 7}, 2)]
    ended = records.job(job).progress
    assert ended is not None and ended.done == 15 and ended.is_last


def test_a_position_of_the_handlers_own_is_no_place_of_a_chunk_loop(records: Shop) -> None:
    """A checkpoint before the loop with names that Windlass uses, too: the loop begins at its beginning."""
    walked: list[object] = []

    @records.app.job(retry=fixed(2))
    def walk(ctx: Context) -> None:
        if ctx.attempt == 1:
            ctx.checkpoint({"last": "a.csv", "chunk": "b"})
            raise ValueError("the first attempt fails")
        for chunk in ctx.chunks(size=5):
            walked.append((chunk.number, chunk.after))
            with chunk:
                chunk.reached(None, count=5)

    job = walk.enqueue()
    records.drained(records.serve())
    assert records.job(job).state is State.COMPLETED and walked == [(0, None)]
