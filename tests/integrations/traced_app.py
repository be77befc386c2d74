"""A traced app whose job runs in a child process; its spans are appended to the file of WINDLASS_TEST_SPANS, one JSON object a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from windlass import App
from windlass.integrations.opentelemetry import instrument


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["WINDLASS_TEST_SPANS"]).open("a") as file:
            file.writelines(f"{span.to_json(indent=None)}\n" for span in spans)
        return SpanExportResult.SUCCESS


provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
app = App()
instrument(app, tracer_provider=provider)


@app.job(executor="process")
def heavy() -> int:
    light.enqueue()
    return os.getpid()


@app.job
def light() -> None: ...
