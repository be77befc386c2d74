"""Who asked, as handlers see it: typed, required, passed on, and never with more rights."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.engine.asking import OTHER, SMALL, USER, asked, code
from tests.engine.shop import Shop
from windlass import injected
from windlass.app.app import App
from windlass.errors import ConfigError, NoPrincipalError, NotAllowedError
from windlass.handlers.context import Context
from windlass.model import JobFilter, NewJob, State
from windlass.model.principal import ACT_FOR_OTHERS, Principal
from windlass.testing import Sandbox

pytestmark = pytest.mark.one_database

# ------------------------------------------------------------------------------------------------------- what is seen


def test_handlers_of_every_colour_see_who_asked(shop: Shop) -> None:

    @shop.app.job
    async def by_context(ctx: Context) -> list[Any]:
        principal = await ctx.principal_async()
        assert principal is not None and principal is ctx.principal
        return [principal.subject, principal.tenant, *principal.allowed_values("county")]

    @shop.app.job
    def by_type(n: int, principal: Principal = injected()) -> str:
        return f"{n} {principal.subject}"

    @shop.app.job
    async def by_type_async(ctx: Context, principal: Principal = injected()) -> bool:
        return principal == ctx.principal == USER

    @shop.app.job
    def if_any(principal: Principal | None = injected()) -> str:
        return "nobody" if principal is None else principal.subject

    @shop.app.job
    def unasked(ctx: Context) -> bool:
        return ctx.principal is None

    jobs = [
        by_context.options(principal=USER).enqueue(),
        by_type.options(principal=USER).enqueue(7),
        by_type_async.options(principal=USER).enqueue(),
        if_any.options(principal=USER).enqueue(),
        if_any.enqueue(),
        unasked.enqueue(),
    ]
    shop.drained(shop.serve())
    assert [shop.job(job).result for job in jobs] == [
        ["u-7", "acme", "Harju", "Tartu"],
        "7 u-7",
        True,
        "u-7",
        "nobody",
        True,
    ]


def test_a_missing_role_ends_the_job_without_another_attempt(shop: Shop) -> None:
    @shop.app.job
    def guarded(ctx: Context) -> str:
        return ctx.require("read").subject

    @shop.app.job
    async def strict(principal: Principal = injected()) -> None:
        principal.require("admin")

    good, bad, free = (
        guarded.options(principal=USER).enqueue(),
        strict.options(principal=USER).enqueue(),
        guarded.enqueue(),
    )
    shop.drained(shop.serve())
    assert shop.job(good).result == "u-7"
    assert (code(shop.job(bad)), shop.job(bad).attempt) == ("not_allowed", 1)
    assert (code(shop.job(free)), shop.job(free).attempt) == ("no_principal", 1)
    assert "lacks the role admin" in str(shop.job(bad).error)


def test_a_handler_that_needs_a_principal_is_not_enqueued_without_one(box: Sandbox) -> None:
    @box.app.job
    def needs(principal: Principal = injected()) -> None: ...

    @box.app.job
    def free() -> None: ...

    with pytest.raises(NoPrincipalError, match="a job of kind needs has no principal"):
        needs.enqueue()
    parent = free.options(principal=USER).enqueue()
    child = needs.options(after=[parent]).enqueue()  # it may have one from its parent
    orphan = box.store.enqueue([NewJob(kind="needs")])[0]
    box.drain()
    assert box.store.jobs.get(child.id).state is State.COMPLETED
    assert code(box.store.jobs.get(orphan.id)) == "no_principal"


def test_a_test_may_put_another_principal_in_place(box: Sandbox) -> None:
    @box.app.job
    def named(principal: Principal) -> str:
        return principal.subject

    box.app.provide(Principal, value=OTHER)
    job = box.store.enqueue([NewJob(kind="named")])[0]
    box.drain()
    assert box.store.jobs.get(job.id).result == "u-8"
    assert named(principal=USER) == "u-7"


# ------------------------------------------------------------------------------------------------------------- asking


def test_a_block_says_once_who_asks_for_all_that_it_enqueues(shop: Shop) -> None:
    @shop.app.job
    def work(n: int = 0) -> None: ...

    pipe = shop.app.pipeline("pipe")

    @pipe.phase("only")
    def only() -> None: ...

    with shop.app.as_principal(USER) as user:
        assert user is USER
        inside = [
            work.enqueue(),
            *work.enqueue_many([work.request(), work.options(principal=OTHER).request(n=1)]),
            pipe.enqueue(),
            shop.app.enqueue("work"),
        ]
        explicit = work.options(principal=OTHER).enqueue()
        with shop.app.as_principal(OTHER):
            nested = work.enqueue()
        again = work.enqueue()
    outside = work.enqueue()
    assert [asked(shop, job) for job in inside] == [USER, USER, OTHER, USER, USER]
    assert [asked(shop, job) for job in (explicit, nested, again, outside)] == [OTHER, OTHER, USER, None]
    with pytest.raises(ConfigError, match="a Principal"), shop.app.as_principal("u-7"):  # type: ignore[arg-type]
        pass


def test_a_block_belongs_to_its_thread_and_task(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    async def request(principal: Principal) -> Any:
        with shop.app.as_principal(principal):
            await asyncio.sleep(0.01)
            job = await work.enqueue_async()
            await asyncio.sleep(0.01)
            return job, await asyncio.to_thread(work.enqueue)

    async def all_at_once() -> Any:
        return await asyncio.gather(*(request(one) for one in (USER, OTHER, SMALL) * 3))

    for one, jobs in zip((USER, OTHER, SMALL) * 3, asyncio.run(all_at_once()), strict=True):
        assert [asked(shop, job) for job in jobs] == [one, one]
    made = []
    with shop.app.as_principal(USER):
        thread = threading.Thread(target=lambda: made.append(work.enqueue()))
        thread.start()
        thread.join()
    assert asked(shop, made[0]) is None


def test_another_app_in_the_same_block_is_not_asked(shop: Shop, tmp_path: Any) -> None:
    with App(f"sqlite:///{tmp_path / 'other.db'}") as other, shop.app.as_principal(USER):

        @other.job
        def work() -> None: ...

        assert asked(other, work.enqueue()) is None


def test_a_job_in_the_callers_own_transaction_is_asked_for_too(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    with shop.store.db.effect(5) as tx, shop.app.as_principal(USER):
        job = work.enqueue_in(tx.connection)
    assert asked(shop, job) == USER


# ------------------------------------------------------------------------------------------------- what is passed on


def test_what_a_job_enqueues_has_its_principal_and_never_more(shop: Shop) -> None:
    tried: dict[str, str] = {}

    @shop.app.job
    def leaf() -> None: ...

    @shop.app.job
    def parent(ctx: Context) -> None:
        principal = ctx.require()
        ctx.enqueue(NewJob(kind="leaf", correlation_id="context"))
        leaf.options(correlation_id="kind").enqueue()
        ctx.enqueue(
            NewJob(kind="leaf", correlation_id="narrowed", principal=principal.narrowed(roles=["read"]))
        )
        with shop.app.as_principal(principal.narrowed(roles=[])):
            leaf.options(correlation_id="block").enqueue()
        more = [
            ("another", OTHER),
            ("a role", Principal("u-7", tenant="acme", roles={"read", "write", "admin"})),
            ("a tenant", Principal("u-7", roles={"read"})),
            ("a service", Principal.service("u-7")),
            ("a value", Principal("u-7", tenant="acme", attributes={"county": "Võru"})),
        ]
        for name, wanted in more:
            attempts: list[Any] = [
                lambda wanted=wanted: ctx.enqueue(NewJob(kind="leaf", principal=wanted)),
                lambda wanted=wanted: leaf.options(principal=wanted).enqueue(),
                lambda wanted=wanted: shop.app.as_principal(wanted).__enter__(),
            ]
            for attempt in attempts:
                try:
                    attempt()
                except NotAllowedError as error:
                    tried[name] = tried.get(name, "") + error.code[:3]
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="leaf", correlation_id="transaction"))
            leaf.options(correlation_id="kind in transaction").enqueue_in(tx)
            try:
                tx.enqueue(NewJob(kind="leaf", principal=OTHER))
            except NotAllowedError:
                tried["in transaction"] = "not"

    @shop.app.job
    async def parent_async(ctx: Context) -> None:
        await ctx.enqueue_async(NewJob(kind="leaf", correlation_id="async context"))
        await leaf.options(correlation_id="async kind").enqueue_async()
        await asyncio.to_thread(leaf.options(correlation_id="async thread").enqueue)
        async with ctx.transaction() as tx:
            await leaf.options(correlation_id="async transaction").enqueue_in_async(tx)

    for kind in (parent, parent_async):
        kind.options(principal=USER).enqueue()
    shop.drained(shop.serve())
    leaves = shop.store.jobs.list(JobFilter(kind="leaf")).jobs
    found = {job.correlation_id: asked(shop, job) for job in leaves}
    assert found.pop("narrowed") == SMALL and found.pop("block") == USER.narrowed(roles=[])
    assert set(found.values()) == {USER} and len(found) == 8, found
    assert tried == {
        **dict.fromkeys(["another", "a role", "a tenant", "a service", "a value"], "not" * 3),
        "in transaction": "not",
    }


def test_escalating_ends_the_job(box: Sandbox) -> None:
    @box.app.job
    def greedy() -> None:
        greedy.options(principal=Principal("root")).enqueue()

    job = greedy.options(principal=USER).enqueue()
    box.drain(advance=True)
    ended = box.store.jobs.get(job.id)
    assert (code(ended), ended.attempt) == ("not_allowed", 1) and len(box.jobs("greedy")) == 1


def test_only_a_service_that_may_act_for_others_enqueues_for_anybody(box: Sandbox) -> None:
    @box.app.job
    def leaf() -> None: ...

    @box.app.job
    def dispatcher() -> None:
        leaf.options(principal=USER).enqueue()
        with box.app.as_principal(OTHER):
            leaf.enqueue()

    for principal, wanted in (
        (Principal.service("nightly", roles={ACT_FOR_OTHERS}), None),
        (Principal.service("nightly", roles={"read"}), "not_allowed"),
        (Principal("u-9", roles={ACT_FOR_OTHERS}), "not_allowed"),
    ):
        job = dispatcher.options(principal=principal).enqueue()
        box.drain()
        ended = box.store.jobs.get(job.id)
        assert (code(ended) if ended.error else None) == wanted
    assert {asked(box, job) for job in box.jobs("leaf")} == {USER, OTHER} and len(box.jobs("leaf")) == 2


def test_a_job_that_nobody_asked_for_may_enqueue_for_anybody(box: Sandbox) -> None:
    """A dispatcher, say: it has all rights that the application has."""

    @box.app.job
    def leaf() -> None: ...

    @box.app.job
    def dispatcher(ctx: Context) -> None:
        for principal in (USER, OTHER):
            leaf.options(principal=principal).enqueue()
        leaf.enqueue()

    dispatcher.enqueue()
    box.drain()
    found = [asked(box, job) for job in box.jobs("leaf")]
    assert len(found) == 3 and set(found) == {USER, OTHER, None}


def test_a_schedule_runs_as_the_service_that_code_says(shop: Shop) -> None:
    nightly = Principal.service("nightly", roles={"read"})

    @shop.app.cron("* * * * * *", name="often", principal=nightly)
    def often(ctx: Context) -> str:
        return ctx.require("read").subject

    @shop.app.cron("* * * * * *", name="poor")
    def poor(principal: Principal) -> str:
        assert principal.is_service and not principal.roles
        return principal.subject

    shop.serve()

    def completed(kind: str) -> Any:
        return shop.store.jobs.list(JobFilter(kind=kind, state=State.COMPLETED)).jobs

    shop.until(lambda: completed("often") and completed("poor"))
    assert (completed("often")[0].result, completed("poor")[0].result) == ("nightly", "cron:poor")
    with pytest.raises(ConfigError, match="schedules do not run for a person"):
        shop.app.cron("@daily", name="mine", principal=USER)(lambda: None)
