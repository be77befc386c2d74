"""One trace from a request through enqueue, attempt and child job; on real spans of the SDK."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.engine.shop import QUICK, Shop
from windlass import App, Context, Fail, Retry
from windlass.engine.drain import Drain
from windlass.errors import ConfigError
from windlass.integrations.fastapi import lifespan
from windlass.integrations.opentelemetry import instrument
from windlass.model import NewJob, State
from windlass.model.retry import fixed
from windlass.testing import Sandbox


class Spans:
    """Spans that were ended, by name."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.all if span.name == name]
        return found


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def app(spans: Spans, sqlite_path: Path) -> Iterator[App]:
    with closing(App(f"sqlite:///{sqlite_path}", settings=QUICK)) as app:
        instrument(app, tracer_provider=spans.provider)
        yield app


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def own(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


@pytest.mark.timing
def test_one_trace_from_a_request_to_a_child_job(app: App, spans: Spans) -> None:
    @app.job
    async def order(number: int) -> None:
        await child.enqueue_async(number=number)

    @app.job
    def child(number: int) -> str:
        return f"{trace.get_current_span().get_span_context().trace_id:032x}"

    web = FastAPI(lifespan=lifespan(app))

    @web.middleware("http")
    async def traced(request: Request, call_next: Any) -> Any:  # as an instrumented web framework does
        with spans.tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER):
            return await call_next(request)

    @web.post("/orders/{number}")
    async def post(number: int) -> dict[str, str]:
        return {"id": (await order.options(correlation_id="c-7").enqueue_async(number=number)).id}

    with TestClient(web) as client:
        job = client.post("/orders/7").json()["id"]
        engine = client.app_state["windlass_engine"]
        assert Drain(engine, app.store).wait(90)
    names = ["POST /orders", "enqueue order", "process order", "enqueue child", "process child"]
    assert sorted(span.name for span in spans.all) == sorted(names)
    chain = [spans.named(name) for name in names]
    assert len({span.context.trace_id for span in chain if span.context}) == 1, "one trace"
    assert [parent(span) for span in chain] == [None, *(own(span) for span in chain[:-1])]
    consumer = chain[2]
    assert (chain[1].kind, consumer.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert [link.context.span_id for link in consumer.links] == [own(chain[1])]
    assert consumer.attributes == {
        "messaging.system": "windlass",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "order",
        "messaging.message.id": job,
        "messaging.message.conversation_id": "c-7",
        "windlass.job.kind": "order",
        "windlass.job.attempt": 1,
        "windlass.job.max_attempts": 3,
        "windlass.job.generation": 1,
        "windlass.job.outcome": "completed",
    }


def test_failed_attempts_are_errors_with_their_exception(app: App, spans: Spans) -> None:
    @app.job(retry=fixed(2, wait=1))
    def work(how: str, ctx: Context) -> None:
        if how == "fail":
            raise Fail("bad_order", "no such order")
        if how == "retry" and ctx.attempt == 1:
            raise Retry("not yet", after=1)
        if how == "raise":
            raise ValueError("on purpose")

    with Sandbox(app) as box:
        for how in ("raise", "fail", "retry"):
            box.app.enqueue("work", how=how)
            box.drain(advance=True)
    found = [
        (
            str((span.attributes or {})["windlass.job.outcome"]),
            span.status.status_code,
            (span.attributes or {}).get("error.type"),
            [str((event.attributes or {})["exception.type"]) for event in span.events],
        )
        for span in spans.all
        if span.kind is SpanKind.CONSUMER
    ]
    error, unset = StatusCode.ERROR, StatusCode.UNSET
    assert found == [
        ("retried", error, "ValueError", ["ValueError"]),
        ("failed", error, "ValueError", ["ValueError"]),
        ("failed", error, "Fail", ["windlass.model.signals.Fail"]),
        ("retried", unset, "Retry", []),
        ("completed", unset, None, []),
    ]
    attempts = [span for span in spans.all if span.kind is SpanKind.CONSUMER][:2]
    assert parent(attempts[0]) == parent(attempts[1]), "attempts of one job are siblings"
    assert spans.all[1].status.description == "ValueError: on purpose"


def test_every_way_to_submit_carries_the_context(app: App, spans: Spans) -> None:
    @app.job
    def work(n: int = 0) -> None: ...

    @app.job
    def parents(ctx: Context) -> None:
        ctx.enqueue(NewJob(kind="work"))
        with ctx.transaction() as tx:
            tx.enqueue(NewJob(kind="work"))
            work.enqueue_in(tx, n=1)

    with Sandbox(app) as box, spans.tracer.start_as_current_span("script") as script:
        with box.inline():
            work.enqueue_many([{"n": 1}, {"n": 2}])
            work.enqueue_many({"n": n} for n in (3, 4))
            work.enqueue_many([work.options(delay=0).request(n=5)])
        box.app.enqueue("parents")
        box.drain()
        jobs = box.jobs()
        carried = [box.store.headers.get(job.id)["traceparent"] for job in jobs]
        trace_id = f"{script.get_span_context().trace_id:032x}"
        assert len(jobs) == 9 and {text.split("-")[1] for text in carried} == {trace_id}
    producers = [span for span in spans.all if span.kind is SpanKind.PRODUCER]
    counts = [(span.attributes or {}).get("messaging.batch.message_count") for span in producers]
    assert counts.count(2) == 1 and len(producers) == 8, (
        "one for a call whose jobs differ only in their arguments"
    )


def test_provider_and_propagator_can_be_given(spans: Spans) -> None:
    from opentelemetry import baggage, context

    app = App()
    instrument(app, tracer_provider=spans.provider, propagator=W3CBaggagePropagator())

    @app.job
    def work() -> str:
        return str(baggage.get_baggage("tenant"))

    with Sandbox(app) as box:
        token = context.attach(baggage.set_baggage("tenant", "acme"))
        try:
            job = box.app.enqueue("work")
        finally:
            context.detach(token)
        assert box.store.headers.get(job.id) == {"baggage": "tenant=acme"}
        assert box.run_one(job).result == "acme"
    assert parent(spans.named("process work")) is None, "this propagator carries no trace"
    with pytest.raises(ConfigError, match="instrumented already"):
        instrument(app)


@pytest.mark.timing
def test_the_trace_goes_through_a_child_process(
    sqlite_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TEST_SPANS", str(tmp_path / "spans"))
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{sqlite_path}")
    from tests.integrations.traced_app import app as traced
    from tests.integrations.traced_app import heavy

    shop = Shop(f"sqlite:///{sqlite_path}")
    try:
        bound = App.of(traced.parts.bound(config=shop.app.config, store=shop.store))
        engine = shop.serve_app(bound)
        job = bound.enqueue("heavy")
        shop.drained(engine)
        assert heavy.name == "heavy" and shop.job(job).state is State.COMPLETED
        assert shop.job(job).result != os.getpid()
    finally:
        shop.close()
        traced.close()
    found = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    assert sorted(span["name"] for span in found) == [
        "enqueue heavy", "enqueue light", "process heavy", "process light",
    ]  # fmt: skip
    assert len({span["context"]["trace_id"] for span in found}) == 1
