"""What can be streamed: a job, a phase, or everything. All watchers of an app read together, once a second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol

from windlass.api.records.events import JobEventRecord, PhaseEventRecord, SampleRecord
from windlass.api.streams.encoding import Message
from windlass.control.overview_sample import Sample
from windlass.control.service import Control


class Topic(Protocol):
    """Something that is streamed."""

    @property
    def name(self) -> str:
        """How a request asks for it."""
        ...

    def messages(self, after: str | None) -> AsyncIterator[Message]:
        """The messages from a position on, or all of them."""
        ...


@dataclass(frozen=True, slots=True)
class JobTopic:
    """The events of a job and its progress. Events are made of the rows of the job: behind a position each arrives once, on any server."""

    name: str
    control: Control
    job_id: str

    async def messages(self, after: str | None) -> AsyncIterator[Message]:
        async for event in self.control.jobs.events_async(self.job_id, after=after or None):
            record = JobEventRecord.of(event)
            yield Message("job", record.model_dump_json(), event.id)


@dataclass(frozen=True, slots=True)
class SampleTopic:
    """Samples of everything, one a second; ``show`` makes the data of a sample."""

    name: str
    control: Control
    event: str
    show: Callable[[Sample], str]

    async def messages(self, after: str | None) -> AsyncIterator[Message]:
        async for sample in self.control.events():
            yield Message(self.event, self.show(sample), "")


class Overview:
    """Makes the data of a sample once for all watchers."""

    def __init__(self) -> None:
        self._last: tuple[Sample, str] | None = None

    def __call__(self, sample: Sample) -> str:
        last = self._last
        if last is None or last[0] is not sample:
            self._last = last = sample, SampleRecord.of(sample).model_dump_json()
        return last[1]


def of_phase(phase: str) -> Callable[[Sample], str]:
    """What a sample says of one phase."""
    return lambda sample: PhaseEventRecord.of_sample(sample, phase).model_dump_json()
