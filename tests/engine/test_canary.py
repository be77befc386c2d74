"""A canary is put through everything a handler can do with a secret; then it is looked for everywhere.

It goes in as a raw token that is kept with jobs, as a secret argument and inside forged tokens; handlers log it, raise it, return it and
hand it to every call that stores something. It must not be found in log lines, jobs, timelines, metrics, health or in the database, however
it is spelled.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import logging
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel, SecretStr

from tests.engine.principal_jobs import KEY
from tests.engine.shop import QUICK, Shop
from windlass.app.app import App
from windlass.errors import PayloadError, TokenError
from windlass.handlers.context import Context
from windlass.model import JobFilter, NewJob
from windlass.model.principal import Principal
from windlass.model.retry import fixed
from windlass.model.signals import Cancel, Fail, Retry
from windlass.observe import health, logs
from windlass.observe.metrics import Metrics
from windlass.principals.jwt import Verifier

CANARY = 'cänary-9f8e"7d6c/5b4a+token='
SPELLINGS = {
    CANARY,
    quote(CANARY, safe=""),
    json.dumps(CANARY)[1:-1],
    json.dumps(CANARY, ensure_ascii=False)[1:-1],
    repr(CANARY)[1:-1],
    CANARY.encode().hex(),
    base64.b64encode(CANARY.encode()).decode(),
    base64.urlsafe_b64encode(CANARY.encode()).decode().rstrip("="),
}
USER = Principal("u-7", tenant="acme", roles={"read"})
log = logging.getLogger("shop")


class Login(BaseModel):
    """What a careless handler might be given."""

    name: str
    password: SecretStr


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """All log lines, also those of the lowest level."""
    stream = io.StringIO()
    with logs.configure("debug", "json", stream):
        yield stream


def careless(app: App) -> list[str]:
    """Handlers that do everything with a token that they should not; the names of their kinds."""
    once: dict[str, Any] = {"retry": fixed(1)}
    pipe = app.pipeline("advances")

    @app.job(**once)
    def logs_it(ctx: Context) -> int:
        token = ctx.token()
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            log.log(
                level,
                "with %s",
                token,
                extra={"headers": {"X-Token": token}, "sent": [token], "as_repr": repr(token)},
            )
        log.info("url https://x.example/?q=%s json %s", quote(token, safe=""), json.dumps({"t": token}))
        try:
            raise ValueError(token)
        except ValueError:
            log.exception("it failed with %r", token)
        return len(token)

    @app.job(**once)
    async def raises_it(ctx: Context) -> None:
        token = await ctx.token_async()
        try:
            raise ConnectionError(f"401 for {token}")
        except ConnectionError as error:
            raise RuntimeError({"token": token}) from error

    @app.job(**once)
    def fails_with_it(ctx: Context) -> None:
        raise Fail(f"no_{ctx.token()}", f"refused {ctx.token()}")

    @app.job(retry=fixed(2, wait=0.01))
    def retries_with_it(ctx: Context) -> None:
        raise Retry(f"later, {ctx.token()}", after=0.01)

    @app.job(**once)
    def cancels_with_it(ctx: Context) -> None:
        raise Cancel(f"because of {ctx.token()}")

    @app.job(**once)
    def returns_it(ctx: Context) -> dict[str, list[str]]:
        return {"tokens": [ctx.token()]}

    @app.job(**once)
    def outputs_it(ctx: Context) -> None:
        ctx.put_output("token", {"deep": [ctx.token()]})

    @app.job(**once)
    def checkpoints_it(ctx: Context) -> None:
        ctx.checkpoint({"token": ctx.token()}, done=1)

    @app.job(**once)
    def enqueues_it(ctx: Context) -> None:
        ctx.enqueue(NewJob(kind="logs_it", args={"token": ctx.token()}))

    @app.job(**once)
    def passes_it_on(ctx: Context) -> None:
        takes_text.enqueue(ctx.token())

    @app.job(**once)
    def takes_text(text: str) -> None: ...

    @app.job(**once)
    def commits_it(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.complete(ctx.token())

    @app.job(**once)
    def outputs_it_in_a_transaction(ctx: Context) -> None:
        with ctx.transaction() as tx:
            tx.put_output("token", ctx.token())

    @app.job(**once)
    def names_an_output_by_it(ctx: Context) -> None:
        ctx.put_output(ctx.token(), 1)

    @app.job(**once)
    def keys_a_job_by_it(ctx: Context) -> None:
        takes_text.options(key=f"sync-{ctx.token()}").enqueue("text")

    @app.job(**once)
    def correlates_by_it(ctx: Context) -> None:
        ctx.enqueue(NewJob(kind="logs_it", correlation_id=ctx.token()))

    @app.job(**once)
    def returns_it_in_a_url(ctx: Context) -> str:
        return f"https://x.example/?q={quote(ctx.token(), safe='')}"

    @pipe.phase("first", **once)
    def first(ctx: Context) -> str:
        return ctx.token()

    @pipe.phase("second", **once)
    def second() -> None: ...

    return ["logs_it", "raises_it", "fails_with_it", "retries_with_it", "cancels_with_it", "returns_it", "outputs_it",
             "checkpoints_it", "enqueues_it", "passes_it_on", "commits_it", "outputs_it_in_a_transaction", "advances",
             "names_an_output_by_it", "keys_a_job_by_it", "correlates_by_it", "returns_it_in_a_url"]  # fmt: skip


def test_a_canary_is_found_nowhere(shop: Shop, written: io.StringIO) -> None:
    shop.app = app = App(
        shop.app.url, config={"principal.keys": f"k:{KEY}"}, settings=QUICK, store=shop.store
    )
    kinds = careless(app)

    @app.job
    def takes_secret(login: Login) -> None: ...

    with app.as_principal(USER, token=CANARY):
        jobs = {kind: app.kind(kind).options(keep_token=True).enqueue() for kind in kinds}
    with pytest.raises(PayloadError) as refused:
        takes_secret.enqueue(Login(name="u", password=SecretStr(CANARY)))
    forged = Verifier(algorithms=["HS256"], keys={"k": bytes(32)}, issuer="i", audience="a")
    with pytest.raises(TokenError) as distrusted:
        forged.verify(CANARY)
    engine = shop.serve()
    shop.drained(engine)
    metrics = Metrics(engine.stats.report, engine.report, shop.store.phases.counts).render().decode()
    state = json.dumps(health.detailed(engine.report(), shop.store.phases.counts()), default=str)
    everything = shop.store.jobs.list(JobFilter(), limit=500).jobs
    assert {job.kind for job in everything} == set(kinds), "no job was made that was given the token"
    told = {
        "log lines": written.getvalue(),
        "jobs": "".join(
            f"{shop.store.jobs.get(job.id)}{job.args}{job.result}{job.error}" for job in everything
        ),
        "attempts": "".join(f"{shop.store.jobs.attempts(job.id)}" for job in everything),
        "timelines": "".join(f"{shop.store.jobs.timeline(job.id)}" for job in everything),
        "principals": "".join(f"{shop.store.principals.get(job.id)!r}" for job in everything),
        "metrics": metrics,
        "health": state,
        "refusals": f"{refused.value!r} {distrusted.value!r}",
        "database": dump(shop),
    }
    found = {place: spelling for place, text in told.items() for spelling in SPELLINGS if spelling in text}
    assert found == {}
    ended = {kind: shop.job(job) for kind, job in jobs.items()}
    assert ended["logs_it"].result == len(CANARY), "it really was in the handlers' hands"
    codes = {kind: str(job.error["code"]) for kind, job in ended.items() if job.error}
    assert codes == {
        "raises_it": "exception",
        "fails_with_it": "no_***",
        "retries_with_it": "retry",
        "cancels_with_it": "cancelled",
        "returns_it": "bad_result",
        "outputs_it": "payload",
        "checkpoints_it": "payload",
        "enqueues_it": "payload",
        "passes_it_on": "payload",
        "commits_it": "bad_result",
        "outputs_it_in_a_transaction": "payload",
        "advances": "bad_result",
        "names_an_output_by_it": "payload",
        "keys_a_job_by_it": "payload",
        "correlates_by_it": "payload",
        "returns_it_in_a_url": "bad_result",
    }
    assert "***" in told["log lines"] and "401 for ***" in told["jobs"] and "later, ***" in told["attempts"]


def dump(shop: Shop) -> str:
    """Everything the database has: a dump by its own tool, or each row as text; of SQLite, the bytes of its files."""
    if shop.store.db.dialect == "sqlite":
        path = Path(shop.app.url.removeprefix("sqlite:///"))
        return "".join(
            file.read_bytes().decode("latin-1") for file in sorted(path.parent.glob(f"{path.name}*"))
        )
    if (tool := shutil.which("pg_dump")) is not None:
        answer = subprocess.run(
            [tool, "--schema=windlass", shop.app.url], capture_output=True, text=True, check=False
        )
        if answer.returncode == 0:  # one that is older than the server refuses
            assert "u-7" in answer.stdout
            return answer.stdout
    tables = shop.run("SELECT tablename FROM pg_tables WHERE schemaname = 'windlass'")
    rows: list[Any] = [shop.run(f"SELECT t::text FROM windlass.{table} AS t") for (table,) in tables]
    assert "u-7" in str(rows)
    return str(rows)


def test_the_looking_would_find_it(shop: Shop, written: io.StringIO) -> None:
    """A job without a token that says the same words is found in every place that is looked at."""

    @shop.app.job(retry=fixed(1))
    def loud(text: str) -> None:
        log.warning("with %s", text)
        raise RuntimeError(text)

    plain = "canary-without-quotes"
    job = loud.options(principal=Principal("u-7")).enqueue(plain)
    shop.drained(shop.serve())
    for text in (written.getvalue(), str(shop.job(job)), str(shop.store.jobs.timeline(job.id)), dump(shop)):
        assert plain in text


def test_no_beginning_of_a_long_token_is_left_where_a_text_was_cut(shop: Shop, written: io.StringIO) -> None:
    """Messages of errors and keys of mappings are short: a token of ordinary length does not fit in, and half of it must not either."""
    shop.app = app = App(
        shop.app.url, config={"principal.keys": f"k:{KEY}"}, settings=QUICK, store=shop.store
    )
    token = "opaque+" + "".join(f"{n:03d}-{n * 7919:08x}/" for n in range(40))

    @app.job(retry=fixed(1))
    def raises_it(ctx: Context) -> None:
        raise ConnectionError(f"401 for {ctx.token()}")

    @app.job(retry=fixed(1))
    def names_it(ctx: Context) -> None:
        app.enqueue(ctx.token())

    @app.job(retry=fixed(1))
    def logs_it(ctx: Context) -> None:
        log.info("kept", extra={"cache": {ctx.token(): 1}})

    with app.as_principal(USER, token=token):
        jobs = [kind.options(keep_token=True).enqueue() for kind in (raises_it, names_it, logs_it)]
    shop.drained(shop.serve())
    told = {
        "log lines": written.getvalue(),
        "jobs": "".join(f"{shop.job(job)}{shop.job(job).error}" for job in jobs),
        "database": dump(shop),
    }
    pieces = {token[place : place + 16] for place in range(0, len(token) - 16, 8)}
    assert {place: piece for place, text in told.items() for piece in pieces if piece in text} == {}
    assert "401 for ***" in told["jobs"]


def test_what_a_failed_handler_leaves_behind_is_logged_without_its_token(
    shop: Shop, written: io.StringIO
) -> None:
    """A traceback keeps the handler's variables; a task among them that failed is logged by asyncio when it is let go."""
    shop.app = app = App(
        shop.app.url, config={"principal.keys": f"k:{KEY}"}, settings=QUICK, store=shop.store
    )

    @app.job(retry=fixed(1))
    async def work(ctx: Context) -> None:
        token = await ctx.token_async()

        async def call() -> None:
            raise ConnectionError(f"401 for {token}")

        task = asyncio.create_task(call())
        await asyncio.sleep(0.01)
        raise RuntimeError(f"something else, {task.done()}")

    with app.as_principal(USER, token=CANARY):
        job = work.options(keep_token=True).enqueue()
    shop.drained(shop.serve())
    assert (shop.job(job).error or {})["message"] == "RuntimeError: something else, True"

    def is_let_go() -> bool:
        gc.collect()  # a thread of the engine may have had the exception in its hands until now
        return "never retrieved" in written.getvalue() and "401 for ***" in written.getvalue()

    shop.until(is_let_go)
    assert {spelling for spelling in SPELLINGS if spelling in written.getvalue()} == set()


def test_a_token_is_known_to_the_logs_no_longer_than_its_handler_runs(
    shop: Shop, written: io.StringIO
) -> None:
    shop.app = app = App(
        shop.app.url, config={"principal.keys": f"k:{KEY}"}, settings=QUICK, store=shop.store
    )

    @app.job
    def work(ctx: Context) -> None:
        log.info("first %s", ctx.token())
        log.info("second %s", ctx.token())

    with app.as_principal(USER, token="plain-canary-text"):
        for _ in range(3):
            work.options(keep_token=True).enqueue()
    shop.drained(shop.serve())
    log.info("afterwards plain-canary-text is only a text")
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    messages = [line["message"] for line in lines if line.get("logger") == "shop"]
    assert messages.count("first ***") == messages.count("second ***") == 3
    assert messages[-1] == "afterwards plain-canary-text is only a text"
