"""Logs an instance's health at each check.

Run it every ``settings.health`` seconds. It reads the same report as /healthz, so that the log and /healthz never differ.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.observe import events, health
from windlass.observe.report import EngineReport


class HealthCheck:
    """Writes a log line about one instance at each check; ``report`` returns what the line is about."""

    def __init__(self, report: Callable[[], EngineReport]) -> None:
        self._report = report

    def check(self) -> str:
        """Check and log the health once; returns the status (ok, degraded, down)."""
        report = self._report()
        status, parts = health.status(report), health.unwell(report)
        if report.state not in ("running", "stopped"):  # starting or stopping: nothing to report
            return status
        phases = report.phases.values()
        events.health(
            status,
            parts,
            busy=sum(phase.busy for phase in phases),
            idle=sum(phase.idle for phase in phases),
            in_error=[name for phase in phases for name in phase.in_error],
            waiting=sum(phase.waiting for phase in phases),
        )
        return status
