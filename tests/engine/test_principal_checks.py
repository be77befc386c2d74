"""Who asked, looked at again: what becomes of jobs whose principal expired or lost its rights."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.asking import OTHER, USER, code
from tests.engine.shop import Shop
from windlass import injected
from windlass.app.app import App
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.model import NewJob, NewSchedule, State
from windlass.model.principal import Principal
from windlass.model.signals import Retry
from windlass.testing import Sandbox

pytestmark = pytest.mark.one_database

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
                job = self.kinds["plain"].options(principal=person).enqueue()
                self.happen()
            case "retry":
                job = self.kinds["tried"].options(principal=person).enqueue()
                self.box.drain()
                self.happen()
            case "phase 2":
                job = self.kinds["pipe"].options(principal=person).enqueue()
            case "child":
                self.kinds["parent"].options(principal=person).enqueue()
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
    """The captured claims are used, or the job ends, or the application is asked; a denial is final."""
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

    box.app.parts.authority.check_with(renewing)
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
        async def work(principal: Principal = injected()) -> list[Any]:
            return show(principal)
    else:

        @box.app.job(name="work", principal_expiry="recheck")
        def work(principal: Principal = injected()) -> list[Any]:
            return show(principal)

    job = work.options(principal=USER).enqueue()
    box.drain()
    assert box.store.jobs.get(job.id).result == [["write"], ["Tartu"]] and asked_about == ["work u-7"]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (None, "returned NoneType and no Principal"),
        (True, "returned bool and no Principal"),
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

    job = work.options(principal=USER).enqueue()
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

    job = work.options(principal=USER).enqueue()
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

    job = plain.options(principal=USER).enqueue()
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

    job = work.options(principal=USER).enqueue()
    shop.drained(shop.serve())
    assert shop.job(job).result == "windlass-loop" and len(seen) == 2 and "windlass-loop" not in seen


def test_requests_run_under_the_same_rules(tmp_path: Any, app: App) -> None:
    from windlass.app.build import build

    @app.job(principal_expiry="fail")
    def work(ctx: Context) -> str:
        return ctx.require("read").subject

    with build({"database.url": f"sqlite:///{tmp_path / 'x.db'}"}, app=app) as parts:
        past = datetime.now(UTC) - timedelta(seconds=1)
        good, bad = (
            parts.app.kind("work")
            .options(principal=Principal("u", roles={"read"}, expires_at=until))
            .enqueue()
            for until in (None, past)
        )
        assert parts.process_request(good.id).job.result == "u"
        ended = parts.process_request(bad.id).job
        assert (code(ended), ended.attempt) == ("principal_expired", 1)
