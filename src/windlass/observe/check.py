"""The health check's voice: a log line when an instance's health changes, and none while it stays as it is.

Run it every ``settings.health`` seconds. It looks at the same report as /healthz, so that the log and the answer never differ.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.observe import events, health
from windlass.observe.report import EngineReport


class HealthCheck:
    """Remembers what it said last."""

    def __init__(self, report: Callable[[], EngineReport]) -> None:
        self._report = report
        self._told: tuple[str, frozenset[str]] = (health.OK, frozenset())

    def look(self) -> str:
        """Look once; answers the status (ok, degraded, down)."""
        report = self._report()
        status, parts = health.status(report), health.unwell(report)
        if report.state not in ("running", "stopped"):  # on the way there, and nothing to complain about
            return status
        found = (status, frozenset(parts))
        if found != self._told:
            self._told = found
            events.health(status, parts)
        return status
