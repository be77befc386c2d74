"""Health: what is live, what is ready, and which part is to blame."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.observe.lines import written
from tests.observe.reports import a_report
from windlass.model import Counts, PhasePause
from windlass.observe import health
from windlass.observe.health_log import HealthCheck
from windlass.observe.report import PhaseReport

DEAF = "listener: no notifications; polling instead"


@pytest.mark.parametrize(
    ("changes", "is_live", "is_ready"),
    [
        ({}, True, True),
        ({"state": "starting"}, True, False),
        ({"state": "stopping"}, True, False),
        ({"state": "stopped"}, False, False),
        ({"store_reachable": False}, True, False),
        ({"lease_left": -1.0}, True, False),
        ({"listening": False}, True, True),
        ({"degraded": ["redis lock: connection refused"]}, True, True),
        ({"loop_lag": 90.0}, True, True),
        # A step thread that does not come round: judged only where its turns are counted, and not while the database is away.
        ({"last_step_seconds_ago": 600.0}, True, True),
        ({"last_step_seconds_ago": 600.0, "step_limit": 60.0}, False, False),
        ({"last_step_seconds_ago": 600.0, "step_limit": 60.0, "store_reachable": False}, True, False),
        ({"last_step_seconds_ago": 600.0, "step_limit": 60.0, "state": "starting"}, True, False),
        ({"last_step_seconds_ago": 59.0, "step_limit": 60.0}, True, True),
    ],
)
def test_live_and_ready(changes: dict[str, Any], is_live: bool, is_ready: bool) -> None:
    report = a_report(**changes)
    assert bool(health.live(report)) is is_live
    assert bool(health.ready(report)) is is_ready
    assert bool(health.live(report).reasons) is not is_live
    assert bool(health.ready(report).reasons) is not is_ready
    told = health.detailed(report)
    assert (told["live"], told["ready"]) == (is_live, is_ready)


@pytest.mark.parametrize(
    ("changes", "part", "state", "status"),
    [
        ({"store_reachable": False}, "store", "down", "down"),
        ({"degraded": ["store: slow"]}, "store", "degraded", "degraded"),
        ({"degraded": [DEAF]}, "listener", "degraded", "degraded"),
        ({"lease_left": 0.0}, "lease", "down", "down"),
        ({"degraded": ["lease: two beats missed"]}, "lease", "degraded", "degraded"),
        ({"loop_lag": 3.0}, "loop", "degraded", "degraded"),
        ({"loop_lag": 0.4, "loop_limit": 0.3}, "loop", "degraded", "degraded"),
        (
            {"degraded": ["loop: a handler blocks the event loop"], "loop_lag": 0.5},
            "loop",
            "degraded",
            "degraded",
        ),
        ({"phases": {"welcome": PhaseReport(9, 1, 2, 0)}}, "pools", "degraded", "degraded"),
        ({"degraded": ["redis lock: connection refused"]}, "redis lock", "degraded", "degraded"),
        ({"degraded": ["tides: too high"]}, "tides", "degraded", "degraded"),
        ({"state": "stopping"}, "engine", "down", "down"),
        ({"last_step_seconds_ago": 99.0, "step_limit": 60.0}, "engine", "down", "down"),
    ],
)
def test_the_part_that_is_not_well_is_named(
    changes: dict[str, Any], part: str, state: str, status: str
) -> None:
    report = a_report(**changes)
    told = health.detailed(report)
    assert told["status"] == status
    assert told["parts"][part]["state"] == state and told["parts"][part]["seen"]
    others = {name: found["state"] for name, found in told["parts"].items() if name != part}
    assert set(others.values()) == {"ok"}
    assert list(health.unwell(report)) == [part]
    if part != "tides" and "degraded" not in changes:
        assert told["parts"][part]["advice"].endswith(".")


def test_a_loop_is_blocked_from_the_time_on_that_the_settings_say() -> None:
    """It was one second, whatever ``blocked_after`` said."""
    assert health.status(a_report(loop_lag=3.0, loop_limit=5.0)) == "ok"


def test_phases_that_nobody_serves_are_all_named_and_say_what_to_do() -> None:
    """The colon in a phase's name was taken for the end of the part's: one phase of a pipeline hid the others."""
    lines = [f"phase pipe:{label}: 1 job waits, and no instance serves it" for label in ("one", "two")]
    parts = health.detailed(a_report(degraded=lines))["parts"]
    for label in ("one", "two"):
        part = parts[f"phase pipe:{label}"]
        assert part["seen"] == "1 job waits, and no instance serves it" and "Start a worker" in part["advice"]


def test_the_whole_picture() -> None:
    told = health.detailed(a_report(), {"welcome": Counts(queued=7, failed=1)})
    assert told["status"] == "ok" and not health.unwell(a_report())
    assert set(told["parts"]) == {"engine", "store", "listener", "lease", "loop", "pools", "redis lock"}
    assert told["phases"]["welcome"] == {"idle": 7, "busy": 3, "error": 0, "waiting": 5, "in_error": []}
    assert told["jobs"]["welcome"]["queued"] == 7
    assert json.loads(json.dumps(told)) == told


def test_a_listener_without_a_reason_is_still_connecting() -> None:
    """The engine gives the reason once the first connection has had its time."""
    told = health.detailed(a_report(listening=False))
    assert told["status"] == "ok" and told["parts"]["listener"]["seen"] == "not listening yet"


@pytest.mark.parametrize("state", ["starting", "stopped"])
def test_what_has_not_begun_is_not_blamed(state: str) -> None:
    """An instance that starts has no lease and hears nothing; that is no trouble of these parts."""
    report = a_report(state=state, lease_left=0.0, listening=False)
    assert list(health.unwell(report)) == ["engine"]


def test_the_check_speaks_each_time() -> None:
    """With the level of what it found; an instance that starts or stops has nothing to complain about."""
    now = [a_report(state="starting", listening=False)]
    check = HealthCheck(lambda: now[0])
    with written() as lines:
        for report in (
            a_report(),
            a_report(degraded=[DEAF]),
            a_report(degraded=[DEAF], lease_left=20.0),
            a_report(degraded=[DEAF], store_reachable=False),
            a_report(state="stopping", store_reachable=False),
            a_report(),
        ):
            now[0] = report
            check.check()
    assert [
        (line["level"], line["fields"]["status"], list(line["fields"]["parts"])) for line in lines.objects
    ] == [
        ("info", "ok", []),
        ("warning", "degraded", ["listener"]),
        ("warning", "degraded", ["listener"]),
        ("warning", "down", ["store", "listener"]),
        ("info", "ok", []),
    ]


def test_paused_phases_are_listed_and_are_no_fault() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    pauses = [
        PhasePause("mail", since, None, "no line"),
        PhasePause("print", since, since + timedelta(hours=1), "moved"),
    ]
    told = health.detailed(a_report(), None, pauses)
    assert told["status"] == "ok"
    assert told["paused"] == {
        "mail": {"reason": "no line", "since": "2026-01-01T00:00:00+00:00", "until": None},
        "print": {
            "reason": "moved",
            "since": "2026-01-01T00:00:00+00:00",
            "until": "2026-01-01T01:00:00+00:00",
        },
    }
