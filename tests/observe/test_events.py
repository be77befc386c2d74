"""Events: every transition is one record with a stable name, its level and its fields."""

from __future__ import annotations

import ast
import logging
import re
import string
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.observe.lines import LEVELS, a_job, a_lease, written
from windlass.errors import StoreUnreachableError
from windlass.model import (
    Advanced,
    Cancelled,
    Completed,
    Defined,
    Failed,
    Fired,
    JobError,
    Outcome,
    Recovered,
    Released,
    Retried,
    Run,
    Tick,
)
from windlass.observe import events
from windlass.observe.emit import Event, emit, log
from windlass.observe.logger import Quiet
from windlass.observe.report import OUTCOMES

ROOT = Path(__file__).parents[2]
EVENTS = {name: value for name, value in vars(events).items() if isinstance(value, Event)}
ERROR = JobError(
    type="ConnectionError", code="exception", message="ConnectionError: refused", traceback="Traceback …"
)
RUN = Run(4, 12, 345)
LEASE = a_lease()
JOB = {
    "job_id": "0190-a",
    "kind": "welcome",
    "phase": "welcome",
    "attempt": 2,
    "max_attempts": 3,
    "correlation_id": "req-7",
}
FIELDS: dict[str, Any] = JOB

ENDS: list[tuple[Outcome, str, str, dict[str, Any]]] = [
    (Completed(LEASE, run=RUN), "completed", "debug", {}),
    (Advanced(LEASE, "site:two", run=RUN), "advanced", "debug", {"next_phase": "site:two"}),
    (Retried(LEASE, ERROR, timedelta(seconds=4), run=RUN), "retried", "warning", {"delay_seconds": 4.0}),
    (Failed(LEASE, ERROR, run=RUN), "failed", "error", {}),
    (Retried(LEASE, ERROR, timedelta(seconds=4), run=RUN), "failed", "error", {}),
    (
        Failed(LEASE, replace(ERROR, details={"retry": "not retried"}), run=RUN),
        "failed",
        "error",
        {"retry": "not retried"},
    ),
    (Cancelled(LEASE, "not needed", run=RUN), "cancelled", "info", {"reason": "not needed"}),
    (Released(LEASE, run=RUN), "cancelled", "info", {"reason": "cancelled on request"}),
    (Released(LEASE, run=RUN), "released", "info", {}),
    (
        Released(LEASE, run=RUN, delay=timedelta(seconds=2)),
        "released",
        "info",
        {"delay_seconds": 2.0},
    ),
    (Completed(LEASE, run=RUN), "lost", "warning", {}),
    (Failed(LEASE, ERROR, run=RUN), "lost", "warning", {}),
]


@pytest.mark.parametrize(("outcome", "name", "level", "extra"), ENDS)
def test_every_end_is_told(outcome: Outcome, name: str, level: str, extra: dict[str, Any]) -> None:
    with written() as lines:
        events.ended(outcome, name)
    (line,) = lines.objects
    assert (line["event"], line["level"]) == (f"job.{name}", level)
    assert {key: line[key] for key in JOB} == JOB
    assert line["processor"] == "welcome-processor-4"
    assert line["fields"] == {"waited_ms": 12, "ran_ms": 345, **extra}
    if name in ("retried", "failed"):
        assert line["error"] == {
            "type": "ConnectionError", "code": "exception", "message": "ConnectionError: refused", "traceback": "Traceback …",
        }  # fmt: skip
    else:
        assert "error" not in line


def test_every_outcome_has_an_event() -> None:
    assert {f"job.{name}" for name in OUTCOMES} <= set(LEVELS)
    assert {name for _, name, _, _ in ENDS} == set(OUTCOMES)


def test_a_console_line_says_what_people_ask() -> None:
    with written("console") as lines:
        events.ended(Retried(LEASE, ERROR, timedelta(seconds=4)), "retried")
    assert lines.all[0][13:] == (
        "WARN  job.retried     welcome 0190-a attempt 2/3  ConnectionError: refused; again in 4 s "
        "delay_seconds=4.0 correlation_id=req-7"
    )


def test_a_format_of_the_application_names_the_job(caplog: pytest.LogCaptureFixture) -> None:
    events.ended(Retried(LEASE, ERROR, timedelta(seconds=4)), "retried")
    emit(events.LOCK_LOST, **FIELDS)
    emit(events.UNSERVED, "7 jobs wait", phase="site:two", queued=7)
    retried, lost, unserved = [
        logging.Formatter().format(record).splitlines()[0]
        for record in caplog.records
        if record.thread == threading.get_ident()  # and none of a thread that an earlier test left behind
    ]
    assert retried == "welcome 0190-a, attempt 2/3: ConnectionError: refused; again in 4 s"
    assert lost.startswith("welcome 0190-a, attempt 2/3: its lock ended")
    assert unserved.startswith("7 jobs wait in site:two")


def test_everything_else_is_told() -> None:
    with written() as lines:
        events.promoted("welcome", 3)
        events.claimed([LEASE])
        events.started([a_job()])
        events.ended_elsewhere(LEASE, "completed", RUN)
        events.ended_elsewhere(LEASE, "lost")
        events.recovered(Recovered(LEASE, "failed", error=ERROR))
        emit(events.REFUSED, lease=LEASE, reason="being processed")
        events.duplicate_prevented(LEASE, "page")
        emit(events.HELD_BACK, 100, phase="site:one", next_phase="site:two", queued=200, is_held=True)
        emit(events.REQUESTED, "claims nothing more; 0 running jobs", act="drain", actor="os:anna@host-b")
        emit(events.UNSERVED, "7 jobs wait", phase="site:two", queued=7)
        emit(events.DRAIN_HELD_UP, "until it is resumed", phase="site:two", queued=7, reason="repairs")
        emit(events.LOCK_HELD, holder="worker-2", **FIELDS)
        emit(events.LOCK_TAKEN_OVER, holder="worker-2", **FIELDS)
        emit(events.LOCK_LOST, **FIELDS)
        emit(events.LOCK_DEGRADED, reason="ConnectionError: refused", skipped=3)
        emit(events.LOCK_RESTORED, since="2026-01-01T00:00:00+00:00")
        refused = events.problem(StoreUnreachableError("refused"))
        emit(events.DUTY_FAILING, duty="links", times=3, error=refused)
        emit(events.DUTY_WORKS, duty="links")
        emit(events.STORE_AWAITED, 12.0, seconds_left=12.0, error=refused)
        events.defined(Defined(("a",), (), ("b",)), Defined())
        events.defined(Defined(), Defined(("a",), (), ()))
        tick = Tick(
            "nightly", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), "0190-a", 3
        )
        events.fired(Fired("nightly", "welcome", [tick], 2, is_capped=True))
        events.fired(Fired("nightly", "welcome", (), refused="its expression is none"))
        events.fired(Fired("nightly", "welcome", (), left="its zone is unknown"))
        emit(events.PROCESSOR_REPLACED, lease=LEASE, processor="welcome-processor-1", reason="time limit")
        events.overdue(a_job(), 0.5, "thread")
        events.raised_after_end(LEASE, ERROR)
        emit(events.RESULT_DROPPED, lease=LEASE)
        emit(
            events.ENQUEUED_IN_ATOMIC,
            kind="welcome",
            database="default",
            reason="it may run before the commit",
        )
        emit(events.CHUNK_RETRIED, 1, 3, lease=LEASE, chunk=7, reason="slow", delay_seconds=0.5)
        emit(events.CALL_RETRIED, 1, 3, lease=LEASE, call="fetch", reason="slow", delay_seconds=0.5)
        emit(events.REQUEST_UNKNOWN, job_id="0190-a", correlation_id="req-7")
        emit(events.LEVEL_UNUSED, wanted="debug")
        emit(events.METRICS_LISTENING, url="http://127.0.0.1:9100")
        emit(events.PROCESS_ENDED, place=2, reason="was killed by SIGKILL", seconds=12.3, pause_seconds=0.25)
        emit(events.POLICY_BROKEN, lease=LEASE, reason="ZeroDivisionError: division by zero")
        events.executor_failed("threads", "can't start new thread; 3 jobs wait for a thread", ())
        events.executor_failed("loop", "TypeError: a coroutine was expected", [a_job()])
        emit(events.MIDDLEWARE_FAILED, "failed", lease=LEASE, middleware="timed", reason="ValueError: no")
        emit(events.MIDDLEWARE_MISSING, middleware="timed")
        emit(events.REPORTER_FAILED, reporter="to_sentry", reason="OSError: no line")
        emit(events.INSTANCE_STARTED, "a, b", instance="i-1", phases=["a", "b"])
        emit(events.INSTANCE_STOPPING, instance="i-1", running=7, grace_seconds=30.0)
        emit(events.INSTANCE_STOPPED, instance="i-1")
        events.left_behind(["asyncio_0"], ["Process-1", "Process-2"])
        emit(events.RETENTION, "keeps all ended jobs", completed=None)
        emit(events.PRUNED, "", removed=1_000, seconds=1.0)
        emit(events.SELF_STOPPED, instance="i-1")
        emit(events.LEASE_LOST, instance="i-1", reason="other instances declared it dead")
        events.loop_blocked(LEASE, 1.25, 'File "work.py", line 7\n    time.sleep(9)')
        events.loop_blocked(None, 1.25, "")
        events.health("ok", {})
        events.health("degraded", {"listener": "polling"})
        emit(events.STORE_CHOSEN, database="sqlite:///jobs.db", origin="code")
        events.store_unreachable(StoreUnreachableError("connection refused"), quiet=Quiet())
        events.store_back(quiet=Quiet())
        emit(events.SUMMARY, "7 completed")
    found = {line["event"]: logging.getLevelNamesMapping()[line["level"].upper()] for line in lines.objects}
    by_ends = {
        "job.completed",
        "job.advanced",
        "job.retried",
        "job.failed",
        "job.cancelled",
        "job.released",
        "job.lost",
    }
    assert set(found) | by_ends == set(LEVELS)
    found["instance.health"] = logging.INFO
    assert found == {name: level for name, level in LEVELS.items() if name in found}
    by_name = {line["event"]: line for line in lines.objects}
    assert by_name["job.recovered"]["fields"] == {"verdict": "failed"}
    assert by_name["job.recovered"]["error"]["code"] == "exception"
    for name in ("job.recovered", "duplicate.prevented", "lock.held", "lock.taken_over", "lock.lost"):
        assert {key: by_name[name].get(key) for key in JOB} == JOB, name
    assert by_name["job.refused"]["fields"] == {"reason": "being processed"}
    assert by_name["lock.degraded"]["fields"] == {"reason": "ConnectionError: refused", "skipped": 3}
    assert by_name["instance.stopping"]["fields"] == {"running": 7, "grace_seconds": 30.0}
    assert by_name["instance.started"]["instance"] == "i-1"
    assert by_name["store.unreachable"]["error"]["code"] == "store_unreachable"
    blocked = next(line for line in lines.objects if line["event"] == "loop.blocked")
    assert blocked["job_id"] == "0190-a" and "time.sleep(9)" in blocked["fields"]["stack"]


def test_the_database_is_complained_about_once_a_second() -> None:
    now = [0.0]
    quiet = Quiet(1.0, lambda: now[0])
    with written() as lines:
        for tenth in range(25):
            now[0] = tenth / 10
            events.store_unreachable(StoreUnreachableError("refused"), quiet=quiet)
    assert [line.get("fields", {}).get("skipped") for line in lines.objects] == [None, 9, 9]


def test_what_is_not_shown_costs_nothing() -> None:
    """DEBUG is off: nobody looks at the jobs of a batch."""

    class Untouched(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("a job of the batch was looked at")

    with written(level="info") as lines:
        assert not log.isEnabledFor(logging.DEBUG) and log.isEnabledFor(logging.INFO)
        outcome = Completed(LEASE)
        events.started(Untouched([a_job()]))
        events.claimed(Untouched([LEASE]))
        events.ended(outcome, "completed")
        events.ended_elsewhere(LEASE, "completed")
    assert lines.text == ""


def test_a_hostile_job_stays_on_its_line() -> None:
    bad = "x\n12:00:00.000 INFO  forged \x1b[2J"
    lease = replace(LEASE, id=bad, kind=bad, phase=bad, correlation_id=bad)
    error = JobError(type=bad, code=bad, message=bad, traceback=bad)
    for style in ("json", "console"):
        with written(style) as lines:
            events.ended(Failed(lease, error), "failed")
            events.recovered(Recovered(lease, bad, error=error))
            events.loop_blocked(lease, 1.0, bad)
        assert len(lines.heads) == 3 and "\x1b" not in lines.text


def test_every_call_has_what_the_text_of_its_event_needs() -> None:
    """A text is a format string: a field that it names and a call does not give would raise where the event is written."""
    calls = [call for path in ROOT.glob("src/windlass/**/*.py") for call in _emits(path)]
    assert {name for _, name, _, _ in calls} >= {"LEASE_LOST", "PROCESS_ENDED", "LOCK_DEGRADED", "CLAIMED"}
    for place, name, words, fields in calls:
        text = EVENTS[name].text
        used = {
            re.split(r"[.\[]", field)[0]
            for _, field, _, _ in string.Formatter().parse(text)
            if field is not None
        }
        numbers = {int(field) for field in used if field.isdigit()}
        missing = {field for field in used if not field.isdigit()} - fields
        assert "**" in fields or not missing, f"{place}: {name} needs {missing}"
        assert len(numbers) <= words, f"{place}: {name} has {len(numbers)} words in its text"


def _emits(path: Path) -> Iterator[tuple[str, str, int, set[str]]]:
    """Each call of ``emit`` that names its event: where, the event, how many words, which fields."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        names = [one.id if isinstance(one, ast.Name) else "" for one in (node.func, *node.args[:1])]
        at = 1 if names == ["partial", "emit"] else 0
        if names[at] not in ("emit", "_emit") or len(node.args) <= at:
            continue
        fields = {keyword.arg or "**" for keyword in node.keywords}
        if "lease" in fields:
            fields |= set(JOB)
        for part in ast.walk(node.args[at]):  # one event, or one of two by a condition
            name = (
                part.attr
                if isinstance(part, ast.Attribute)
                else part.id
                if isinstance(part, ast.Name)
                else ""
            )
            if name in EVENTS:
                yield f"{path.name}:{node.lineno}", name, len(node.args) - 1 - at, fields
