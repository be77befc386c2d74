"""Metrics of the database, for a server that runs no jobs itself."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from windlass.control.noun import Noun, off_loop
from windlass.observe.metrics import jobs_by_state, oldest_queued


class MetricsControl(Noun):
    """Renders metrics."""

    def render(self) -> bytes:
        """Jobs by phase and state, and the age of the oldest queued job of each phase, in the text format of Prometheus."""
        self._actor.require_all("read metrics of all phases")
        store = self._store
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Read([jobs_by_state(store.phases.counts()), oldest_queued(store.phases.oldest())]))
        return generate_latest(registry)

    render_async = off_loop(render)


class _Read(Collector):
    """Metrics that were read."""

    def __init__(self, found: list[GaugeMetricFamily]) -> None:
        self._found = found

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._found
