"""Log lines as a test reads them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.engine.leases import lease
from windlass.model import Lease
from windlass.observe import events, logs
from windlass.observe.emit import Event
from windlass.observe.redaction import Secrets

LEVELS = {event.name: event.level for event in vars(events).values() if isinstance(event, Event)}
"""Every event and its level; ``instance.health`` is a WARNING where something is degraded or down."""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class Lines:
    """What was written to the stream."""

    stream: io.StringIO
    secrets: Secrets

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def all(self) -> list[str]:
        """Lines as programs split them: at newlines only."""
        assert self.text.endswith("\n") or not self.text
        return self.text.split("\n")[:-1]

    @property
    def heads(self) -> list[str]:
        """Lines without those of tracebacks, which begin with a bar."""
        return [line for line in self.all if not line.startswith("    | ")]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.all]

    @property
    def last(self) -> dict[str, Any]:
        return self.objects[-1]


@contextmanager
def written(
    style: str = "json", level: str = "debug", stream: io.StringIO | None = None, **options: Any
) -> Iterator[Lines]:
    """Everything that is logged inside the block."""
    stream = stream or io.StringIO()
    with logs.configure(level, style, stream, **options) as made:
        yield Lines(stream, made.secrets)


@dataclass
class Processor:
    name: str = "welcome-processor-1"


@dataclass
class Job:
    """As much of a running job as a log line needs."""

    lease: Lease
    processor: Processor


def a_lease(**changes: Any) -> Lease:
    """A lease of job 0190-a, kind welcome, second attempt of three."""
    return replace(lease("welcome", "0190-a"), attempt=2, correlation_id="req-7", **changes)


def a_job() -> Job:
    return Job(a_lease(), Processor())


app = logging.getLogger("shop")
