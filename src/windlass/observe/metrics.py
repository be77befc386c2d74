"""Metrics of an instance as Prometheus text, in their own registry, collected at each scrape.

Counters and histograms belong to this instance since its start; sum them over instances. ``windlass_jobs`` and
``windlass_oldest_queued_seconds`` come from the database and are the same from every instance: use their maximum, not the sum.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from windlass.errors import StoreError
from windlass.model import Counts
from windlass.observe import health
from windlass.observe.report import (
    BOUNDS_MS,
    BUCKETS,
    OUTCOMES,
    EngineReport,
    Histogram,
    PhaseStats,
    StatsReport,
)

COUNTS_LAST = 5.0
SHARE = 20  # a read of the database may take 1/20 of the time

CountsReader = Callable[[], Mapping[str, Counts]]
OldestReader = Callable[[], Mapping[str, float]]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class About:
    """A metric as the documentation lists it."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


ABOUT = (
    About(
        "windlass_up", "gauge", (), "1 while the instance runs and the database is reachable, otherwise 0."
    ),
    About(
        "windlass_degraded",
        "gauge",
        ("part",),
        "1 for a part that is degraded or down, otherwise 0; /healthz has the same parts.",
    ),
    About("windlass_build_info", "info", ("version", "python"), "Always 1; the versions are its labels."),
    About(
        "windlass_queue_size",
        "gauge",
        ("phase",),
        "Claimed jobs that wait in this instance's memory for a processor.",
    ),
    About("windlass_processors", "gauge", ("phase", "state"), "Processors that are idle, busy or in error."),
    About("windlass_jobs", "gauge", ("phase", "state"), "Jobs in the database by state, at most 5 s old."),
    About(
        "windlass_oldest_queued_seconds",
        "gauge",
        ("phase",),
        "How long the oldest queued job in the database has been ready, at most 5 s old; 0 when none is queued. "
        "A job that was given back counts from its old place.",
    ),
    About(
        "windlass_queue_wait_seconds",
        "histogram",
        ("phase",),
        "How long jobs that this instance claimed had been ready in the database.",
    ),
    About("windlass_run_seconds", "histogram", ("phase",), "How long attempts ran."),
    About(
        "windlass_wait_seconds",
        "histogram",
        ("phase",),
        "How long claimed jobs waited in memory before they started.",
    ),
    About(
        "windlass_jobs_ended_total",
        "counter",
        ("phase", "outcome"),
        "Attempts by outcome: completed, failed, retried, cancelled, advanced, released, lost. "
        "Attempts of a dead instance are counted by the instance that recovered them.",
    ),
    About("windlass_retries_total", "counter", ("phase",), "Attempts that failed and are retried."),
    About(
        "windlass_recovered_total",
        "counter",
        ("verdict",),
        "Jobs taken over from dead instances, by the verdict of recovery.",
    ),
    About(
        "windlass_stuck_released_total",
        "counter",
        (),
        "Stuck jobs that were freed: recovered jobs that run again, and jobs that exceeded their time limit.",
    ),
    About(
        "windlass_refused_total",
        "counter",
        ("reason",),
        "Claimed jobs that the queue in memory did not accept.",
    ),
    About(
        "windlass_duplicates_prevented_total",
        "counter",
        (),
        "Outputs that existed already; the first value was kept.",
    ),
    About(
        "windlass_lock_skips_total", "counter", (), "Requests skipped because another holder had their lock."
    ),
    About("windlass_redis_errors_total", "counter", (), "Calls to Redis that failed."),
    About("windlass_locks_lost_total", "counter", (), "Locks that ended before they were released."),
    About("windlass_lease_lost_total", "counter", (), "Leases that were lost while their jobs were held."),
    About(
        "windlass_self_stops_total",
        "counter",
        (),
        "Times all jobs were stopped because the lease could not be renewed.",
    ),
    About("windlass_time_limits_total", "counter", (), "Jobs that exceeded their phase's time limit."),
    About(
        "windlass_crashes_total",
        "counter",
        (),
        "Processes that died while a job ran: children of this instance, and instances whose jobs it recovered.",
    ),
    About("windlass_loop_blocked_total", "counter", (), "Times a handler blocked the event loop."),
    About("windlass_step_errors_total", "counter", (), "Steps (records and claims) that failed."),
    About("windlass_beat_errors_total", "counter", (), "Heartbeats that failed."),
    About("windlass_reconnects_total", "counter", (), "Connections to the database that were opened again."),
    About("windlass_promoted_total", "counter", (), "Jobs moved into their queues because they were due."),
    About("windlass_ticks_total", "counter", (), "Due times of schedules that this instance fired."),
    About("windlass_ticks_skipped_total", "counter", (), "Due times that got no job of their own."),
    About(
        "windlass_lease_seconds_left",
        "gauge",
        (),
        "Seconds until the lease ends unless it is renewed; below zero, it is lost.",
    ),
    About("windlass_step_seconds", "gauge", (), "Seconds since the last step of records and claims."),
    About(
        "windlass_loop_lag_seconds",
        "gauge",
        (),
        "How long the event loop has been blocked; 0 when it is not.",
    ),
)

# Names of ``Stats.count`` that are a metric without labels.
_COUNTED = {
    "duplicates_prevented": "windlass_duplicates_prevented",
    "lock_held": "windlass_lock_skips",
    "redis_errors": "windlass_redis_errors",
    "locks_lost": "windlass_locks_lost",
    "lease_lost": "windlass_lease_lost",
    "self_stops": "windlass_self_stops",
    "time_limits": "windlass_time_limits",
    "crashes": "windlass_crashes",
    "loop_blocked": "windlass_loop_blocked",
    "step_errors": "windlass_step_errors",
    "beat_errors": "windlass_beat_errors",
    "reconnects": "windlass_reconnects",
    "promoted": "windlass_promoted",
    "ticks": "windlass_ticks",
    "ticks_skipped": "windlass_ticks_skipped",
}
_NOTHING = PhaseStats(dict.fromkeys(OUTCOMES, 0), *[Histogram((0,) * BUCKETS, 0)] * 3)
_HELP = {about.name.removesuffix("_total").removesuffix("_info"): about.help for about in ABOUT}


class Metrics(Collector):
    """Reads the counters and a report at scrape time.

    ``counts`` reads the number of jobs per state from the database, ``oldest`` the age of the oldest queued job per phase; without
    them, or when the database does not answer, their metrics are left out.
    """

    def __init__(
        self,
        stats: Callable[[], StatsReport],
        report: Callable[[], EngineReport],
        counts: CountsReader | None = None,
        oldest: OldestReader | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stats = stats
        self._report = report
        self._counts = _Kept(counts, monotonic) if counts else None
        self._oldest = _Kept(oldest, monotonic) if oldest else None
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def render(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        report, stats = self._report(), self._stats()
        is_up = report.state == "running" and report.store_reachable
        yield _gauge("windlass_up", float(is_up))
        degraded = GaugeMetricFamily("windlass_degraded", _HELP["windlass_degraded"], labels=["part"])
        for part, state in health.states(report).items():
            degraded.add_metric([part], float(state != health.OK))
        yield degraded
        build = {"version": _version(), "python": platform.python_version()}
        yield InfoMetricFamily("windlass_build", _HELP["windlass_build"], value=build)
        yield _gauge("windlass_lease_seconds_left", report.lease_left)
        yield _gauge("windlass_step_seconds", report.last_step_seconds_ago)
        yield _gauge("windlass_loop_lag_seconds", report.loop_lag)
        yield from _pools(report)
        yield from _phases(stats, report)
        yield from _events(stats)
        if self._counts is not None and (counts := self._counts()) is not None:
            yield jobs_by_state(counts)
        if self._oldest is not None and (ages := self._oldest()) is not None:
            yield oldest_queued(ages)


def jobs_by_state(counts: Mapping[str, Counts]) -> GaugeMetricFamily:
    """The number of jobs of each phase and state."""
    jobs = GaugeMetricFamily("windlass_jobs", _HELP["windlass_jobs"], labels=["phase", "state"])
    for phase, numbers in counts.items():
        for state, number in asdict(numbers).items():
            jobs.add_metric([phase, state], number)
    return jobs


def oldest_queued(ages: Mapping[str, float]) -> GaugeMetricFamily:
    """The age of the oldest queued job of each phase."""
    name = "windlass_oldest_queued_seconds"
    oldest = GaugeMetricFamily(name, _HELP[name], labels=["phase"])
    for phase, seconds in ages.items():
        oldest.add_metric([phase], seconds)
    return oldest


def queue_waits(found: Iterable[tuple[str, str, Histogram]]) -> HistogramMetricFamily:
    """How long jobs had been ready when they were claimed, by phase and the worker that claimed them."""
    name = "windlass_queue_wait_seconds"
    waits = HistogramMetricFamily(name, _HELP[name], labels=["phase", "worker"])
    for phase, worker, histogram in found:
        waits.add_metric([phase, worker], *_buckets(histogram))
    return waits


class _Kept(Generic[Value]):
    """Caches a read of the database: for five seconds, or for 20 times its duration; None if it fails."""

    def __init__(self, read: Callable[[], Value], monotonic: Callable[[], float]) -> None:
        self._read = read
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._value: Value | None = None
        self._until = float("-inf")

    def __call__(self) -> Value | None:
        with self._lock:
            began = self._monotonic()
            if began >= self._until:
                try:
                    self._value = self._read()
                except StoreError:
                    self._value = None
                ended = self._monotonic()
                self._until = ended + max(COUNTS_LAST, SHARE * (ended - began))
            return self._value


def _pools(report: EngineReport) -> Iterator[Metric]:
    queue = GaugeMetricFamily("windlass_queue_size", _HELP["windlass_queue_size"], labels=["phase"])
    processors = GaugeMetricFamily(
        "windlass_processors", _HELP["windlass_processors"], labels=["phase", "state"]
    )
    for name, phase in report.phases.items():
        queue.add_metric([name], phase.waiting)
        for state, number in (("idle", phase.idle), ("busy", phase.busy), ("error", phase.error)):
            processors.add_metric([name, state], number)
    yield queue
    yield processors


def _phases(stats: StatsReport, report: EngineReport) -> Iterator[Metric]:
    """Metrics of phases. Phases without a job have zeros, so that their first failure is an increase."""
    ended = _counter("windlass_jobs_ended", ["phase", "outcome"])
    retries = _counter("windlass_retries", ["phase"])
    run = HistogramMetricFamily("windlass_run_seconds", _HELP["windlass_run_seconds"], labels=["phase"])
    wait = HistogramMetricFamily("windlass_wait_seconds", _HELP["windlass_wait_seconds"], labels=["phase"])
    queue = HistogramMetricFamily(
        "windlass_queue_wait_seconds", _HELP["windlass_queue_wait_seconds"], labels=["phase"]
    )
    for name, phase in {**dict.fromkeys(report.phases, _NOTHING), **stats.phases}.items():
        for outcome, number in phase.outcomes.items():
            ended.add_metric([name, outcome], number)
        retries.add_metric([name], phase.outcomes.get("retried", 0))
        run.add_metric([name], *_buckets(phase.run))
        wait.add_metric([name], *_buckets(phase.wait))
        queue.add_metric([name], *_buckets(phase.queue))
    yield from (ended, retries, run, wait, queue)


def _events(stats: StatsReport) -> Iterator[Metric]:
    for name, metric in _COUNTED.items():
        family = _counter(metric)
        family.add_metric([], stats.count(name))
        yield family
    for name, label in (("recovered", "verdict"), ("refused", "reason")):
        family = _counter(f"windlass_{name}", [label])
        for (found, value), number in stats.counts.items():
            if found == name:
                family.add_metric([value], number)
        yield family
    family = _counter("windlass_stuck_released")
    family.add_metric([], stats.stuck_released)
    yield family


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Buckets in the form of Prometheus, in seconds and cumulative, and the sum."""
    made: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip((*BOUNDS_MS, None), histogram.counts, strict=True):
        total += count
        made.append(("+Inf" if bound is None else str(bound / 1000), total))
    return made, histogram.sum_ms / 1000


def _gauge(name: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, _HELP[name], value=value)


def _counter(name: str, labels: list[str] | None = None) -> CounterMetricFamily:
    return CounterMetricFamily(name, _HELP[name], labels=labels or [])


def _version() -> str:
    try:
        return metadata.version("windlass")
    except metadata.PackageNotFoundError:
        return "unknown"
