"""OpenTelemetry: one trace from the request that submits a job through its attempts to the jobs that these submit.

    instrument(app)     # once, where the app is defined; needs windlass[opentelemetry]

A submission is a span (kind PRODUCER), whose context is carried in the job's headers. Each attempt is a span (kind CONSUMER) below it, with
a link to it, and is current while the handler runs. Names and attributes follow the conventions for messaging, as far as they fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from windlass.app.app import App
from windlass.errors import ConfigError
from windlass.handlers.middleware import CurrentAttempt
from windlass.handlers.submit_hooks import Submission
from windlass.model.signals import Retry

NAME = "windlass.integrations.opentelemetry"


def instrument(
    app: App, *, tracer_provider: TracerProvider | None = None, propagator: TextMapPropagator | None = None
) -> None:
    """Trace the submissions and the attempts of an app. Without arguments the global provider and propagator are used, as they are when a
    span is made. Call it before other middleware is registered, so that the span surrounds that, too."""
    if any(item.name == NAME for item in app.parts.registry.middleware):
        raise ConfigError("instrument", "twice", because="this app is instrumented already")
    tracer = trace.get_tracer(NAME, version("windlass"), tracer_provider)

    def carried(span: Span) -> dict[str, str]:
        carrier: dict[str, str] = {}
        (propagator or propagate.get_global_textmap()).inject(carrier, trace.set_span_in_context(span))
        return carrier

    def parent_of(headers: Mapping[str, str]) -> Context:
        return (propagator or propagate.get_global_textmap()).extract(headers)

    @app.on_submit
    def submitted(submission: Submission) -> Mapping[str, str]:
        span = tracer.start_span(
            f"enqueue {submission.phase}",
            kind=SpanKind.PRODUCER,
            attributes=_attributes(submission, "send", "enqueue", submission.job_id),
        )
        if submission.count > 1:
            span.set_attribute("messaging.batch.message_count", submission.count)
        try:
            return carried(span)
        finally:
            span.end()

    @contextmanager
    def processed(attempt: CurrentAttempt) -> Iterator[None]:
        parent = parent_of(attempt.headers)
        creator = trace.get_current_span(parent).get_span_context()
        span = tracer.start_span(
            f"process {attempt.phase}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=[Link(creator)] if creator.is_valid else [],
            attributes={
                **_attributes(attempt, "process", "process", attempt.job_id),
                "windlass.job.attempt": attempt.attempt,
                "windlass.job.max_attempts": attempt.max_attempts,
                "windlass.job.generation": attempt.generation,
            },
        )
        token = contexts.attach(trace.set_span_in_context(span, parent))
        try:
            yield
        finally:
            contexts.detach(token)
            _end(span, attempt)

    processed.__qualname__ = NAME
    app.middleware(processed)


def _attributes(of: Submission | CurrentAttempt, kind: str, name: str, job_id: str | None) -> dict[str, Any]:
    found = {
        "messaging.system": "windlass",
        "messaging.operation.type": kind,
        "messaging.operation.name": name,
        "messaging.destination.name": of.phase,
        "messaging.message.id": job_id,
        "messaging.message.conversation_id": of.correlation_id,
        "windlass.job.kind": of.kind,
    }
    return {name: value for name, value in found.items() if value is not None}


def _end(span: Span, attempt: CurrentAttempt) -> None:
    """End the span of an attempt. One that a handler repeats by ``Retry`` is no error."""
    span.set_attribute("windlass.job.outcome", attempt.outcome or "lost")
    error, exception = attempt.error, attempt.exception
    if error is not None and attempt.outcome in ("failed", "retried"):
        span.set_attribute("error.type", error.type)
        if attempt.outcome == "failed" or not isinstance(exception, Retry):
            if exception is not None:
                span.record_exception(exception)
            span.set_status(Status(StatusCode.ERROR, error.message))
    span.end()
