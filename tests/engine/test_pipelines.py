"""Pipelines: phases with pools, retries and outputs of their own; backpressure; definitions that change under way."""

from __future__ import annotations

import math
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.engine.shop import QUICK, Shop
from tests.waiting import PATIENCE
from windlass.app.app import App
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.model import Counts, NewJob, State
from windlass.model.rate import per_second
from windlass.model.retry import fixed
from windlass.store.jobs.holder import Holder

pytestmark = [pytest.mark.one_database, pytest.mark.timing]


class StandsStill:
    """Whether a number has been the same for half a second."""

    def __init__(self, number: Any) -> None:
        self._number = number
        self._last, self._since = None, 0.0

    def __call__(self) -> bool:
        if (now := self._number()) != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since >= 0.5


def test_the_step_that_records_a_phase_claims_the_job_for_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one commit: no notification, and no step in between."""
    pipe = shop.app.pipeline("pipe")
    for label in "abc":
        pipe.phase(label)(_returns_one)
    steps: list[tuple[list[str], list[str]]] = []
    real = Holder.step

    def step(holder: Holder, outcomes: Any = (), *wants: Any) -> Any:
        done = real(holder, outcomes, *wants)
        steps.append(([type(item).__name__ for item in outcomes], [lease.phase for lease in done.claimed]))
        return done

    monkeypatch.setattr(Holder, "step", step)
    shop.serve(scan=600.0)
    job = pipe.enqueue()
    # The end is in the database before the call that wrote it returns to the list.
    shop.until(lambda: any(outcomes == ["Completed"] for outcomes, _ in steps))
    assert shop.job(job).state is State.COMPLETED
    assert [one for one in steps if any(one)] == [
        ([], ["pipe:a"]), (["Advanced"], ["pipe:b"]), (["Advanced"], ["pipe:c"]), (["Completed"], []),
    ]  # fmt: skip


async def _returns_one() -> int:
    return 1


class Site(BaseModel):
    url: str
    words: int


def test_later_phases_get_typed_outputs_of_all_before(shop: Shop) -> None:
    pipe = shop.app.pipeline("site")

    @pipe.phase("fetch")
    async def fetch(url: str) -> Site:
        return Site(url=url, words=len(url))

    @pipe.phase("prompts")
    def prompts(url: str, ctx: Context) -> list[str]:
        return [f"{n}: {url}" for n in range(ctx.output("fetch", Site).words)]

    @pipe.phase("answer", retry=fixed(4))
    async def answer(url: str, ctx: Context) -> dict[str, Any]:
        return {
            "words": ctx.output("fetch", Site).words,
            "prompts": len(ctx.output("prompts", list[str])),
            "attempts": ctx.max_attempts,
        }

    job = pipe.enqueue(url="abc")
    shop.drained(shop.serve())
    done = shop.job(job)
    assert done.result == {"words": 3, "prompts": 3, "attempts": 4}
    assert [item.phase for item in done.outputs] == ["site:fetch", "site:prompts"]
    assert [span.outcome for span in shop.store.jobs.timeline(job.id)] == [
        "advanced",
        "advanced",
        "completed",
    ]


def test_a_phase_that_failed_is_where_a_retry_by_hand_goes_on(shop: Shop) -> None:
    runs: list[str] = []
    is_broken = threading.Event()
    is_broken.set()
    pipe = shop.app.pipeline("order")

    @pipe.phase("pack")
    def pack(order: int) -> str:
        runs.append("pack")
        return f"parcel {order}"

    @pipe.phase("ship", retry=fixed(1))
    def ship(order: int, ctx: Context) -> str:
        runs.append("ship")
        if is_broken.is_set():
            raise ConnectionError("no carrier")
        return f"{ctx.output('pack')} shipped"

    job = pipe.enqueue(order=7)
    engine = shop.serve()
    shop.drained(engine)
    assert shop.job(job).state is State.FAILED and shop.job(job).phase == "order:ship"
    is_broken.clear()
    shop.store.jobs.retry(job.id)
    shop.drained(engine)
    assert shop.job(job).result == "parcel 7 shipped" and runs == ["pack", "ship", "ship"]


def test_a_transaction_ends_a_phase_with_its_output(shop: Shop) -> None:
    shop.run("CREATE TABLE effect (job text)")
    pipe = shop.app.pipeline("bill")

    @pipe.phase("write")
    def write(ctx: Context) -> Any:
        with ctx.transaction() as tx:
            tx.connection.execute(f"INSERT INTO effect VALUES ('{ctx.job_id}')")
            tx.complete({"number": 12})

    @pipe.phase("send")
    def send(ctx: Context) -> int:
        return int(ctx.output("write")["number"])

    job = pipe.enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == 12 and len(shop.run("SELECT * FROM effect")) == 1


def test_a_phase_that_is_full_holds_back_the_one_before_it(shop: Shop) -> None:
    gate, started = threading.Event(), []
    pipe = shop.app.pipeline("press")

    @pipe.phase("quick", processors=1)
    def quick(n: int) -> int:
        started.append(n)
        gate.wait(0.05)
        return n

    @pipe.phase("slow", processors=1, max_waiting=3)
    def slow(n: int) -> None:
        gate.wait(PATIENCE)

    for n in range(60):
        pipe.enqueue(n=n)
    engine = shop.serve(pressure=0.05, prefetch=0.0)
    shop.until(lambda: shop.store.phases.counts().get("press:slow", Counts()).queued >= 3)
    stands_still = StandsStill(lambda: len(started))
    shop.until(stands_still)
    assert len(started) < 60, "it is held back"
    gate.set()
    shop.drained(engine)
    assert len(started) == 60


@pytest.mark.parametrize("options", [{"limit": 1}, {"rate": per_second(1)}])
def test_jobs_at_the_gate_of_a_phase_count_for_how_full_it_is(shop: Shop, options: dict[str, Any]) -> None:
    pipe = shop.app.pipeline("gated")

    @pipe.phase("quick", processors=1)
    def quick(n: int) -> int:
        time.sleep(0.05)
        return n

    @pipe.phase("slow", processors=1, max_waiting=3, **options)
    def slow(n: int, ctx: Context) -> None:
        ctx.sleep(20)

    shop.app.sync()
    for n in range(100):
        pipe.enqueue(n=n)
    shop.serve(pressure=0.05, prefetch=0.0)
    shop.until(lambda: shop.store.phases.counts().get("gated:slow", Counts()).waiting >= 3)
    shop.until(StandsStill(lambda: shop.store.phases.counts()["gated:quick"].queued))
    assert shop.store.phases.counts()["gated:quick"].queued > 0, "it is held back"


def test_jobs_in_a_phase_that_is_gone_are_named_and_end_with_a_code(shop: Shop) -> None:
    """The pipeline was changed while jobs were in it."""
    pipe = shop.app.pipeline("changed")

    @pipe.phase("kept")
    def kept() -> None: ...

    (gone,) = shop.store.enqueue([NewJob(kind="changed", phase="changed:gone")])
    (other,) = shop.store.enqueue([NewJob(kind="never-heard-of")])
    engine = shop.serve(unserved=0.1, fail_unserved=0.3)
    shop.until(lambda: shop.job(gone).state is State.FAILED)
    error = shop.job(gone).error or {}
    assert error["code"] == "phase_gone" and "changed:kept" in error["message"]
    assert shop.job(other).state is State.QUEUED, "another worker may know it"
    shop.until(lambda: any("never-heard-of" in part for part in engine.report().degraded))


@pytest.mark.slow
def test_the_backlog_of_a_phase_that_was_served_until_now_does_not_end_at_once(shop: Shop) -> None:
    """The time counts from when nobody serves the phase, not from when the job was queued."""

    @shop.app.pipeline("backlog").phase("kept")
    def kept() -> None: ...

    (gone,) = shop.store.enqueue([NewJob(kind="backlog", phase="backlog:gone")])
    if shop.store.db.dialect == "sqlite":
        shop.run(
            "UPDATE windlass_job SET created_at = created_at - 3600000000, ready_at = ready_at - 3600000000"
        )
    else:
        shop.run(
            "UPDATE windlass.job SET created_at = created_at - interval '1 hour', ready_at = ready_at - interval '1 hour'"
        )
    before = shop.store.now()
    shop.serve(unserved=0.05, fail_unserved=1.0)
    shop.until(lambda: shop.job(gone).state is State.FAILED)
    ended = shop.job(gone).finished_at
    assert ended is not None and ended - before >= timedelta(seconds=1)


@pytest.mark.usefixtures("patient_stop")
def test_a_phase_that_is_gone_is_found_also_where_its_kind_has_a_colon(shop: Shop) -> None:
    @shop.app.pipeline("shop:order").phase("kept")
    def kept() -> None: ...

    @shop.app.job(name="shop")
    def other() -> None: ...

    (gone,) = shop.store.enqueue([NewJob(kind="shop:order", phase="shop:order:gone")])
    (strange,) = shop.store.enqueue([NewJob(kind="shop:mail")])
    engine = shop.serve(unserved=0.05, fail_unserved=0.2)
    shop.until(lambda: shop.job(gone).state is State.FAILED)
    assert "shop:order:kept" in (shop.job(gone).error or {})["message"]
    time.sleep(0.5)
    engine.stop(grace=0)  # it claims such a job to look at it; whatever it has it gives back now
    assert shop.job(strange).state is State.QUEUED, "a kind that this app does not have"


def test_a_phase_that_another_instance_serves_is_left_to_it(shop: Shop, tmp_path: Path) -> None:
    """A rolling deploy: the old release does not know the new phase, and must not end its jobs."""
    old, new = shop.app.pipeline("rolling"), App(shop.app.url, settings=QUICK)

    @old.phase("first")
    def first() -> None: ...

    newer = new.pipeline("rolling")

    @newer.phase("first")
    def first_too() -> None: ...

    @newer.phase("second", processors=1)
    def second() -> None:
        time.sleep(0.05)

    both = new.worker(phases=("rolling:second",))
    both.start()
    try:
        jobs = shop.store.enqueue([NewJob(kind="rolling", phase="rolling:second") for _ in range(20)])
        shop.serve(unserved=0.05, fail_unserved=0.1)
        shop.until(lambda: all(shop.job(job).state.is_final for job in jobs))
    finally:
        both.stop(grace=0)
        new.close()
    assert {shop.job(job).state for job in jobs} == {State.COMPLETED}


def test_mistakes_in_a_definition_are_named(shop: Shop) -> None:
    pipe = shop.app.pipeline("bad")
    with pytest.raises(ConfigError, match="at least one phase"):
        pipe.enqueue()
    pipe.phase("one")(lambda: None)
    with pytest.raises(ConfigError, match="bad:one"):
        pipe.phase("one")(lambda: None)
    with pytest.raises(ConfigError, match="max_waiting"):
        pipe.phase("two", max_waiting=0)(lambda: None)
    for number in (0, 1.5, True):
        with pytest.raises(ConfigError, match="processors"):
            pipe.phase("two", processors=number)(lambda: None)
    for seconds in (0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="timeout"):
            pipe.phase("two", timeout=seconds)(lambda: None)
    for option in ("retry", "chunk_retry"):
        with pytest.raises(ConfigError, match=f"{option} = 3"):
            pipe.phase("two", **{option: 3})(lambda: None)
    shop.app.job(name="plain")(lambda: None)
    with pytest.raises(ConfigError, match=r"test_pipelines\.py:\d+"):
        shop.app.pipeline("plain").phase("one")(lambda: None)


@pytest.mark.parametrize("after", [7, "01900000-0000-7000-8000-000000000000"])
def test_what_cannot_be_waited_for_is_named(shop: Shop, after: Any) -> None:
    job = shop.app.job(name="job")(lambda: None)
    mistakes: list[Any] = [after, job.enqueue()]
    for wrong in mistakes:
        with pytest.raises(ConfigError, match="a list of jobs"):
            job.options(after=wrong).enqueue()
    for seconds in (math.nan, math.inf, 1e15):
        with pytest.raises(ConfigError, match="delay"):
            job.options(delay=seconds).enqueue()
    assert shop.store.phases.counts()["job"].queued == 1


@pytest.mark.parametrize(
    ("reason", "lasts", "told"),
    [
        ("", None, "reason"),
        (None, None, "reason"),
        ("a\0b", None, "reason"),
        ("why", timedelta.max, "lasts"),
        ("why", timedelta(0), "lasts"),
        ("why", math.nan, "lasts"),
    ],
)
def test_a_pause_that_cannot_be_is_refused(shop: Shop, reason: Any, lasts: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        shop.store.phases.pause("visit", reason, lasts=lasts)
    assert shop.store.phases.paused() == []
