"""What jobs of a job take over from it, by every way of submitting: its correlation id and its principal."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import aiosqlite
import psycopg
import pytest

from tests.engine.shop import Shop
from windlass import Context, Debounce, JobFilter, NewJob, Principal, Throttle
from windlass.retry import fixed

pytestmark = pytest.mark.timing

ADA = Principal(subject="ada", roles=frozenset({"edit"}))


class Family:
    """A parent that submits jobs by every way; ``leaf`` says by which way each was."""

    def __init__(self, shop: Shop) -> None:
        app, self.url = shop.app, shop.app.url

        @app.job
        def leaf(way: str) -> str:
            return way

        self.leaf = leaf
        self.app = app
        app.job(name="sync")(self.sync)
        app.job(name="unsync")(self.unsync)

        @app.job(retry=fixed(1), on_success="succeeded", on_failure="failed")
        def ends(way: str) -> None:
            if way == "on_failure":
                raise ValueError("on purpose")

        app.job(name="succeeded")(self.ended)
        app.job(name="failed")(self.ended)
        self.ends = ends

    @staticmethod
    def ended(way: str) -> str:
        return way

    def connection(self) -> Any:
        if self.url.startswith("sqlite"):
            return sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=60)
        return psycopg.connect(self.url)

    async def async_connection(self) -> Any:
        if self.url.startswith("sqlite"):
            return await aiosqlite.connect(self.url.removeprefix("sqlite:///"), timeout=60)
        return await psycopg.AsyncConnection.connect(self.url)

    def sync(self, ctx: Context) -> None:
        app, leaf = self.app, self.leaf
        leaf.enqueue(way="enqueue")
        app.enqueue("leaf", way="app.enqueue")
        leaf.enqueue_many([{"way": "enqueue_many"}])
        leaf.enqueue_many({"way": "a generator"} for _ in range(1))
        leaf.enqueue_many([leaf.options(priority=9).request(way="requests")])
        leaf.options(delay=0.01).enqueue(way="delay")
        leaf.options(key="k").enqueue(way="key")
        leaf.options(debounce=Debounce("d", wait=0.01)).enqueue(way="debounce")
        leaf.options(throttle=Throttle("t", 60)).enqueue(way="throttle")
        first = leaf.enqueue(way="before")
        leaf.options(after=[first]).enqueue(way="after")
        app.batch([leaf.request(way="member")], then=leaf.request(way="summary"))
        app.chain(leaf.request(way="chain 1"), leaf.request(way="chain 2"))
        self.ends.enqueue(way="on_success")
        self.ends.enqueue(way="on_failure")
        ctx.enqueue(NewJob(kind="leaf", args={"way": "ctx.enqueue"}))
        with closing(self.connection()) as own:
            leaf.enqueue_in(own, way="enqueue_in")
            leaf.enqueue_many_in(own, [{"way": "enqueue_many_in"}])
            app.batch_in(own, [leaf.request(way="member in")], then=leaf.request(way="summary in"))
            app.chain_in(own, leaf.request(way="chain in"))
            own.commit()
        for chunk in ctx.chunks(total=1):
            with chunk as tx:
                leaf.enqueue_in(tx, way="chunk")
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="leaf", args={"way": "tx.enqueue"}))
            leaf.enqueue_in(tx, way="transaction")
            app.batch_in(tx, [leaf.request(way="member tx")], then=leaf.request(way="summary tx"))
            app.chain_in(tx, leaf.request(way="chain tx"))

    async def unsync(self, ctx: Context) -> None:
        app, leaf = self.app, self.leaf
        await leaf.enqueue_async(way="enqueue_async")
        await leaf.enqueue_many_async([{"way": "enqueue_many_async"}])
        await leaf.options(key="a").enqueue_async(way="key async")
        await app.batch_async([leaf.request(way="member async")], then=leaf.request(way="summary async"))
        await app.chain_async(leaf.request(way="chain async"))
        await ctx.enqueue_async(NewJob(kind="leaf", args={"way": "ctx.enqueue_async"}))
        own = await self.async_connection()
        try:
            await leaf.enqueue_in_async(own, way="enqueue_in_async")
            await leaf.enqueue_many_in_async(own, [{"way": "enqueue_many_in_async"}])
            await app.batch_in_async(own, [leaf.request(way="ma")], then=leaf.request(way="sa"))
            await app.chain_in_async(own, leaf.request(way="ca"))
            await own.commit()
        finally:
            await own.close()
        async for chunk in ctx.chunks(total=1):
            async with chunk as tx:
                await leaf.enqueue_in_async(tx, way="chunk async")
        async with ctx.transaction() as tx:
            await leaf.enqueue_in_async(tx, way="transaction async")
            await app.batch_in_async(tx, [leaf.request(way="mt")], then=leaf.request(way="st"))


WAYS = {"sync": 29, "unsync": 16}


@pytest.mark.parametrize("parent", [*WAYS])
def test_every_way_of_submitting_passes_correlation_id_and_principal_on(shop: Shop, parent: str) -> None:
    family = Family(shop)
    job = shop.app.kind(parent).options(correlation_id="order-7", principal=ADA).enqueue()
    shop.drained(shop.serve())
    assert str(shop.job(job).state) == "completed", shop.job(job).error
    children = [
        found
        for kind in ("leaf", "succeeded", "failed")
        for found in shop.store.jobs.list(JobFilter(kind=kind), limit=100).jobs
    ]
    ways = {found.args["way"]: found for found in children}
    assert len(ways) == len(children) == WAYS[parent]
    assert {way for way, found in ways.items() if found.correlation_id != "order-7"} == set()
    principals = shop.store.principals.list([found.id for found in children])
    assert {way for way, found in ways.items() if principals.get(found.id) != ADA} == set()
    assert {str(found.state) for found in children} == {"completed"}
    assert family.leaf.name == "leaf"
