"""Uses of the public face that type checkers must accept. Checked by test_types.py, never run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

from pydantic import BaseModel

import windlass
from windlass import Context, JobHandle, JobHandles, Key, injected

app = windlass.App("sqlite:///jobs.db")


class Mailer:
    def send(self, text: str) -> None: ...


class Order(BaseModel):
    number: int


class Receipt(BaseModel):
    total: float


@app.job
async def welcome(user_id: int, note: str = "hi") -> str:
    return note


@app.job
def count(words: list[str]) -> int:
    return len(words)


@app.job(timeout=60)
async def bill(ctx: Context, order: Order, mailer: Mailer = injected()) -> Receipt:
    return Receipt(total=order.number)


@app.job(name="quiet", processors=2)
def quiet(ctx: Context) -> None: ...


@app.job
def named(key: str, priority: int) -> None: ...


sites = app.pipeline("sites")


@sites.phase("analyse", processors=3)
async def analyse(url: str) -> dict[str, int]:
    return {}


@sites.phase("judge")
def judge(ctx: Context, url: str) -> str:
    return ctx.output("analyse", dict[str, int]).__class__.__name__


@app.cron("0 6 * * *")
def nightly() -> int:
    return 1


# Submitting: the handler's own parameters, by position or by name.
assert_type(welcome.enqueue(7), JobHandle[str])
assert_type(welcome.enqueue(user_id=7, note="x"), JobHandle[str])
assert_type(count.enqueue(["a"]).result(timeout=1), int)
assert_type(bill.enqueue(Order(number=7)).result(), Receipt)
assert_type(bill.enqueue(order=Order(number=7)), JobHandle[Receipt])
assert_type(quiet.enqueue().result(), None)
assert_type(nightly.enqueue().result(), int)
assert_type(analyse.enqueue("https://example.org").result(), Any)
named.enqueue(key="k", priority=1)

# Options stand apart, and keep the types.
assert_type(welcome.options(delay=60, priority=9, key="order-7").enqueue(user_id=7), JobHandle[str])
first = welcome.options(key=Key("k"), run_at=datetime.now().astimezone()).enqueue(1)
bill.options(after=[first], delay=timedelta(seconds=3)).enqueue(Order(number=1))
named.options(key="a", priority=3).enqueue(key="b", priority=4)
sites.options(priority=3).enqueue(url="https://example.org")

# Many, by request or by mapping; and in the caller's own transaction.
assert_type(welcome.enqueue_many([welcome.request(user_id=n) for n in range(3)]), JobHandles[str])
assert_type(welcome.enqueue_many([{"user_id": 1}])[0].result(), str)
connection: Any = None
assert_type(welcome.enqueue_in(connection, 7), JobHandle[str])
assert_type(bill.enqueue_in(connection, order=Order(number=7)), JobHandle[Receipt])
assert_type(bill.enqueue_many_in(connection, [bill.request(Order(number=7))]), JobHandles[Receipt])
assert_type(judge(Context.__new__(Context), "https://example.org"), str)

# Batches, chains, and what their jobs read.
batch = app.batch(
    [welcome.request(user_id=1), count.request(["a"]), bill.options(priority=9).request(Order(number=1))],
    then=bill.request(Order(number=7)),
)
assert_type(batch.then, JobHandle[Receipt])
app.batch_in(connection, [first, "01900000-0000-7000-8000-000000000000"], then=quiet.request())
chain: JobHandle[Any] = app.chain(welcome.request(7), quiet.request(), policy="wait").last


def reads(ctx: Context) -> None:
    assert_type(list(ctx.parents(count).results()), list[int])
    assert_type(list(ctx.parents(welcome).results()), list[str])
    assert_type([parent.result for parent in ctx.parents(Receipt)], list[Receipt | None])
    assert_type(list(ctx.parents().results()), list[Any])
    assert_type(list(ctx.parents("sites").results()), list[Any])


# Handles.
assert_type(welcome.handle("01900000-0000-7000-8000-000000000000").result(), str)
state: str = first.state()


async def from_a_coroutine(ctx: Context) -> None:
    handle = await welcome.enqueue_async(user_id=7)
    assert_type(handle, JobHandle[str])
    assert_type(await handle.result_async(timeout=3), str)
    assert_type(await bill.options(priority=3).enqueue_async(Order(number=1)), JobHandle[Receipt])
    assert_type(await welcome.enqueue_many_async([{"user_id": 1}]), JobHandles[str])
    assert_type(await welcome.enqueue_in_async(connection, user_id=7), JobHandle[str])
    assert_type(await count.enqueue_many_in_async(connection, [count.request(["a"])]), JobHandles[int])
    # A kind can still be called as a function, with its context where it has one.
    assert_type(await welcome(7), str)
    assert_type(await bill(ctx, Order(number=1), Mailer()), Receipt)
    assert_type(count(["a"]), int)


@app.job
def repeats(ctx: Context, url: str) -> int:
    assert_type(windlass.retry.run_with_backoff(lambda: len(url), ctx=ctx), int)
    return 1
