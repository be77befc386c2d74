"""Who asked, as handlers see it: typed, required, checked again, passed on, and never with more rights."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.principal_jobs import CANARY, KEY
from tests.engine.principal_jobs import app as process_app
from tests.engine.shop import QUICK, Shop
from windlass.app import App
from windlass.config import load
from windlass.errors import ConfigError, NoPrincipalError, NotAllowedError, PrincipalErasedError, SealError
from windlass.model import Job, JobFilter, NewJob, NewSchedule, State
from windlass.principal import ACT_FOR_OTHERS, Principal
from windlass.sealing import TokenKeys
from windlass.signals import Retry
from windlass.testing import Sandbox
from windlass.work.context import Context

USER = Principal("u-7", tenant="acme", roles={"read", "write"}, attributes={"county": ["Harju", "Tartu"]})
SMALL = USER.narrowed(roles=["read"])
OTHER = Principal("u-8", tenant="acme", roles={"read"})


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def box(app: App) -> Iterator[Sandbox]:
    with Sandbox(app) as made:
        yield made


def code(job: Job) -> str:
    assert job.error is not None, job.state
    return str(job.error["code"])


def asked(shop: Any, job: Any) -> Principal | None:
    found = shop.store.principals.get(getattr(job, "id", job))
    return found.principal if found else None


# ------------------------------------------------------------------------------------------------------- what is seen


def test_handlers_of_every_colour_see_who_asked(shop: Shop) -> None:
    """I1."""

    @shop.app.job
    async def by_context(ctx: Context) -> list[Any]:
        principal = await ctx.principal_async()
        assert principal is not None and principal is ctx.principal
        return [principal.subject, principal.tenant, *principal.allowed_values("county")]

    @shop.app.job
    def by_type(n: int, principal: Principal) -> str:
        return f"{n} {principal.subject}"

    @shop.app.job
    async def by_type_async(principal: Principal, ctx: Context) -> bool:
        return principal == ctx.principal == USER

    @shop.app.job
    def if_any(principal: Principal | None) -> str:
        return "nobody" if principal is None else principal.subject

    @shop.app.job
    def unasked(ctx: Context) -> bool:
        return ctx.principal is None

    jobs = [
        by_context.enqueue(principal=USER),
        by_type.enqueue(7, principal=USER),
        by_type_async.enqueue(principal=USER),
        if_any.enqueue(principal=USER),
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
    async def strict(principal: Principal) -> None:
        principal.require("admin")

    good, bad, free = guarded.enqueue(principal=USER), strict.enqueue(principal=USER), guarded.enqueue()
    shop.drained(shop.serve())
    assert shop.job(good).result == "u-7"
    assert (code(shop.job(bad)), shop.job(bad).attempt) == ("not_allowed", 1)
    assert (code(shop.job(free)), shop.job(free).attempt) == ("no_principal", 1)
    assert "lacks the role admin" in str(shop.job(bad).error)


def test_a_handler_that_needs_a_principal_is_not_enqueued_without_one(box: Sandbox) -> None:
    @box.app.job
    def needs(principal: Principal) -> None: ...

    @box.app.job
    def free() -> None: ...

    with pytest.raises(NoPrincipalError, match="a job of kind needs has no principal"):
        needs.enqueue()
    parent = free.enqueue(principal=USER)
    child = needs.enqueue(after=[parent])  # it may have one from its parent
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
            *work.enqueue_many([{}, {"n": 1, "principal": OTHER}]),
            pipe.enqueue(),
            shop.app.enqueue("work"),
        ]
        explicit = work.with_options(principal=OTHER).enqueue()
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
    """S14."""
    tried: dict[str, str] = {}

    @shop.app.job
    def leaf() -> None: ...

    @shop.app.job
    def parent(ctx: Context) -> None:
        principal = ctx.require()
        ctx.enqueue(NewJob(kind="leaf", correlation_id="context"))
        leaf.enqueue(correlation_id="kind")
        ctx.enqueue(
            NewJob(kind="leaf", correlation_id="narrowed", principal=principal.narrowed(roles=["read"]))
        )
        with shop.app.as_principal(principal.narrowed(roles=[])):
            leaf.enqueue(correlation_id="block")
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
                lambda wanted=wanted: leaf.enqueue(principal=wanted),
                lambda wanted=wanted: shop.app.as_principal(wanted).__enter__(),
            ]
            for attempt in attempts:
                try:
                    attempt()
                except NotAllowedError as error:
                    tried[name] = tried.get(name, "") + error.code[:3]
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="leaf", correlation_id="transaction"))
            leaf.enqueue_in(tx, correlation_id="kind in transaction")
            try:
                tx.enqueue(NewJob(kind="leaf", principal=OTHER))
            except NotAllowedError:
                tried["in transaction"] = "not"

    @shop.app.job
    async def parent_async(ctx: Context) -> None:
        await ctx.enqueue_async(NewJob(kind="leaf", correlation_id="async context"))
        await leaf.enqueue_async(correlation_id="async kind")
        await asyncio.to_thread(leaf.enqueue, correlation_id="async thread")
        async with ctx.transaction() as tx:
            await leaf.enqueue_in_async(tx, correlation_id="async transaction")

    for kind in (parent, parent_async):
        kind.enqueue(principal=USER)
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
        greedy.enqueue(principal=Principal("root"))

    job = greedy.enqueue(principal=USER)
    box.drain(advance=True)
    ended = box.store.jobs.get(job.id)
    assert (code(ended), ended.attempt) == ("not_allowed", 1) and len(box.jobs("greedy")) == 1


def test_only_a_service_that_may_act_for_others_enqueues_for_anybody(box: Sandbox) -> None:
    @box.app.job
    def leaf() -> None: ...

    @box.app.job
    def dispatcher() -> None:
        leaf.enqueue(principal=USER)
        with box.app.as_principal(OTHER):
            leaf.enqueue()

    for principal, wanted in (
        (Principal.service("nightly", roles={ACT_FOR_OTHERS}), None),
        (Principal.service("nightly", roles={"read"}), "not_allowed"),
        (Principal("u-9", roles={ACT_FOR_OTHERS}), "not_allowed"),
    ):
        job = dispatcher.enqueue(principal=principal)
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
            leaf.enqueue(principal=principal)
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
    with pytest.raises(ConfigError, match="nobody in person runs schedules"):
        shop.app.cron("@daily", name="mine", principal=USER)(lambda: None)


# ------------------------------------------------------------------------------------------------ expired and revoked

LATE = timedelta(hours=2)


class Company:
    """An application whose people lose their rights; each kind says what it does about that."""

    def __init__(self, box: Sandbox, policy: str) -> None:
        self.box = box
        self.now: str | None = None
        self.ran: list[str] = []
        self.asked = 0
        app = box.app

        @app.recheck_principal
        def check(principal: Principal) -> Principal:
            self.asked += 1
            if self.now == "revoked":
                raise PermissionError("no longer employed")
            return principal.narrowed(roles=["read"]) if self.now == "role lost" else principal

        @app.job(principal_expiry=policy, name="plain")
        def plain(ctx: Context) -> str:
            self.ran.append("plain")
            return ctx.require("write").subject

        @app.job(principal_expiry=policy, name="tried")
        def tried(ctx: Context) -> str:
            self.ran.append("tried")
            if ctx.attempt == 1:
                raise Retry(after=60)
            return ctx.require("write").subject

        pipe = app.pipeline("pipe")

        @pipe.phase("one", principal_expiry=policy)
        def one() -> None:
            self.happen()

        @pipe.phase("two", principal_expiry=policy)
        def two(ctx: Context) -> str:
            self.ran.append("two")
            return ctx.require("write").subject

        @app.job(name="parent")
        def parent(ctx: Context) -> None:
            ctx.enqueue(NewJob(kind="plain", correlation_id="child"))
            self.happen()

        self.kinds: dict[str, Any] = {"plain": plain, "tried": tried, "pipe": pipe, "parent": parent}
        self.event = ""

    def happen(self) -> None:
        """What the person loses, at this moment."""
        if self.event == "expired":
            self.box.advance(LATE)
        else:
            self.now = self.event

    def outcome(self, event: str, moment: str) -> str:
        """How a job ends when the event happens at the moment given."""
        self.event = event
        until = self.box.clock.now() + timedelta(hours=1)
        person = Principal("u-7", tenant="acme", roles={"read", "write"}, expires_at=until)
        match moment:
            case "queued":
                job = self.kinds["plain"].enqueue(principal=person)
                self.happen()
            case "retry":
                job = self.kinds["tried"].enqueue(principal=person)
                self.box.drain()
                self.happen()
            case "phase 2":
                job = self.kinds["pipe"].enqueue(principal=person)
            case "child":
                self.kinds["parent"].enqueue(principal=person)
                self.box.drain()
                job = next(found for found in self.box.jobs("plain") if found.correlation_id == "child")
            case "cron":
                service = Principal.service("nightly", roles={"read", "write"})
                self.box.store.schedules.put(
                    NewSchedule(name="nightly", kind="plain", expression="@daily", principal=service)
                )
                self.box.advance(timedelta(days=1))
                (fired,) = self.box.store.schedules.fire_due()
                job = self.box.store.jobs.get(fired.ticks[0].job_id)
                self.happen()
            case _:
                raise AssertionError(moment)
        self.box.drain(advance=True)
        ended = self.box.store.jobs.get(job.id)
        assert ended.attempt <= (2 if moment == "retry" else 1), "a denial is not tried again"
        return "ran" if ended.state is State.COMPLETED else code(ended)


MATRIX = {
    ("run", "expired"): "ran",
    ("run", "revoked"): "ran",
    ("run", "role lost"): "ran",
    ("fail", "expired"): "principal_expired",
    ("fail", "revoked"): "ran",
    ("fail", "role lost"): "ran",
    ("recheck", "expired"): "principal_expired",
    ("recheck", "revoked"): "principal_denied",
    ("recheck", "role lost"): "not_allowed",
}


@pytest.mark.parametrize("moment", ["queued", "retry", "phase 2", "child", "cron"])
@pytest.mark.parametrize(("policy", "event"), MATRIX)
def test_what_becomes_of_a_job_whose_principal_lost_its_rights(
    box: Sandbox, policy: str, event: str, moment: str
) -> None:
    """S13, I3: the captured claims are used, or the job ends, or the application is asked; a denial is final."""
    company = Company(box, policy)
    wanted = MATRIX[policy, event]
    if (moment, event) == ("cron", "expired"):
        wanted = "ran"  # a service does not expire
    assert company.outcome(event, moment) == wanted
    if wanted.startswith("principal_"):
        assert company.ran == (["tried"] if moment == "retry" else []), "nothing ran for it"
    assert company.asked == 0 or policy == "recheck"


def test_a_check_is_made_at_every_attempt_and_phase_and_may_renew(box: Sandbox) -> None:
    company = Company(box, "recheck")
    seen: list[Principal] = []

    @box.app.recheck_principal
    def renewing(principal: Principal) -> Principal:
        seen.append(principal)
        return Principal("u-7", tenant="acme", roles={"write", "admin"}, expires_at=box.clock.now() + LATE)

    box.app.authority.check_with(renewing)
    for moment in ("queued", "retry", "phase 2", "child"):
        assert company.outcome("expired", moment) == "ran"
    assert len(seen) == 1 + 2 + 2 + 1 and all(one.has("read") for one in seen), "asked with what was captured"


@pytest.mark.parametrize("is_async_hook", [False, True])
@pytest.mark.parametrize("is_async_handler", [False, True])
def test_a_check_gets_the_context_and_gives_back_at_most_what_was_captured(
    box: Sandbox, is_async_hook: bool, is_async_handler: bool
) -> None:
    asked_about: list[str] = []

    def answer(principal: Principal, ctx: Context) -> Principal:
        asked_about.append(f"{ctx.kind} {principal.subject}")
        return Principal(
            "u-7", tenant="acme", roles={"write", "admin"}, attributes={"county": ["Tartu", "Võru"]}
        )

    async def answer_async(principal: Principal, ctx: Context) -> Principal:
        await asyncio.sleep(0)
        return answer(principal, ctx)

    box.app.recheck_principal(answer_async if is_async_hook else answer)

    def show(principal: Principal) -> list[Any]:
        return [sorted(principal.roles), principal.allowed_values("county")]

    if is_async_handler:

        @box.app.job(name="work", principal_expiry="recheck")
        async def work(principal: Principal) -> list[Any]:
            return show(principal)
    else:

        @box.app.job(name="work", principal_expiry="recheck")
        def work(principal: Principal) -> list[Any]:
            return show(principal)

    job = work.enqueue(principal=USER)
    box.drain()
    assert box.store.jobs.get(job.id).result == [["write"], ["Tartu"]] and asked_about == ["work u-7"]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (None, "answered NoneType and no Principal"),
        (True, "answered bool and no Principal"),
        (OTHER, "another principal"),
        (Principal("u-7"), "another principal"),
        (
            Principal("u-7", tenant="acme", expires_at=datetime(2000, 1, 1, tzinfo=UTC)),
            "expired at 2000-01-01",
        ),
    ],
)
def test_a_check_that_says_nothing_sensible_is_a_no(box: Sandbox, answer: Any, wanted: str) -> None:
    box.app.recheck_principal(lambda principal: answer)

    @box.app.job(principal_expiry="recheck")
    def work() -> None: ...

    job = work.enqueue(principal=USER)
    box.drain(advance=True)
    ended = box.store.jobs.get(job.id)
    assert ended.attempt == 1 and wanted in str(ended.error) and code(ended).startswith("principal_")


def test_a_check_that_cannot_be_made_may_ask_for_another_attempt(box: Sandbox) -> None:
    answers: list[Any] = [Retry("the directory is away", after=5), USER]

    @box.app.recheck_principal
    def check(principal: Principal) -> Principal:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return principal

    @box.app.job(principal_expiry="recheck")
    def work() -> str:
        return "ran"

    job = work.enqueue(principal=USER)
    box.drain(advance=True)
    ended = box.store.jobs.get(job.id)
    assert (ended.result, ended.attempt) == ("ran", 2)


def test_a_job_that_nobody_asked_for_is_not_checked(box: Sandbox) -> None:
    box.app.recheck_principal(lambda principal: None)

    @box.app.job(principal_expiry="recheck")
    def work(ctx: Context) -> str:
        assert ctx.recheck() is None
        return "ran"

    job = work.enqueue()
    box.drain()
    assert box.store.jobs.get(job.id).result == "ran"


def test_a_worker_without_the_check_that_its_kinds_need_does_not_start(shop: Shop) -> None:
    @shop.app.job(principal_expiry="recheck")
    def work() -> None: ...

    with pytest.raises(ConfigError, match=r"work, principal_expiry: no check; app\.recheck_principal"):
        shop.app.worker()
    with pytest.raises(ConfigError, match="run, fail or recheck"):
        shop.app.job(name="ask", principal_expiry="ask")(lambda: None)
    with pytest.raises(ConfigError, match="a function"):
        shop.app.recheck_principal("yes")  # type: ignore[arg-type]
    shop.app.recheck_principal(lambda principal: principal)
    shop.app.worker()


def test_long_work_may_have_itself_checked_in_the_middle(box: Sandbox) -> None:
    """Also in a chunk: a denial is none of the errors a chunk is tried again for."""
    passed: list[int] = []

    @box.app.recheck_principal
    def check(principal: Principal) -> Principal:
        if len(passed) == 2:
            raise PermissionError("gone")
        return principal

    @box.app.job
    def plain(ctx: Context) -> None:
        for chunk in ctx.chunks(total=5, size=1):
            with chunk:
                ctx.recheck()
                passed.append(chunk.number)

    job = plain.enqueue(principal=USER)
    box.drain(advance=True)
    ended = box.store.jobs.get(job.id)
    assert code(ended) == "principal_denied" and len(passed) == 2 and ended.attempt == 1


def test_rechecks_on_the_engine_block_no_loop(shop: Shop) -> None:
    seen: list[str] = []

    @shop.app.recheck_principal
    def check(principal: Principal) -> Principal:
        seen.append(threading.current_thread().name)
        return principal

    @shop.app.job(principal_expiry="recheck")
    async def work(ctx: Context) -> str:
        assert await ctx.recheck_async() == USER
        return threading.current_thread().name

    job = work.enqueue(principal=USER)
    shop.drained(shop.serve())
    assert shop.job(job).result == "windlass-loop" and len(seen) == 2 and "windlass-loop" not in seen


def test_requests_run_under_the_same_rules(tmp_path: Any, app: App) -> None:
    from windlass.builder import build

    @app.job(principal_expiry="fail")
    def work(ctx: Context) -> str:
        return ctx.require("read").subject

    with build({"database.url": f"sqlite:///{tmp_path / 'x.db'}"}, app=app) as parts:
        past = datetime.now(UTC) - timedelta(seconds=1)
        good, bad = (
            parts.enqueue("work", principal=Principal("u", roles={"read"}, expires_at=until))
            for until in (None, past)
        )
        assert parts.process_request(good.id).job.result == "u"
        ended = parts.process_request(bad.id).job
        assert (code(ended), ended.attempt) == ("principal_expired", 1)


# -------------------------------------------------------------------------------------------------------- after the end


def test_a_retry_by_hand_runs_for_whoever_asked_first(shop: Shop) -> None:
    runs: list[str] = []

    @shop.app.job
    def work(ctx: Context) -> None:
        runs.append(ctx.require().subject)

    job = work.enqueue(principal=USER)
    engine = shop.serve()
    shop.drained(engine)
    with shop.app.as_principal(OTHER):
        shop.store.jobs.retry(job.id)
    shop.until(lambda: len(runs) == 2)
    assert runs == ["u-7", "u-7"]


def test_principals_are_erased_by_upkeep(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    job = work.enqueue(principal=USER)
    engine = shop.serve(erase_principal_after=0.0)
    shop.until(lambda: asked(shop, job) is None and shop.job(job).state.is_final)
    with pytest.raises(PrincipalErasedError):
        shop.store.jobs.retry(job.id)
    kept = work.enqueue(principal=USER, delay=3600)
    shop.until(lambda: engine.is_idle)
    assert asked(shop, kept) == USER


def test_erasure_can_be_switched_off_and_is_a_setting(app: App) -> None:
    assert load({"worker.erase_principal_after": 60}, environ={}).settings.erase_principal_after == 60.0
    assert (
        load({}, environ={"WINDLASS_WORKER_ERASE_PRINCIPAL_AFTER": "none"}).settings.erase_principal_after
        is None
    )
    assert load({}, environ={}).settings.erase_principal_after == 86_400.0
    with pytest.raises(ConfigError, match="erase_principal_after"):
        load({"worker.erase_principal_after": -1}, environ={})


# ------------------------------------------------------------------------------------------------------------- tokens


@pytest.fixture
def keyed(shop: Shop) -> Iterator[Shop]:
    """A shop that may keep tokens."""
    shop.app = App(shop.app.url, config={"principal.keys": f"k:{KEY}"}, settings=QUICK, store=shop.store)
    yield shop
    shop.app.close()


def test_a_token_is_kept_only_where_asked_for_and_opens_only_in_its_handler(keyed: Shop) -> None:
    """I2."""
    seen: dict[str, str] = {}

    @keyed.app.job
    def work(ctx: Context) -> None:
        try:
            seen[ctx.job_id] = ctx.token()
        except SealError as error:
            seen[ctx.job_id] = error.code

    with keyed.app.as_principal(USER, token=CANARY):
        kept, unasked = work.enqueue(keep_token=True), work.enqueue()
        sticky = work.with_options(keep_token=True).enqueue()
    given = work.enqueue(principal=USER, token=f"{CANARY}2", keep_token=True)
    bare = work.enqueue(principal=USER)
    keyed.drained(keyed.serve())
    assert [seen[job.id] for job in (kept, unasked, sticky, given, bare)] == [
        CANARY,
        "token_not_kept",
        CANARY,
        f"{CANARY}2",
        "token_not_kept",
    ]


def test_keeping_a_token_needs_keys_a_principal_and_the_token(keyed: Shop, shop: Shop) -> None:
    @keyed.app.job
    def work() -> None: ...

    for options, wanted in (
        ({"keep_token": True}, "a principal and its token"),
        ({"keep_token": True, "principal": USER}, "a principal and its token"),
        ({"keep_token": True, "token": CANARY}, "a principal and its token"),
        ({"principal": USER, "token": CANARY}, "with keep_token=True only"),
        ({"principal": USER, "token": CANARY * 1000, "keep_token": True}, "16,384 bytes"),
    ):
        with pytest.raises(ConfigError, match=wanted) as caught:
            work.enqueue(**options)
        assert CANARY not in str(caught.value)
    without = App(keyed.app.url, store=keyed.store)

    @without.job(name="work")
    def same() -> None: ...

    with pytest.raises(ConfigError, match=r"set principal\.keys"):
        same.enqueue(principal=USER, token=CANARY, keep_token=True)
    assert keyed.store.phases.counts() == {}


def test_a_sealed_token_of_another_job_or_a_lost_key_fails_closed(keyed: Shop) -> None:
    """S10: swapped ciphertexts, and a key that is gone."""

    @keyed.app.job(retry=_once())
    def work(ctx: Context) -> int:
        return len(ctx.token())

    with keyed.app.as_principal(USER, token=CANARY):
        swapped = [work.enqueue(keep_token=True, delay=3600) for _ in range(2)]
    old = TokenKeys({"old": bytes(32)})
    lost_id = "01890a5d-ac96-774b-bcce-b302099a8057"
    keyed.store.enqueue(
        [
            NewJob(
                kind="work",
                id=lost_id,
                principal=USER,
                sealed=old.seal(CANARY, job_id=lost_id, tenant="acme"),
                max_attempts=1,
            )
        ]
    )
    table = "windlass_principal" if keyed.store.db.dialect == "sqlite" else "windlass.principal"
    rows = [keyed.run(f"SELECT token FROM {table} WHERE job = '{job.id}'") for job in swapped]
    (((first,),), ((second,),)) = rows
    for job, text in zip(swapped, (second, first), strict=True):
        keyed.run(f"UPDATE {table} SET token = '{text}' WHERE job = '{job.id}'")
        keyed.store.upkeep.hurry(job.id)
    keyed.drained(keyed.serve())
    assert [code(keyed.job(job)) for job in (*swapped, lost_id)] == [
        "seal_broken",
        "seal_broken",
        "seal_key_missing",
    ]
    assert "'old', which principal.keys does not have" in str(keyed.job(lost_id).error)


def test_a_rotated_key_still_opens(keyed: Shop) -> None:
    @keyed.app.job
    def work(ctx: Context) -> int:
        return len(ctx.token())

    with keyed.app.as_principal(USER, token=CANARY):
        before = work.enqueue(keep_token=True)
    keyed.app = App(
        keyed.app.url,
        config={"principal.keys": f"new:{TokenKeys.new()},k:{KEY}"},
        settings=QUICK,
        store=keyed.store,
    )

    @keyed.app.job(name="work")
    def same(ctx: Context) -> int:
        return len(ctx.token())

    with keyed.app.as_principal(USER, token=CANARY):
        after = same.enqueue(keep_token=True)
    keys = [keyed.store.principals.get(job.id) for job in (before, after)]
    assert [found.sealed.key_id for found in keys if found and found.sealed] == ["k", "new"]
    keyed.drained(keyed.serve())
    assert [keyed.job(job).result for job in (before, after)] == [len(CANARY)] * 2


def _once() -> Any:
    from windlass.retry import fixed

    return fixed(1)


# ---------------------------------------------------------------------------------------------------------- processes


@pytest.fixture
def processes(shop: Shop) -> Shop:
    """The app whose handlers run in processes, on the shop's database."""
    shop.app = process_app.bound(
        config=load({"database.url": shop.app.url, "principal.keys": f"k:{KEY}"}), store=shop.store
    )
    return shop


def test_handlers_in_processes_have_the_same_rights_and_checks(processes: Shop) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    people = {
        "seen_in_process": USER,
        "fails_in_process": Principal("u-7", expires_at=past),
        "rechecked_in_process": Principal("u-7", roles={"read", "lost"}),
        "revoked_in_process": Principal("u-7", roles={"revoked"}),
        "parent_in_process": USER,
    }
    jobs = {kind: processes.app.enqueue(kind, principal=who) for kind, who in people.items()}
    processes.drained(processes.serve(processors=dict.fromkeys(people, 1)), timeout=60)
    ended = {kind: processes.job(job) for kind, job in jobs.items()}
    assert ended["seen_in_process"].result == ["u-7", "read", "write", "Harju", "Tartu"]
    assert code(ended["fails_in_process"]) == "principal_expired"
    assert code(ended["rechecked_in_process"]) == "not_allowed"
    assert code(ended["revoked_in_process"]) == "principal_denied"
    assert all(job.attempt == 1 for job in ended.values())
    (child,) = processes.store.jobs.list(JobFilter(kind="child_in_process")).jobs
    assert child.result == "u-7"


@pytest.mark.parametrize("how", ["raise", "return", "die", "use"])
def test_a_token_in_a_process_is_hidden_from_all_that_is_recorded(processes: Shop, how: str) -> None:
    with processes.app.as_principal(USER, token=CANARY):
        job = processes.app.enqueue("token_in_process", how=how, keep_token=True, max_attempts=1)
    processes.drained(processes.serve(crash_cap=1), timeout=60)
    ended = processes.job(job)
    told = f"{ended} {processes.store.jobs.attempts(job.id)} {processes.store.jobs.timeline(job.id)}"
    assert CANARY not in told
    wanted = {"raise": "exception", "return": "bad_result", "die": "crash_cap"}
    assert (code(ended) if ended.error else ended.result) == wanted.get(how, f"{len(CANARY)} characters")
    if how in ("raise", "die"):
        assert "***" in told
