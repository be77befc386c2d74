"""Whichever way a handler enqueues, its job is checked and made alike: kind, arguments, first phase, attempts, limits, who asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.shop import Shop
from windlass import Context
from windlass.errors import ConfigError, NoPrincipalError, PayloadError, WindlassError
from windlass.model import Json, NewJob, State
from windlass.model.principal import Principal
from windlass.retry import fixed

pytestmark = pytest.mark.one_database

Door = Callable[[Shop, Any, str, dict[str, Any]], Any]
USER = Principal(subject="u-7", tenant="t", roles=frozenset({"clerk"}))


def by_kind(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    return shop.kinds[kind].enqueue(**args)  # type: ignore[attr-defined]


def by_kind_many(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    return shop.kinds[kind].enqueue_many([args])[0]  # type: ignore[attr-defined]


def by_app(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    return shop.app.enqueue(kind, **args)


def by_context(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    return ctx.enqueue(NewJob(kind=kind, args=args))


def by_context_json(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    import json

    return ctx.enqueue(NewJob(kind=kind, args=Json(json.dumps(args))))


def by_transaction(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    with ctx.transaction(ends=False) as tx:
        return tx.enqueue(NewJob(kind=kind, args=args))


def by_kind_in_transaction(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    with ctx.transaction(ends=False) as tx:
        return shop.kinds[kind].enqueue_in(tx, **args)  # type: ignore[attr-defined]


def by_chunk(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
    made = []
    for chunk in ctx.chunks(total=1, size=1):
        with chunk as tx:
            made.append(tx.enqueue(NewJob(kind=kind, args=args)))
    return made[0]


DOORS: list[Door] = [
    by_kind,
    by_kind_many,
    by_app,
    by_context,
    by_context_json,
    by_transaction,
    by_kind_in_transaction,
    by_chunk,
]


@pytest.fixture
def through(shop: Shop) -> Callable[..., list[Any]]:
    """What a handler gets that enqueues a kind through a door: the job, or the error."""

    @shop.app.job(limit=1, retry=fixed(7, wait=1))
    def limited(n: int) -> None: ...

    line = shop.app.pipeline("line")

    @line.phase("cut", retry=fixed(5, wait=1))
    def cut(n: int) -> int:
        return n

    @line.phase("pack")
    def pack(n: int) -> None: ...

    @shop.app.job
    def personal(n: int, who: Principal) -> None: ...

    shop.kinds = {"limited": limited, "line": line, "personal": personal}  # type: ignore[attr-defined]

    def go(door: Door, kind: str, args: dict[str, Any], principal: Principal | None = None) -> list[Any]:
        seen: list[Any] = []

        @shop.app.job(name="parent")
        def parent(ctx: Context) -> None:
            try:
                seen.append(door(shop, ctx, kind, args))
            except (WindlassError, KeyError) as error:
                seen.append(error)

        job = parent.options(correlation_id="req-7", principal=principal).enqueue()
        engine = shop.serve(phases=["parent"])
        shop.until(lambda: shop.job(job).state is State.COMPLETED)
        engine.stop()
        shop.store.dependencies.link()
        return seen

    return go


def limits_of(shop: Shop, job: str) -> list[Any]:
    table = "windlass_job_limit" if shop.store.db.dialect == "sqlite" else "windlass.job_limit"
    return shop.run(f"SELECT phase FROM {table} WHERE job = '{job}'")


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_job_is_made_as_its_kind_says(shop: Shop, through: Callable[..., list[Any]], door: Door) -> None:
    (made,) = through(door, "limited", {"n": "3"}, USER)
    job = shop.job(made)
    assert (job.args, job.max_attempts, job.phase) == ({"n": 3}, 7, "limited")
    assert job.correlation_id == "req-7" and limits_of(shop, made.id)
    found = shop.store.principals.get(made.id)
    assert found is not None and found.principal.subject == "u-7"


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_pipeline_begins_in_its_first_phase(
    shop: Shop, through: Callable[..., list[Any]], door: Door
) -> None:
    (made,) = through(door, "line", {"n": 3})
    job = shop.job(made)
    assert (job.phase, job.max_attempts, job.correlation_id) == ("line:cut", 5, "req-7")


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_what_its_kind_refuses_is_refused(shop: Shop, through: Callable[..., list[Any]], door: Door) -> None:
    (refused,) = through(door, "limited", {"m": 3})
    assert isinstance(refused, PayloadError)


@pytest.mark.parametrize(
    "door", [by_app, by_context, by_transaction, by_chunk], ids=lambda door: door.__name__
)
def test_an_unknown_kind_is_refused_with_the_nearest(
    shop: Shop, through: Callable[..., list[Any]], door: Door
) -> None:
    (refused,) = through(door, "limitet", {"n": 3})
    assert isinstance(refused, ConfigError) and "limited" in str(refused)


@pytest.mark.parametrize("door", [by_kind, by_context, by_transaction], ids=lambda door: door.__name__)
def test_a_kind_that_needs_a_principal_is_refused_without(
    shop: Shop, through: Callable[..., list[Any]], door: Door
) -> None:
    (refused,) = through(door, "personal", {"n": 3})
    assert isinstance(refused, NoPrincipalError)


def test_what_a_request_says_itself_stands(shop: Shop, through: Callable[..., list[Any]]) -> None:
    def own(shop: Shop, ctx: Any, kind: str, args: dict[str, Any]) -> Any:
        with pytest.raises(ConfigError, match="first phase"):
            ctx.enqueue(NewJob(kind="line", phase="line:pack", args=args))
        return ctx.enqueue(NewJob(kind=kind, args=args, max_attempts=3, correlation_id="own"))

    (made,) = through(own, "limited", {"n": 1})
    assert (shop.job(made).max_attempts, shop.job(made).correlation_id) == (3, "own")
