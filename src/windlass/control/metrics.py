"""Metrics of the database, for a server that runs no jobs itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from windlass.control.noun import Noun, off_loop
from windlass.control.why.fleet import Member, mapping, read_fleet
from windlass.observe.metrics import jobs_by_state, oldest_queued, queue_waits
from windlass.observe.report import BUCKETS, Histogram


class MetricsControl(Noun):
    """Renders metrics."""

    def render(self) -> bytes:
        """Jobs by phase and state, the age of the oldest queued job of each phase, and how long jobs waited in their queue, as each living worker
        said with its last heartbeat; in the text format of Prometheus."""
        self._actor.require_all("read metrics of all phases")
        store = self._store
        registry = CollectorRegistry(auto_describe=False)
        waits = queue_waits(_waits(read_fleet(store, store.now()).alive))
        found = [jobs_by_state(store.phases.counts()), oldest_queued(store.phases.oldest()), waits]
        registry.register(_Read(found))
        return generate_latest(registry)

    render_async = off_loop(render)


def _waits(alive: Iterable[Member]) -> Iterator[tuple[str, str, Histogram]]:
    """The histograms of the boards; a worker of another release may have none, or others."""
    for member in alive:
        for phase, facts in mapping(member.facts.get("waits")).items():
            counts, total = mapping(facts).get("counts"), mapping(facts).get("ms")
            if isinstance(counts, list) and len(counts) == BUCKETS and isinstance(total, int | float):
                yield phase, member.id, Histogram(tuple(map(int, counts)), total)


class _Read(Collector):
    """Metrics that were read."""

    def __init__(self, found: Sequence[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        yield from self._found
