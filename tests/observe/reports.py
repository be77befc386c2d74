"""Reports made by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from windlass.observe.report import EngineReport, PhaseReport


def a_report(**changes: Any) -> EngineReport:
    """A healthy instance with two phases."""
    return EngineReport(
        **{
            "instance": "i-1",
            "started_at": datetime(2026, 1, 1, tzinfo=UTC),
            "state": "running",
            "phases": {"welcome": PhaseReport(7, 3, 0, 5), "site:one": PhaseReport(10, 0, 0, 0)},
            "lease_left": 25.5,
            "last_step_seconds_ago": 0.25,
            "store_reachable": True,
            "listening": True,
            "degraded": [],
            "loop_lag": 0.0,
            **changes,
        }
    )
