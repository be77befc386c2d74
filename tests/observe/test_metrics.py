"""Metrics: what a scrape finds, read by the parser that Prometheus' own library has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.observe.reports import a_report
from windlass.engine.stats import Stats
from windlass.errors import StoreUnreachableError
from windlass.model import Counts, Run
from windlass.observe.metrics import ABOUT, Metrics
from windlass.observe.report import OUTCOMES, PhaseReport, StatsReport
from windlass.observe.server import METRICS_TYPE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"
NAMES = ("recovered", "refused", "duplicates_prevented", "lock_held", "redis_errors", "lease_lost", "self_stops", "step_errors", "beat_errors", "loop_blocked", "time_limits", "crashes", "reconnects", "promoted", "locks_lost", "ticks", "ticks_skipped")  # fmt: skip


def _stats() -> Stats:
    stats = Stats()
    for place, outcome in enumerate(OUTCOMES):
        stats.ended_many("welcome", outcome, [Run(1, 3, 40 + 100 * place)] * (place + 1))
    stats.ended_many('odd "phase"\\', "completed", [Run(1, 0, 999_999)])
    for place, name in enumerate(NAMES):
        stats.count(
            name, place + 1, label={"recovered": "released", "refused": "being processed"}.get(name, "")
        )
    stats.count("recovered", 10, label="held")
    stats.count("recovered", 100, label="retried")
    return stats


def _metrics(**changes: object) -> Metrics:
    stats = _stats()
    counts = {"welcome": Counts(queued=5, failed=2)}
    return Metrics(stats.report, lambda: a_report(**changes), lambda: counts, lambda: {"welcome": 12.5})


def _samples(metrics: Metrics) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def _value(samples: dict[str, list[Sample]], name: str, **labels: str) -> float:
    (found,) = [sample.value for sample in samples[name] if sample.labels == labels]
    return found


def test_everything_l1_asks_for() -> None:
    samples = _samples(_metrics())
    assert _value(samples, "windlass_queue_size", phase="welcome") == 5
    assert _value(samples, "windlass_processors", phase="welcome", state="busy") == 3
    assert _value(samples, "windlass_processors", phase="welcome", state="idle") == 7
    assert _value(samples, "windlass_jobs", phase="welcome", state="queued") == 5
    assert _value(samples, "windlass_oldest_queued_seconds", phase="welcome") == 12.5
    assert _value(samples, "windlass_jobs_ended_total", phase="welcome", outcome="completed") == 1
    assert _value(samples, "windlass_jobs_ended_total", phase="welcome", outcome="failed") == 2
    assert _value(samples, "windlass_retries_total", phase="welcome") == 3
    assert _value(samples, "windlass_lock_skips_total") == 4
    assert _value(samples, "windlass_redis_errors_total") == 5
    assert _value(samples, "windlass_locks_lost_total") == 15
    assert _value(samples, "windlass_degraded", part="redis lock") == 0
    assert _value(samples, "windlass_duplicates_prevented_total") == 3
    assert _value(samples, "windlass_recovered_total", verdict="held") == 10
    assert _value(samples, "windlass_stuck_released_total") == 1 + 100 + 11
    assert _value(samples, "windlass_refused_total", reason="being processed") == 2
    assert _value(samples, "windlass_lease_seconds_left") == 25.5
    assert _value(samples, "windlass_step_seconds") == 0.25
    assert _value(samples, "windlass_up") == 1


def test_histograms_are_in_seconds_and_add_up() -> None:
    samples = _samples(_metrics())
    buckets = [
        sample for sample in samples["windlass_run_seconds_bucket"] if sample.labels["phase"] == "welcome"
    ]
    values = {sample.labels["le"]: sample.value for sample in buckets}
    # 1 × 40 ms, 2 × 140, 3 × 240, 4 × 340, 5 × 440; released and lost attempts have no times.
    assert (values["0.02"], values["0.05"], values["0.2"], values["0.5"], values["+Inf"]) == (0, 1, 3, 15, 15)
    assert [sample.value for sample in buckets] == sorted(sample.value for sample in buckets)
    assert _value(samples, "windlass_run_seconds_count", phase="welcome") == 15
    assert _value(samples, "windlass_run_seconds_sum", phase="welcome") == pytest.approx(4.6)
    assert _value(samples, "windlass_wait_seconds_count", phase="welcome") == 15
    odd = 'odd "phase"\\'
    assert _value(samples, "windlass_run_seconds_bucket", phase=odd, le="300.0") == 0
    assert _value(samples, "windlass_run_seconds_bucket", phase=odd, le="+Inf") == 1


def test_every_metric_is_documented_and_every_documented_one_is_there() -> None:
    families = {}
    for family in text_string_to_metric_families(_metrics().render().decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        families[name] = (family.type, labels)
    described = {about.name: (about.type.replace("info", "gauge"), set(about.labels)) for about in ABOUT}
    assert families == described


def test_phases_without_jobs_are_there_with_zeros() -> None:
    samples = _samples(Metrics(StatsReport, a_report))
    assert _value(samples, "windlass_jobs_ended_total", phase="site:one", outcome="failed") == 0
    assert _value(samples, "windlass_run_seconds_count", phase="site:one") == 0


def test_the_page_lists_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    listed = [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows]
    assert listed == [(about.name, about.type, about.labels, about.help) for about in ABOUT]


def test_down_is_zero() -> None:
    for changes in ({"state": "stopping"}, {"store_reachable": False}):
        assert _value(_samples(_metrics(**changes)), "windlass_up") == 0


def test_a_part_that_is_not_well_is_one() -> None:
    samples = _samples(_metrics(degraded=["redis lock: ConnectionError: refused"], store_reachable=False))
    found = {sample.labels["part"]: sample.value for sample in samples["windlass_degraded"]}
    assert found["redis lock"] == found["store"] == 1
    assert found["engine"] == found["lease"] == 0


def test_a_scrape_needs_no_jobs_and_no_database() -> None:
    def unreachable() -> Any:
        raise StoreUnreachableError("no answer")

    report = a_report(phases={})
    text = Metrics(StatsReport, lambda: report, unreachable, unreachable).render().decode()
    assert "windlass_jobs{" not in text and "windlass_oldest" not in text
    assert "windlass_jobs{" not in Metrics(StatsReport, lambda: report).render().decode()


def test_counts_are_asked_for_every_five_seconds_at_most() -> None:
    now, asked = [0.0], []

    def counts() -> dict[str, Counts]:
        asked.append(now[0])
        return {"welcome": Counts(queued=len(asked))}

    metrics = Metrics(StatsReport, a_report, counts, monotonic=lambda: now[0])
    for second in range(12):
        now[0] = float(second)
        metrics.render()
    assert asked == [0.0, 5.0, 10.0]
    assert _value(_samples(metrics), "windlass_jobs", phase="welcome", state="queued") == 3


def test_a_read_that_takes_long_is_made_less_often() -> None:
    now, asked = [0.0], []

    def oldest() -> dict[str, float]:
        asked.append(now[0])
        now[0] += 1.0
        return {"welcome": 1.0}

    metrics = Metrics(StatsReport, a_report, oldest=oldest, monotonic=lambda: now[0])
    while now[0] < 50:
        metrics.render()
        now[0] += 1.0
    assert asked == [0.0, 21.0, 42.0]


def test_two_instances_in_a_process_do_not_mix() -> None:
    one = Metrics(StatsReport, lambda: a_report(phases={"a": PhaseReport(1, 0, 0, 0)}))
    two = Metrics(StatsReport, lambda: a_report(phases={"b": PhaseReport(1, 0, 0, 0)}))
    assert 'phase="a"' in one.render().decode() and 'phase="a"' not in two.render().decode()


def test_the_content_type() -> None:
    assert METRICS_TYPE == CONTENT_TYPE_PLAIN_0_0_4
