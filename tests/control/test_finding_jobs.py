"""Lists, counts and iterations: pages without loss or repetition while jobs move, limits of a search, and what is refused."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.test_filter_grammar import TERMS
from windlass import App, ConfigError, Job, JobNotFoundError, NewJob
from windlass.clock import ManualClock
from windlass.control.filters import Filter, Scalar, Term, Word
from windlass.control.job_reading import JobReading
from windlass.control.searching import Budget
from windlass.features import Store
from windlass.model import After, DependencyPolicy, JobError, JobFilter, State

ERROR = JobError(type="ValueError", code="bad", message="no")
INJECTED = [
    "' OR 1=1 --",
    "'; DROP TABLE windlass_job; --",
    "%' OR '1'='1",
    "$1",
    ":kinds",
    "\\'",
    "{job}",
    "NULL",
    "%s",
    "[]",
    "{}",
    "*/",
]


def filled(app: App, count: int, kind: str = "welcome", **options: object) -> list[str]:
    """Enqueue jobs; their ids, newest first."""
    jobs = [NewJob(kind=kind, args={"number": n}, **options) for n in range(count)]  # type: ignore[arg-type]
    return [made.id for made in app.parts.store.enqueue(jobs)][::-1]


def narrow(monkeypatch: pytest.MonkeyPatch, **limits: float) -> None:
    monkeypatch.setattr(JobReading, "budget", Budget(**limits))  # type: ignore[arg-type]


class Mover:
    """Moves random jobs from state to state."""

    def __init__(self, store: Store, ids: Sequence[str], seed: int) -> None:
        self._store, self._ids, self._random = store, ids, random.Random(seed)
        self._holder = store.join()

    def move(self) -> None:
        job_id = self._random.choice(self._ids)
        state = self._store.jobs.get(job_id).state
        if state.is_final:
            self._store.jobs.retry(job_id)
        elif (lease := self._holder.claim_one(job_id)) is not None:
            act = self._random.randrange(4)
            if act == 0:
                self._holder.complete(lease)
            elif act == 1:
                self._holder.fail(lease, ERROR)
            elif act == 2:
                self._holder.retry_later(lease, ERROR, timedelta(days=1))
            else:
                self._holder.release(lease)
        elif state is State.SCHEDULED:
            self._store.jobs.cancel(job_id)


def test_pages_have_every_job_once_while_jobs_move_between_pages(app: App, store: Store) -> None:
    ids = filled(app, 60)
    mover = Mover(store, ids, seed=7)
    for page in (1, 7, 60):
        seen: list[str] = []
        cursor = None
        while True:
            found = app.jobs.list(cursor=cursor, limit=page)
            seen += [job.id for job in found.jobs]
            for _ in range(5):
                mover.move()
            if (cursor := found.next_cursor) is None:
                break
        assert seen == ids


@pytest.mark.timing
def test_an_iteration_has_every_job_once_while_another_thread_moves_jobs(app: App, store: Store) -> None:
    """Each window is one statement: no job is between two tables."""
    ids = filled(app, 40)
    is_over = threading.Event()
    moved = SimpleNamespace(count=0)

    def move() -> None:
        mover = Mover(store, ids, seed=11)
        while not is_over.is_set():
            mover.move()
            moved.count += 1

    thread = threading.Thread(target=move)
    thread.start()
    try:
        rounds = 0
        while rounds < 30 or moved.count < 100:
            assert [job.id for job in app.jobs.iterate("kind:welcome", page=9)] == ids
            rounds += 1
    finally:
        is_over.set()
        thread.join()


def test_jobs_that_are_created_during_an_iteration_are_not_in_it(app: App) -> None:
    ids = filled(app, 6)
    found = app.jobs.iterate(page=2)
    first = next(found)
    filled(app, 3)
    assert [first.id, *(job.id for job in found)] == ids


def test_a_search_ends_after_its_rows_and_continues_by_its_cursor(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = filled(app, 2, "report")
    filled(app, 150)
    narrow(monkeypatch, rows=100, window=50, seconds=60)
    page = app.jobs.list("kind:report")
    assert (page.jobs, page.searched, page.more) == ([], 100, True)
    page = app.jobs.list("kind:report", cursor=page.next_cursor)
    assert [job.id for job in page.jobs] == wanted
    assert (page.searched, page.more, page.next_cursor) == (52, False, None)
    assert [job.id for job in app.jobs.iterate("kind:report")] == wanted


def test_a_search_ends_after_its_time(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(app, 120)
    narrow(monkeypatch, seconds=0, window=50)
    page = app.jobs.list("kind:nothing")
    assert (page.jobs, page.searched, page.more) == ([], 50, True)
    assert list(app.jobs.iterate("kind:nothing")) == []


def test_the_end_of_a_list_is_known(app: App) -> None:
    filled(app, 4)
    assert app.jobs.list(limit=4).next_cursor is None
    assert not app.jobs.list(limit=5).more
    page = app.jobs.list(limit=3)
    assert page.more and not app.jobs.list(limit=3, cursor=page.next_cursor).more
    assert app.jobs.list("kind:report").searched == 4 and not app.jobs.list("kind:report").more


def test_a_count_says_whether_it_is_exact(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(app, 7)
    filled(app, 3, "report")
    counted = app.jobs.count("kind:welcome")
    assert (counted.count, counted.exact, counted.searched) == (7, True, 10)
    assert (app.jobs.count("kind:welcome", cap=7).count, app.jobs.count("kind:welcome", cap=7).exact) == (
        7,
        True,
    )
    assert (app.jobs.count("kind:welcome", cap=5).count, app.jobs.count("kind:welcome", cap=5).exact) == (
        5,
        False,
    )
    narrow(monkeypatch, rows=1, window=4, seconds=60)
    assert (app.jobs.count("kind:welcome").exact, app.jobs.count("kind:welcome", cap=None).count) == (
        False,
        7,
    )
    everything = app.jobs.count()
    assert (everything.count, everything.exact, everything.searched) == (10, True, 0)
    assert app.jobs.count("phase:rep* state:queued").count == 3 and app.jobs.count("-phase:report").count == 7


def test_processing_jobs_are_found_at_the_old_end_of_a_long_queue(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = filled(app, 3)
    filled(app, 200)
    holder = store.join()
    assert holder.claim_one(old[0]) and holder.claim_one(old[2])
    narrow(monkeypatch, rows=50, window=50, seconds=60)
    page = app.jobs.list("state:processing")
    assert [job.id for job in page.jobs] == [old[0], old[2]] and not page.more
    assert [job.id for job in app.jobs.list("state:processing kind:welcome args.number:2").jobs] == [old[0]]
    short = filled(app, 2, "report")
    filled(app, 200)
    page = app.jobs.list("state:queued phase:report")
    assert [job.id for job in page.jobs] == short and not page.more


def test_several_values_with_an_index_each_are_one_list(app: App, store: Store) -> None:
    """The sources overlap, and each is read a few rows at a time."""
    ids = filled(app, 30)
    batches = [
        store.enqueue([NewJob(kind="album", after=[After(job, DependencyPolicy.RUN) for job in some])])[0].id
        for some in (ids[::2], ids[::3], ids[5:9])
    ]
    wanted = sorted({*ids[::2], *ids[::3], *ids[5:9]}, reverse=True)
    text = f"batch:{','.join(batches)}"
    for page in (1, 4, 100):
        assert [job.id for job in app.jobs.iterate(text, page=page)] == wanted
    assert app.jobs.count(text, cap=None).count == len(wanted)


def test_a_search_of_ended_states_reads_each_job_once_and_no_other_state(app: App, store: Store) -> None:
    ids = filled(app, 9)
    holder = store.join()
    for number, lease in enumerate(holder.claim("welcome", 9)):
        holder.fail(lease, ERROR) if number % 3 else holder.cancel(lease)
    found = {text: app.jobs.list(f"{text} kind:wel*") for text in ("state:failed", "state:cancelled")}
    assert [(len(page.jobs), page.searched) for page in found.values()] == [(6, 6), (3, 3)]
    assert [job.id for job in app.jobs.iterate("state:failed,cancelled kind:wel*", page=4)] == ids


def test_the_error_of_a_job_that_is_to_be_retried_is_that_of_its_last_attempt(
    app: App, store: Store, clock: ManualClock
) -> None:
    """Not that of an earlier attempt, nor that of another job."""
    one, two = filled(app, 2)
    holder = store.join()
    for code in ("early", "late"):
        for lease in holder.claim("welcome", 2):
            error = replace(ERROR, code=code if lease.id == one else f"other_{code}")
            holder.retry_later(lease, error, timedelta(seconds=1))
        clock.advance(2)
        if code == "early":
            store.upkeep.promote()
    codes = ("late", "early", "other_late", "other_early")
    found = {code: [job.id for job in app.jobs.list(f"error:{code}").jobs] for code in codes}
    assert found == {"late": [one], "early": [], "other_late": [two], "other_early": []}


def test_a_job_that_met_the_conditions_a_moment_ago_is_not_returned(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by one statement and read by the next."""
    moved, stays = filled(app, 2)
    fetch = store.search.fetch

    def moving(ids: Sequence[str], conditions: Mapping[str, object]) -> list[Job]:
        assert list(ids) == [moved, stays]
        store.jobs.cancel(moved)
        return fetch(ids, conditions)

    monkeypatch.setattr(store.search, "fetch", moving)
    assert [job.id for job in app.jobs.list("kind:wel* state:queued").jobs] == [stays]


@pytest.mark.parametrize("limit", [0, -1, 1001, 1.5, "5", None, True])
def test_wrong_limits_are_refused(app: App, limit: object) -> None:
    with pytest.raises(ConfigError, match="limit"):
        app.jobs.list(limit=limit)  # type: ignore[arg-type]


def test_wrong_cursors_caps_and_filters_are_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="next_cursor"):
        app.jobs.list(cursor="x")
    with pytest.raises(ConfigError, match="cap"):
        app.jobs.count(cap=0)
    with pytest.raises(ConfigError, match="did you mean failed"):
        app.jobs.list(JobFilter(state="faild"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Did you mean state"):
        next(app.jobs.iterate("stat:failed"))
    with pytest.raises(JobNotFoundError):
        app.jobs.progress("x")


def test_the_async_forms_give_the_same(app: App) -> None:
    ids = filled(app, 5)

    async def read() -> None:
        assert [job.id async for job in app.jobs.iterate_async("kind:welcome", page=2)] == ids
        assert [job.id for job in (await app.jobs.list_async()).jobs] == ids
        assert (await app.jobs.count_async("kind:welcome")).count == 5
        assert (await app.jobs.get_async(ids[0])).id == ids[0]
        assert await app.jobs.progress_async(ids[0]) is None and not await app.jobs.outputs_async(ids[0])

    asyncio.run(read())


def test_values_are_bound_and_never_sql(app: App, store: Store) -> None:
    """No value of a filter changes what is asked: each finds the one job that has the value, and nothing is removed."""
    for value in INJECTED:
        (made,) = store.enqueue([NewJob(kind="welcome", args={"user": value}, correlation_id=value)])
        for only in (
            Filter((Term("args", (Scalar(value),), path=("user",)),)),
            Filter((Term("correlation", (Word(value),)),)),
        ):
            assert [job.id for job in app.jobs.iterate(str(only))] == [made.id]
    assert app.jobs.count().count == len(INJECTED)


VALUES = st.one_of(
    st.sampled_from(INJECTED),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
)
HOSTILE = st.builds(
    Term,
    st.sampled_from(["kind", "phase", "correlation", "key", "principal", "tenant", "error", "exception"]),
    st.lists(VALUES.map(Word), min_size=1, max_size=3, unique=True).map(tuple),
    st.just(""),
    st.booleans(),
)


def test_any_filter_can_be_searched(shared_store: Store) -> None:
    with App(store=shared_store) as app:
        (made,) = shared_store.enqueue([NewJob(kind="welcome", args={"user": "x"})])

        @settings(max_examples=60)
        @given(st.lists(st.one_of(TERMS, HOSTILE), min_size=1, max_size=3))
        def search(terms: list[Term]) -> None:
            only = Filter(tuple(terms))
            found = [job.id for job in app.jobs.iterate(only)]
            assert found in ([], [made.id])
            assert app.jobs.count(only).count == len(found)
            if len(terms) == 1:
                other = Filter(
                    (
                        Term(
                            terms[0].key, terms[0].values, terms[0].op, not terms[0].is_negated, terms[0].path
                        ),
                    )
                )
                assert len(found) + len(list(app.jobs.iterate(other))) == 1

        search()
