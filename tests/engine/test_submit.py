"""Submitting: single jobs of many callers go together, and each caller gets its own answer or its own error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE
from windlass.app.app import App
from windlass.errors import (
    ConfigError,
    EnqueueUnknownError,
    KeyConflictError,
    PayloadError,
    StoreError,
    StoreFullError,
    StoreInterruptedError,
    StoreUnreachableError,
)
from windlass.features import Store, open_store
from windlass.model import Enqueued, NewJob, State
from windlass.submit.handle import JobHandle
from windlass.submit.submitter import Submitter

pytestmark = pytest.mark.timing


class Counting:
    """A store that counts how often it is written to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.db = store.db
        self.sizes: list[int] = []
        self.came, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def enqueue_checked(self, jobs: Any) -> list[Enqueued]:
        self.came.set()
        self.gate.wait(PATIENCE)
        self.sizes.append(len(jobs))
        return self.store.enqueue_checked(jobs)


def test_callers_that_wait_at_the_same_time_share_a_commit(shop: Shop) -> None:
    counting = Counting(shop.store)
    counting.gate.clear()
    submitter = Submitter(counting)  # type: ignore[arg-type]
    answers: list[str] = []
    threads = [
        threading.Thread(
            target=lambda n=n: answers.append(submitter.submit(NewJob(kind="k", args={"n": n})).id)
        )
        for n in range(50)
    ]
    for thread in threads:
        thread.start()
    shop.until(lambda: len(submitter._waiting) == 49)
    counting.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(set(answers)) == 50 and counting.sizes == [1, 49]
    assert {shop.job(job).args["n"] for job in answers} == set(range(50))


def test_coroutines_share_commits_and_do_not_block_their_loop(shop: Shop) -> None:
    counting = Counting(shop.store)
    counting.gate.clear()
    submitter = Submitter(counting)  # type: ignore[arg-type]

    async def main() -> list[Enqueued]:
        made = asyncio.gather(*(submitter.submit_async(NewJob(kind="k", args={"n": n})) for n in range(200)))
        async with asyncio.timeout(PATIENCE):
            while not counting.came.is_set():  # noqa: ASYNC110  a thread says so; all have asked by then
                await asyncio.sleep(0.005)
        counting.gate.set()
        return await made

    answers = asyncio.run(main())
    submitter.close()
    assert [shop.job(answer).args["n"] for answer in answers] == list(range(200))
    assert len(counting.sizes) <= 2 and sum(counting.sizes) == 200


def test_threads_and_coroutines_may_mix(shop: Shop) -> None:
    @shop.app.job
    def noop(n: int) -> None: ...

    made: list[JobHandle[None]] = []

    def from_a_thread() -> None:
        made.extend(noop.enqueue(n=n) for n in range(100))

    async def main() -> None:
        made.extend([await noop.enqueue_async(n=n) for n in range(100)])

    threads = [threading.Thread(target=from_a_thread) for _ in range(4)]
    threads += [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len({job.id for job in made}) == 600
    assert shop.store.phases.counts()["noop"].queued == 600


def test_a_bad_job_is_refused_before_it_joins_the_others(shop: Shop) -> None:
    @shop.app.job
    def typed(n: int) -> None: ...

    with pytest.raises(PayloadError, match="n"):
        typed.enqueue(n="many")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="priority"):
        typed.options(priority=12).enqueue(n=1)
    with pytest.raises(PayloadError, match="m"):
        typed.enqueue(m=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="kind"):
        shop.app.enqueue("unknown")
    assert shop.store.phases.counts() == {}


def test_when_a_batch_is_refused_each_caller_gets_what_its_own_job_deserves(shop: Shop) -> None:
    class Picky(Counting):
        def enqueue_checked(self, jobs: Any) -> list[Enqueued]:
            self.gate.wait(PATIENCE)
            if any(job.job.kind == "bad" for job in jobs):
                raise StoreError("no bad ones")
            return self.store.enqueue_checked(jobs)

    picky = Picky(shop.store)
    picky.gate.clear()
    submitter = Submitter(picky)  # type: ignore[arg-type]
    good: list[Enqueued] = []
    bad: list[Exception] = []

    def submit(kind: str) -> None:
        try:
            good.append(submitter.submit(NewJob(kind=kind)))
        except StoreError as error:
            bad.append(error)

    threads = [threading.Thread(target=submit, args=(kind,)) for kind in ("ok", "ok", "bad", "ok")]
    for thread in threads:
        thread.start()
    shop.until(lambda: len(submitter._waiting) == 3)
    picky.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(good) == 3 and len(bad) == 1


class Refusing(Counting):
    """A store that refuses every batch of more than one job, and at the ``last`` job that is stored alone does ``then``."""

    def __init__(self, store: Store, refusal: Exception, last: int, then: Callable[[], None]) -> None:
        super().__init__(store)
        self.refusal, self.last, self.then = refusal, last, then

    def enqueue_checked(self, jobs: Any) -> list[Enqueued]:
        made = super().enqueue_checked(jobs) if len(jobs) == 1 and self.sizes.count(1) < self.last else None
        if made is not None:
            return made
        self.sizes.append(len(jobs))
        if len(jobs) > 1:
            raise self.refusal
        self.then()
        return self.store.enqueue_checked(jobs)


def submit_together(shop: Shop, store: Refusing, good: list[Enqueued]) -> list[StoreError]:
    """One job, and while it is being stored nine more, which are a batch; ``good`` are answers in the order in which they come."""
    store.gate.clear()
    submitter = Submitter(store)  # type: ignore[arg-type]
    bad: list[StoreError] = []

    def submit() -> None:
        try:
            good.append(submitter.submit(NewJob(kind="k")))
        except StoreError as error:
            bad.append(error)

    threads = [threading.Thread(target=submit) for _ in range(10)]
    for thread in threads:
        thread.start()
    shop.until(lambda: len(submitter._waiting) == 9)
    store.gate.set()
    for thread in threads:
        thread.join(PATIENCE)
    return bad


def test_a_batch_that_is_refused_waits_once_for_a_database_that_is_away(shop: Shop) -> None:
    """It waited once for each job of the batch, and told nobody before the last."""
    good: list[Enqueued] = []
    with open_store(shop.app.url) as store:

        def go_away() -> None:
            # One job was stored before the batch, two of the batch: of these one is that of the thread which still writes.
            shop.until(lambda: len(good) == 2)
            store.close()

        refusing = Refusing(store, StoreInterruptedError("a deadlock"), 3, go_away)
        bad = submit_together(shop, refusing, good)
    assert refusing.sizes == [1, 9, 1, 1, 1], "the first job that meets the fault is the last that is tried"
    assert len(good) == 3 and len(bad) == 7
    assert all(isinstance(error, StoreUnreachableError) and error.is_unsent for error in bad)
    assert shop.store.phases.counts()["k"].queued == 3


def test_where_the_reply_about_one_job_of_a_refused_batch_is_lost_the_others_are_known_not_to_be_stored(
    shop: Shop,
) -> None:
    def lose() -> None:
        raise EnqueueUnknownError(["0190a0a0-0000-7000-8000-000000000000"], "the reply was lost")

    good: list[Enqueued] = []
    refusing = Refusing(shop.store, StoreInterruptedError("a deadlock"), 3, lose)
    bad = submit_together(shop, refusing, good)
    assert refusing.sizes == [1, 9, 1, 1, 1] and len(good) == 3
    (unknown,) = [error for error in bad if isinstance(error, EnqueueUnknownError)]
    others = [error for error in bad if error is not unknown]
    assert len(others) == 6
    for error in others:
        assert isinstance(error, StoreUnreachableError) and error.is_unsent and error.__cause__ is unknown
        assert "is not stored" in str(error) and unknown.ids[0] not in str(error)


def test_a_batch_that_fails_because_of_the_database_is_not_tried_one_by_one(shop: Shop) -> None:
    good: list[Enqueued] = []
    refusing = Refusing(shop.store, StoreFullError("the disk is full"), 10, lambda: None)
    bad = submit_together(shop, refusing, good)
    assert refusing.sizes == [1, 9] and len(good) == 1
    assert {type(error) for error in bad} == {StoreFullError} and len(bad) == 9


def test_keyed_jobs_go_alone_and_keep_their_promises(shop: Shop) -> None:
    @shop.app.job
    def charge(order: int) -> None: ...

    first = charge.options(key="order-7").enqueue(order=7)
    second = charge.options(key="order-7").enqueue(order=7)
    assert (second.id, second.created) == (first.id, False)
    with pytest.raises(KeyConflictError):
        charge.options(key="order-7").enqueue(order=8)
    child = charge.options(after=[first]).enqueue(order=9)
    assert shop.job(child).state is State.WAITING


def test_options_stand_apart_from_parameters_of_the_same_name(shop: Shop) -> None:
    @shop.app.job
    def send(key: str, priority: int = 0) -> None: ...

    job = send.options(priority=9, delay=60).enqueue(key="mine", priority=3)
    found = shop.job(job)
    assert found.args == {"key": "mine", "priority": 3}
    assert found.priority == 9 and found.state is State.SCHEDULED
    with pytest.raises(ConfigError, match="prio"):
        send.options(prio=1)  # type: ignore[call-arg]


def test_an_option_among_the_arguments_is_refused_with_the_way_to_give_it(shop: Shop) -> None:
    @shop.app.job
    def send(n: int) -> None: ...

    calls: list[Callable[[], object]] = [
        lambda: send.enqueue(n=1, delay=5),  # type: ignore[call-arg]
        lambda: send.enqueue_many([{"n": 1, "delay": 5}]),
        lambda: send.enqueue_many({"n": n, "delay": 5} for n in range(2)),
    ]
    for call in calls:
        with pytest.raises(PayloadError, match=r"send\.options\(delay=\.\.\.\)\.enqueue"):
            call()


def test_a_decorated_handler_is_still_a_function(shop: Shop) -> None:
    @shop.app.job
    def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    @shop.app.job(name="other")
    async def sub(a: int) -> int:
        return a - 1

    assert add(2, b=3) == 5 and asyncio.run(sub(3)) == 2
    assert add.__doc__ == "Adds." and add.name == "add" and sub.name == "other"
    with pytest.raises(ConfigError, match="add"):
        shop.app.job(name="add")(lambda: None)


def test_a_function_that_is_a_job_of_another_app_too_is_enqueued_where_it_was_asked_for(
    shop: Shop, tmp_path: Path
) -> None:
    """Attributes of the other app's kind were copied, its database among them; a plain function may have such attributes, too."""

    def work(n: int) -> int:
        return n

    work._app = "no app"  # type: ignore[attr-defined]
    work.label = "kept"  # type: ignore[attr-defined]
    with App(f"sqlite:///{tmp_path}/other.db") as other:
        theirs = other.job(work)
        ours = shop.app.job(name="ours")(theirs)
        assert shop.job(ours.enqueue(n=1)).args == {"n": 1}
        assert theirs.enqueue(n=2).created and ours(3) == 3
        assert other.store.phases.counts().keys() == {"work"} and ours.label == "kept"  # type: ignore[attr-defined]
        line = shop.app.pipeline("line")
        line.phase("first")(theirs)
        assert shop.job(line.enqueue(n=4)).phase == "line:first"
    assert shop.store.phases.counts().keys() == {"ours", "line:first"}
