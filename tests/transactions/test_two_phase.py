"""Jobs in transactions that are committed in two phases: PostgreSQL prepares none that tells somebody, and a worker that waits is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from tests.engine.shop import Shop
from windlass.app.kinds import JobKind
from windlass.model import Key, State
from windlass.store.migrate import migrate

Kind = JobKind[[], None]


@pytest.fixture
def shop(own_postgres: Callable[..., object]) -> Iterator[Shop]:
    server = own_postgres(durable=False, settings={"max_prepared_transactions": "10"})
    url = server.dsn()  # type: ignore[attr-defined]
    migrate(url)
    made = Shop(url)
    yield made
    made.close()


def raw(kind: Kind, shop: Shop) -> str:
    with psycopg.connect(shop.app.url, autocommit=True) as session:
        session.execute("BEGIN")
        job = kind.options(notify=False, expires=3600).enqueue_in(session).id
        session.execute("PREPARE TRANSACTION 'raw'")
        session.execute("COMMIT PREPARED 'raw'")
    return job


def raw_many(kind: Kind, shop: Shop) -> str:
    with psycopg.connect(shop.app.url, autocommit=True) as session:
        session.execute("BEGIN")
        job = kind.options(notify=False).enqueue_many_in(session, [{}])[0].id
        session.execute("PREPARE TRANSACTION 'many'")
        session.execute("COMMIT PREPARED 'many'")
    return job


def driver(kind: Kind, shop: Shop) -> str:
    with psycopg.connect(shop.app.url) as session:
        session.tpc_begin("driver")
        job = kind.options(key=Key("order-7")).enqueue_in(session).id
        session.tpc_prepare()
        session.tpc_commit()
    return job


def async_driver(kind: Kind, shop: Shop) -> str:
    async def main() -> str:
        async with await psycopg.AsyncConnection.connect(shop.app.url) as session:
            await session.tpc_begin("async")
            job = (await kind.enqueue_in_async(session)).id
            await session.tpc_prepare()
            await session.tpc_commit()
        return job

    return asyncio.run(main())


def session(kind: Kind, shop: Shop) -> str:
    engine = create_engine(shop.app.url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine, twophase=True) as opened:
        job = kind.enqueue_in(opened).id
        opened.commit()
    engine.dispose()
    return job


@pytest.mark.parametrize("way", [raw, raw_many, driver, async_driver, session], ids=lambda way: way.__name__)
def test_a_prepared_transaction_may_hold_jobs_while_a_worker_waits(
    shop: Shop, way: Callable[[Kind, Shop], str]
) -> None:
    @shop.app.job
    def work() -> None: ...

    shop.serve()
    waits = "SELECT 1 FROM windlass.wake WHERE phase = '@later' AND waiting_until > clock_timestamp()"
    shop.until(lambda: shop.run(waits))
    job = way(work, shop)
    shop.until(lambda: shop.job(job).state is State.COMPLETED, timeout=60)


def test_others_are_told_with_their_commit(shop: Shop) -> None:
    """The option, or a library that says so, is what keeps it quiet; nothing else does."""

    @shop.app.job
    def work() -> None: ...

    shop.serve()
    waits = "SELECT 1 FROM windlass.wake WHERE phase = '@later' AND waiting_until > clock_timestamp()"
    shop.until(lambda: shop.run(waits))
    with psycopg.connect(shop.app.url, autocommit=True) as opened:
        opened.execute("BEGIN")
        work.enqueue_in(opened)
        with pytest.raises(psycopg.Error, match="NOTIFY"):
            opened.execute("PREPARE TRANSACTION 'loud'")
