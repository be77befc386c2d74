"""Headers of submissions: given with the call, added by functions of the application, passed on by handlers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from windlass import App, Context
from windlass.errors import ConfigError
from windlass.handlers.submit_hooks import Submission
from windlass.model import NewJob
from windlass.testing import Sandbox


@pytest.fixture
def app() -> App:
    app = App()

    @app.job
    async def work(n: int = 0) -> None: ...

    return app


@pytest.fixture
def box(app: App) -> Iterator[Sandbox]:
    with Sandbox(app) as made:
        yield made


def test_what_is_given_counts_before_what_is_added(app: App, box: Sandbox) -> None:
    seen: list[Submission] = []

    @app.on_submit
    def first(submission: Submission) -> Mapping[str, str]:
        seen.append(submission)
        return {"a": "first", "b": "first", "c": "first"}

    @app.on_submit
    def second(submission: Submission) -> Mapping[str, str] | None:
        return {"b": "second"} if submission.headers else None

    kind = box.app.kind("work")
    plain = kind.options(correlation_id="c-7").enqueue()
    given = kind.options(headers={"c": "given"}).enqueue(n=3)
    assert box.store.headers.get(plain.id) == {"a": "first", "b": "first", "c": "first"}
    assert box.store.headers.get(given.id) == {"a": "first", "b": "second", "c": "given"}
    assert [(item.kind, item.phase, item.correlation_id, dict(item.headers)) for item in seen] == [
        ("work", "work", "c-7", {}), ("work", "work", None, {"c": "given"}),
    ]  # fmt: skip


def test_every_form_of_a_submit_asks_the_functions(app: App, box: Sandbox) -> None:
    counts: list[int] = []

    @app.on_submit
    def add(submission: Submission) -> dict[str, str]:
        counts.append(submission.count)
        return {"number": str(len(counts))}

    @app.job
    def parent(ctx: Context) -> None:
        ctx.enqueue(NewJob(kind="work"))
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="work", headers={"own": "1"}))

    work = box.app.kind("work")
    made = [
        work.enqueue(),
        *work.enqueue_many([{"n": 1}, {"n": 2}, {"n": 3}]),
        *work.enqueue_many({"n": n} for n in range(2)),
        *work.enqueue_many([work.options(priority=9).request(n=4)]),
    ]
    with closing(sqlite3.connect(box.url.removeprefix("sqlite:///"))) as connection:
        made.append(work.enqueue_in(connection, n=5))
        made += work.enqueue_many_in(connection, [{"n": 6}])
        connection.commit()
    assert [box.store.headers.get(job.id)["number"] for job in made] == ["1", *["2"] * 3, *"34567"]
    assert counts == [1, 3, *[1] * 5]
    box.app.enqueue("parent")
    box.drain()
    assert counts[7:] == [1, 1, 1]
    numbers = sorted(int(box.store.headers.get(job.id)["number"]) for job in box.jobs("work"))
    assert numbers[-2:] == [9, 10]


def test_a_handler_passes_headers_on(app: App, box: Sandbox) -> None:
    @app.job
    async def parent(ctx: Context) -> dict[str, Any]:
        work = box.app.kind("work")
        await work.enqueue_async(n=1)
        await work.options(headers={"tenant": "other", "own": "1"}).enqueue_async(n=2)
        await work.enqueue_many_async([{"n": 3}])
        await ctx.enqueue_async(NewJob(kind="work", args={"n": 4}))
        async with ctx.transaction() as tx:
            await work.enqueue_in_async(tx, n=5)
        return {}

    @app.job
    async def reading(ctx: Context) -> dict[str, str]:
        return dict(await ctx.headers_async())

    headers = {"tenant": "acme", "trace": "7"}
    for kind in ("parent", "reading"):
        box.app.kind(kind).options(headers=headers).enqueue()
    box.drain()
    found = {job.args["n"]: box.store.headers.get(job.id) for job in box.jobs("work")}
    assert found.pop(2) == {**headers, "tenant": "other", "own": "1"}
    assert found == dict.fromkeys((1, 3, 4, 5), headers)
    assert box.only("reading").result == headers


@pytest.mark.parametrize("bad", [None, "x"])
def test_what_is_no_function_is_refused(app: App, bad: Any) -> None:
    with pytest.raises(ConfigError, match="on_submit"):
        app.on_submit(bad)


def test_wrong_headers_are_refused_before_and_after_the_functions(app: App, box: Sandbox) -> None:
    added: list[Any] = [["a"]]

    @app.on_submit
    def add(submission: Submission) -> Any:
        return added[0]

    work = box.app.kind("work")
    with pytest.raises(ConfigError, match=r"on_submit = 'list'.*from the function .*add"):
        work.enqueue()
    added[0] = {"a": 1}
    with pytest.raises(ConfigError, match=r"headers\['a'\]"):
        work.enqueue()
    wrong: Any = {"a": 2}
    with pytest.raises(ConfigError, match=r"headers\['a'\]"):
        work.options(headers=wrong).enqueue()
    assert box.jobs() == []
