"""What is kept of who asked: erased some time after the end, tokens only where asked for and only for their handler, in processes too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.asking import OTHER, USER, asked, code
from tests.engine.principal_jobs import CANARY, KEY
from tests.engine.principal_jobs import app as process_app
from tests.engine.shop import QUICK, Shop
from windlass import JobOptions
from windlass.app.app import App
from windlass.config import load
from windlass.errors import ConfigError, PrincipalErasedError, SealError
from windlass.handlers.context import Context
from windlass.model import JobFilter, NewJob
from windlass.model.principal import Principal
from windlass.principals.sealed_tokens import TokenKeys

pytestmark = pytest.mark.one_database

# -------------------------------------------------------------------------------------------------------- after the end


def test_a_retry_by_hand_runs_for_whoever_asked_first(shop: Shop) -> None:
    runs: list[str] = []

    @shop.app.job
    def work(ctx: Context) -> None:
        runs.append(ctx.require().subject)

    job = work.options(principal=USER).enqueue()
    engine = shop.serve()
    shop.drained(engine)
    with shop.app.as_principal(OTHER):
        shop.store.jobs.retry(job.id)
    shop.until(lambda: len(runs) == 2)
    assert runs == ["u-7", "u-7"]


def test_principals_are_erased_by_upkeep(shop: Shop) -> None:
    @shop.app.job
    def work() -> None: ...

    job = work.options(principal=USER).enqueue()
    engine = shop.serve(erase_principal_after=0.0)
    shop.until(lambda: asked(shop, job) is None and shop.job(job).state.is_final)
    with pytest.raises(PrincipalErasedError):
        shop.store.jobs.retry(job.id)
    kept = work.options(principal=USER, delay=3600).enqueue()
    shop.until(lambda: engine.is_idle)
    assert asked(shop, kept) == USER


def test_erasure_is_a_setting(app: App) -> None:
    assert load({"worker.erase_principal_after": 60}, environ={}).settings.erase_principal_after == 60.0
    assert (
        load({}, environ={"WINDLASS_WORKER_ERASE_PRINCIPAL_AFTER": "none"}).settings.erase_principal_after
        is None
    )
    assert load({}, environ={}).settings.erase_principal_after is None
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
    seen: dict[str, str] = {}

    @keyed.app.job
    def work(ctx: Context) -> None:
        try:
            seen[ctx.job_id] = ctx.token()
        except SealError as error:
            seen[ctx.job_id] = error.code

    with keyed.app.as_principal(USER, token=CANARY):
        kept, unasked = work.options(keep_token=True).enqueue(), work.enqueue()
        sticky = work.options(keep_token=True).enqueue()
    given = work.options(principal=USER, token=f"{CANARY}2", keep_token=True).enqueue()
    bare = work.options(principal=USER).enqueue()
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

    cases: list[tuple[JobOptions, str]] = [
        ({"keep_token": True}, "a principal and its token"),
        ({"keep_token": True, "principal": USER}, "a principal and its token"),
        ({"keep_token": True, "token": CANARY}, "a principal and its token"),
        ({"principal": USER, "token": CANARY}, "with keep_token=True only"),
        ({"principal": USER, "token": CANARY * 1000, "keep_token": True}, "16,384 bytes"),
    ]
    for options, wanted in cases:
        with pytest.raises(ConfigError, match=wanted) as caught:
            work.options(**options).enqueue()
        assert CANARY not in str(caught.value)
    without = App(keyed.app.url, store=keyed.store)

    @without.job(name="work")
    def same() -> None: ...

    with pytest.raises(ConfigError, match=r"set principal\.keys"):
        same.options(principal=USER, token=CANARY, keep_token=True).enqueue()
    assert keyed.store.phases.counts() == {}


def test_a_sealed_token_of_another_job_or_a_lost_key_fails_closed(keyed: Shop) -> None:
    """Swapped ciphertexts, and a key that is gone."""

    @keyed.app.job(retry=_once())
    def work(ctx: Context) -> int:
        return len(ctx.token())

    with keyed.app.as_principal(USER, token=CANARY):
        swapped = [work.options(keep_token=True, delay=3600).enqueue() for _ in range(2)]
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
        keyed.store.upkeep.make_due(job.id)
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
        before = work.options(keep_token=True).enqueue()
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
        after = same.options(keep_token=True).enqueue()
    keys = [keyed.store.principals.get(job.id) for job in (before, after)]
    assert [found.sealed.key_id for found in keys if found and found.sealed] == ["k", "new"]
    keyed.drained(keyed.serve())
    assert [keyed.job(job).result for job in (before, after)] == [len(CANARY)] * 2


def _once() -> Any:
    from windlass.model.retry import fixed

    return fixed(1)


# ---------------------------------------------------------------------------------------------------------- processes


@pytest.fixture
def processes(shop: Shop) -> Shop:
    """The app whose handlers run in processes, on the shop's database."""
    shop.app = App.of(
        process_app.parts.bound(
            config=load({"database.url": shop.app.url, "principal.keys": f"k:{KEY}"}), store=shop.store
        )
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
    jobs = {kind: processes.app.kind(kind).options(principal=who).enqueue() for kind, who in people.items()}
    processes.drained(processes.serve(processors=dict.fromkeys(people, 1)))
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
        job = processes.app.kind("token_in_process").options(keep_token=True, max_attempts=1).enqueue(how=how)
    processes.drained(processes.serve(crash_cap=1))
    ended = processes.job(job)
    told = f"{ended} {processes.store.jobs.attempts(job.id)} {processes.store.jobs.timeline(job.id)}"
    assert CANARY not in told
    wanted = {"raise": "exception", "return": "bad_result", "die": "crash_cap"}
    assert (code(ended) if ended.error else ended.result) == wanted.get(how, f"{len(CANARY)} characters")
    if how in ("raise", "die"):
        assert "***" in told
