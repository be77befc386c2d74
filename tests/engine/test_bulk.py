"""Many jobs that differ in their arguments alone: streamed while they are encoded, and the same as if they were not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import psycopg
import pytest
from pydantic import AfterValidator

from tests.engine.shop import Shop
from windlass import App
from windlass.errors import PayloadError
from windlass.model import NewJob
from windlass.model.principal import Principal
from windlass.store.ids import is_id
from windlass.store.jobs.copy import CHUNK, CopyStream, SameKindJobs

pytestmark = pytest.mark.timing

MANY = 700  # more than a stream's least
ODD = ["\\", "\\N", "\\.", "a\tb", "line\nline", "\r\n", '"quoted"', "żółw 🐢", "\u2028", "{}", "'; --", " "]


HOOKS: list[Callable[[int], None]] = []


def hooked(value: int) -> int:
    for hook in HOOKS:
        hook(value)
    return value


Watched = Annotated[int, AfterValidator(hooked)]


@pytest.fixture(autouse=True)
def no_hooks() -> Iterator[None]:
    yield
    HOOKS.clear()


def counts(shop: Shop) -> int:
    return sum(count.queued for count in shop.store.phases.counts().values())


def end_connections(shop: Shop) -> None:
    with psycopg.connect(shop.app.url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    time.sleep(0.1)


def test_order_arguments_and_answers_are_as_given(shop: Shop) -> None:
    seen: list[tuple[int, str]] = []

    @shop.app.job(processors=1)
    async def work(n: int, text: str) -> None:
        seen.append((n, text))

    calls = [{"n": n, "text": ODD[n % len(ODD)]} for n in range(MANY)]
    made = work.enqueue_many(iter(calls))
    assert len({answer.id for answer in made}) == MANY and all(is_id(answer.id) for answer in made)
    assert {(answer.created, answer.replaced) for answer in made} == {(True, False)}
    assert [shop.job(answer).args for answer in made[:30]] == calls[:30]
    shop.drained(shop.serve())
    assert seen == [(call["n"], call["text"]) for call in calls]


def test_a_call_that_is_refused_takes_all_of_them_with_it(shop: Shop) -> None:
    @shop.app.job
    async def work(n: int) -> None: ...

    for bad in (0, CHUNK * 3 + 7, MANY - 1):
        calls: list[dict[str, Any]] = [{"n": n} for n in range(MANY)]
        calls[bad] = {"n": "many"}
        with pytest.raises(PayloadError, match="n"):
            work.enqueue_many(calls)
        assert counts(shop) == 0
    assert len(work.enqueue_many([{"n": n} for n in range(MANY)])) == MANY
    assert counts(shop) == MANY


def test_what_is_no_mapping_is_refused_before_anything_is_stored(shop: Shop) -> None:
    @shop.app.job
    async def work(n: int) -> None: ...

    with pytest.raises(PayloadError, match=rf"calls\[{MANY}\] is an int"):
        work.enqueue_many([{"n": 1}] * MANY + [7])  # type: ignore[list-item]
    assert counts(shop) == 0


def test_an_option_of_one_request_counts_for_that_one(shop: Shop) -> None:
    @shop.app.job
    async def work(n: int) -> None: ...

    calls = [work.request(n=n) for n in range(MANY)]
    calls[3] = work.options(priority=9, correlation_id="mine").request(n=3)
    made = work.enqueue_many(calls)
    assert shop.job(made[3]).priority == 9 and shop.job(made[3]).correlation_id == "mine"
    assert {shop.job(answer).priority for answer in made[4:20]} == {5}


def test_a_parameter_that_is_named_as_an_option_is_an_argument(shop: Shop) -> None:
    @shop.app.job
    async def work(key: str, n: int) -> None: ...

    made = work.enqueue_many([{"key": "k", "n": n} for n in range(MANY)])
    assert len({answer.id for answer in made}) == MANY
    assert shop.job(made[-1]).args == {"key": "k", "n": MANY - 1}


def test_who_asks_is_captured_for_each_of_them(shop: Shop) -> None:
    @shop.app.job
    async def work(n: int) -> None: ...

    with shop.app.as_principal(Principal(subject="anna")):
        made = work.enqueue_many([{"n": n} for n in range(MANY)])
    captured = [shop.store.principals.get(answer.id) for answer in (made[0], made[-1])]
    assert [item.principal.subject for item in captured if item] == ["anna", "anna"]


def test_limits_and_sticky_options_count_as_ever(shop: Shop) -> None:
    @shop.app.job(limit=2)
    async def limited(n: int) -> None: ...

    @shop.app.job
    async def later(n: int) -> None: ...

    made = limited.enqueue_many([{"n": n} for n in range(MANY)])
    assert str(shop.job(made[-1]).state) == "waiting", "for its turn"
    delayed = later.options(delay=3600).enqueue_many({"n": n} for n in range(MANY))
    assert str(shop.job(delayed[0]).state) == "scheduled"


def test_rules_see_them(shop: Shop) -> None:
    @shop.app.job(processors=100)
    async def work(n: int) -> None: ...

    @shop.app.job(processors=100)
    async def following() -> None: ...

    shop.app.when(work, create=following, args={})
    shop.app.sync()
    work.enqueue_many([{"n": n} for n in range(MANY)])
    shop.drained(shop.serve())
    assert shop.store.phases.counts()[following.name].completed == MANY


def test_validators_of_an_async_caller_run_where_it_called(shop: Shop) -> None:
    threads: set[int] = set()

    HOOKS.append(lambda value: threads.add(threading.get_ident()))

    @shop.app.job
    async def work(n: Watched) -> None: ...

    made = asyncio.run(work.enqueue_many_async([{"n": n} for n in range(MANY)]))
    assert len(made) == MANY and threads == {threading.get_ident()}


def test_a_connection_that_breaks_in_the_middle_makes_each_job_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shop.store.db.dialect == "sqlite":
        pytest.skip("there is no connection to break")
    broken: list[int] = []
    real = CopyStream.lines

    def lines(stream: CopyStream, tail: str, **options: Any) -> Iterator[str]:
        for number, chunk in enumerate(real(stream, tail, **options)):
            if number == 4 and not broken:
                broken.append(number)
                end_connections(shop)
            yield chunk

    monkeypatch.setattr(CopyStream, "lines", lines)

    @shop.app.job
    async def work(n: int) -> None: ...

    made = work.enqueue_many([{"n": n} for n in range(MANY)])
    assert broken and len({answer.id for answer in made}) == MANY
    assert counts(shop) == MANY
    assert [shop.job(answer).args["n"] for answer in made[::100]] == list(range(0, MANY, 100))


def test_what_is_the_applications_own_is_run_before_the_stream_and_what_is_not_in_it() -> None:
    done: list[int] = []

    def encode(call: int) -> str:
        done.append(call)
        return "{}"

    like = NewJob(kind="a")
    stream = CopyStream(SameKindJobs(like, range(300), encode))
    assert done == []
    lines = stream.lines("\n")
    assert next(lines).count("\n") == CHUNK and done == list(range(CHUNK))
    whole = "".join(stream.lines("\n"))
    assert whole == "".join(stream.lines("\n")) and whole.count("\n") == 300, "may be read again"
    assert done == list(range(300)) and len(stream.results) == 300
    done.clear()
    CopyStream(SameKindJobs(like, range(300), encode, may_wait=False))
    assert done == list(range(300))


def test_a_validator_may_ask_the_store_itself(shop: Shop) -> None:
    if shop.store.db.dialect == "sqlite":
        pytest.skip("nothing is streamed")
    with App(shop.app.url, max_connections=1) as app:

        @app.job
        async def audit(n: int) -> None: ...

        @app.job
        async def work(n: Watched) -> None: ...

        def ask(value: int) -> None:
            if value % 100 == 0:
                audit.enqueue(n=value)

        HOOKS.append(ask)
        assert len(work.enqueue_many([{"n": n} for n in range(MANY)])) == MANY
    assert counts(shop) == MANY + MANY // 100


def test_a_generator_says_who_asks_for_each(shop: Shop) -> None:
    @shop.app.job
    async def work(n: int) -> None: ...

    def calls() -> Iterator[dict[str, Any]]:
        yield {"n": 0}
        for name in ("anna", "bert"):
            with shop.app.as_principal(Principal(subject=name)):
                yield {"n": 1}
        yield {"n": 2}

    made = work.enqueue_many(calls())
    captured = [shop.store.principals.get(answer.id) for answer in made]
    assert [item and item.principal.subject for item in captured] == [None, "anna", "bert", None]


@pytest.mark.parametrize("size", [3, MANY])
def test_a_generator_may_use_its_objects_again(shop: Shop, size: int) -> None:
    @shop.app.job
    async def work(items: list[int]) -> None: ...

    def calls() -> Iterator[dict[str, Any]]:
        items: list[int] = []
        for n in range(size):
            items[:] = [n]
            yield {"items": items}

    made = work.enqueue_many(calls())
    assert [shop.job(answer).args for answer in made[:3]] == [{"items": [n]} for n in range(3)]


def test_a_generator_that_raises_stores_nothing(shop: Shop) -> None:
    @shop.app.job
    async def work(n: int) -> None: ...

    def calls() -> Iterator[dict[str, Any]]:
        for n in range(MANY):
            yield {"n": n}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        work.enqueue_many(calls())
    assert counts(shop) == 0


def test_a_connection_that_died_while_nobody_looked_costs_nothing(shop: Shop) -> None:
    if shop.store.db.dialect == "sqlite":
        pytest.skip("there is no connection to break")

    @shop.app.job
    async def work(n: int) -> None: ...

    work.enqueue(n=0)
    end_connections(shop)
    assert len(work.enqueue_many([{"n": n} for n in range(MANY)])) == MANY
    assert counts(shop) == MANY + 1


def test_who_waits_is_told(shop: Shop) -> None:
    @shop.app.job(processors=100)
    async def work(n: int) -> None: ...

    engine = shop.serve(scan=600.0)
    shop.until(lambda: engine.report().listening)
    time.sleep(0.3)
    work.enqueue_many([{"n": n} for n in range(MANY)])
    shop.drained(engine)


def test_the_servers_log_does_not_hear_why_a_call_is_refused(shop: Shop) -> None:
    if shop.store.db.dialect == "sqlite":
        pytest.skip("there is no server")
    heard: list[str] = []
    real = psycopg.Copy.finish

    def finish(copy: Any, error: BaseException | None) -> None:
        heard.append(str(error))
        real(copy, error)

    @shop.app.job
    async def work(n: int) -> None: ...

    calls: list[dict[str, Any]] = [{"n": n} for n in range(MANY)]
    calls[400] = {"n": "4111-1111"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Copy, "finish", finish)
        with pytest.raises(PayloadError) as caught:
            work.enqueue_many(calls)
    assert heard == ["by the caller"]
    assert "n" in str(caught.value) and caught.value.__cause__ is None
