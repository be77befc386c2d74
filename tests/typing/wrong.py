"""Mistakes that type checkers must find: each line that ends with ``# wrong`` has one, and no other line has."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

import windlass
from windlass import Context, JobHandle, injected

app = windlass.App("sqlite:///jobs.db")


class Mailer: ...


class Order(BaseModel):
    number: int


@app.job
async def welcome(user_id: int, note: str = "hi") -> str:
    return note


@app.job(timeout=60)
def bill(ctx: Context, order: Order, mailer: Mailer = injected()) -> float:
    return 1.0


sites = app.pipeline("sites")


@sites.phase("analyse")
async def analyse(url: str) -> dict[str, int]:
    return {}


connection: Any = None

# Mistakes only where the checker is strict.
handles: list[JobHandle] = []  # wrong


def untyped(user_id):  # wrong
    pass


# Mistakes in calls.
welcome.enqueue(user_id="seven")  # wrong
welcome.enqueue()  # wrong
welcome.enqueue(7, nota="x")  # wrong
welcome.enqueue(user_id=7, delay=60)  # wrong
welcome.options(dely=60)  # wrong
welcome.options(priority="high")  # wrong
welcome.options(delay=60).enqueue(user_id=None)  # wrong
bill.enqueue({"number": 7})  # wrong
bill.enqueue("no context", Order(number=7))  # wrong
analyse.enqueue(url=7)  # wrong
welcome.enqueue_many([welcome.request(user_id="seven")])  # wrong
welcome.enqueue_in(connection, "seven")  # wrong
welcome.enqueue_many_in(connection, [bill.request(Order(number=7))])  # wrong
bill.enqueue_many([bill.request(ordr=Order(number=7))])  # wrong
welcome.options(after=7)  # wrong
app.batch([welcome.request(1)], then=welcome)  # wrong
number: int = welcome.enqueue(7).result()  # wrong
text: str = bill.enqueue(Order(number=7)).result(timeout=3)  # wrong


async def from_a_coroutine() -> None:
    await welcome.enqueue_async(note=3)  # wrong
    await bill.enqueue_in_async(connection)  # wrong
    mistaken: int = await welcome.handle("x").result_async()  # wrong
    print(mistaken)
