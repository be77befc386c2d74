"""Computes from a report whether an instance is live and ready, and the state of its parts.

Live: a restart of the process would not help. Ready: the instance can run jobs. A database that does not answer makes an instance unready
but not dead: it holds outcomes in memory that a restart would lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from windlass.model import Counts, PhasePause, history
from windlass.observe.report import EngineReport

OK, DEGRADED, DOWN = "ok", "degraded", "down"
_ADVICE = {
    "history": history.ADVICE,
    "partitions": history.OWNER_ADVICE,
    "duty": "Check the cause; if other instances have it, too, this work is not done meanwhile. The duty is tried again.",
    "phase": "Start a worker that serves it, or deploy its handler again.",
    "executor": "Its jobs go back to their queue and are tried again. Check the log line executor.failed, the memory of this "
    "machine, and the limits of this process for threads, processes and open files (ulimit -u, -n); then restart it.",
}


@dataclass(frozen=True, slots=True)
class Result:
    """Whether a check passed, and the reasons if not."""

    is_well: bool
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_well


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an instance: its state (ok, degraded or down), what was observed, and what to do about it."""

    name: str
    state: str
    seen: str
    advice: str = ""


LISTED = 10
"""At most this many processors in error are named."""


def live(report: EngineReport) -> Result:
    """Whether the process should be left running."""
    reasons = []
    if report.state == "stopped":
        reasons.append("the instance has stopped")
    if _is_hung(report):
        reasons.append(f"the step thread has made no step for {report.last_step_seconds_ago:.0f} s")
    return Result(not reasons, tuple(reasons))


def ready(report: EngineReport) -> Result:
    """Whether the instance claims and runs jobs now."""
    reasons = [*live(report).reasons]
    if report.state not in ("running", "stopped"):
        reasons.append(f"the instance is {report.state}")
    if not report.store_reachable:
        reasons.append("the database does not answer")
    if report.state == "running" and report.lease_left <= 0:
        reasons.append("the lease is over")
    if report.lock_fault:
        reasons.append("locks are required and cannot be acquired")
    return Result(not reasons, tuple(reasons))


def detailed(
    report: EngineReport,
    counts: Mapping[str, Counts] | None = None,
    paused: Sequence[PhasePause] | None = None,
) -> dict[str, Any]:
    """The complete report, as JSON; ``counts`` are the jobs in the database, by phase and state, ``paused`` the phases that an operator
    paused. A pause is no fault: it does not change the status."""
    parts = list(_parts(report))
    found: dict[str, Any] = {
        "status": status(report),
        "live": bool(live(report)),
        "ready": bool(ready(report)),
        "instance": report.instance,
        "state": report.state,
        "started_at": report.started_at.isoformat(),
        "parts": {part.name: _shown(part) for part in parts},
        "phases": {name: asdict(phase) for name, phase in report.phases.items()},
    }
    if counts is not None:
        found["jobs"] = {name: asdict(number) for name, number in counts.items()}
    if paused is not None:
        found["paused"] = {
            pause.phase: {
                "reason": pause.reason,
                "since": pause.since.isoformat(),
                "until": None if pause.until is None else pause.until.isoformat(),
            }
            for pause in paused
        }
    return found


def status(report: EngineReport) -> str:
    """The status of the instance: that of its worst part."""
    states = {part.state for part in _parts(report)}
    return DOWN if DOWN in states else DEGRADED if DEGRADED in states else OK


def unwell(report: EngineReport) -> dict[str, str]:
    """The parts that are not ok, with what was observed; for the log line of the health check."""
    return {part.name: part.seen for part in _parts(report) if part.state != OK}


def faults(report: EngineReport) -> Sequence[Part]:
    """The parts that are not ok, for other processes. Left out are the engine, whose state they know, and phases without an instance, which are no
    fault of this instance."""
    return [
        part
        for part in _parts(report)
        if part.state != OK and part.name != "engine" and not part.name.startswith("phase ")
    ]


def states(report: EngineReport) -> dict[str, str]:
    """Every part with its state, for the metrics."""
    return {part.name: part.state for part in _parts(report)}


# ---------------------------------------------------------------------- the parts


def _parts(report: EngineReport) -> Iterator[Part]:
    reasons = dict(_part_and_reason(line) for line in report.degraded)
    yield _engine(report)
    yield _store(report, reasons.pop("store", ""))
    yield _listener(report, reasons.pop("listener", ""))
    yield _lease(report, reasons.pop("lease", ""))
    yield _loop(report, reasons.pop("loop", ""))
    yield _pools(report, reasons.pop("pools", ""))
    yield _lock(report, reasons.pop("redis lock", ""))
    for name, reason in reasons.items():
        yield Part(name, DEGRADED, reason, _ADVICE.get(name.partition(" ")[0], ""))
    for name, note in map(_part_and_reason, report.notes):
        yield Part(name, OK, note, _ADVICE.get(name, ""))


def _engine(report: EngineReport) -> Part:
    if _is_hung(report):
        seen = f"the step thread has made no step for {report.last_step_seconds_ago:.0f} s"
        return Part("engine", DOWN, seen, "Restart this process; other instances recover its jobs.")
    if report.state != "running":
        advice = {"starting": "Wait.", "stopping": "Wait: running jobs are given time to finish."}
        return Part(
            "engine", DOWN, f"the instance is {report.state}", advice.get(report.state, "Start it again.")
        )
    return Part("engine", OK, "running")


def _store(report: EngineReport, reason: str) -> Part:
    if report.store_reachable:
        return Part("store", DEGRADED, reason) if reason else Part("store", OK, "the database answers")
    advice = "Check the database server, its address and the network; outcomes are kept in memory and written when it is back."
    return Part("store", DOWN, reason or "the database does not answer", advice)


def _listener(report: EngineReport, reason: str) -> Part:
    if reason:
        advice = "Jobs start up to a second later. Behind a pooler, give a direct URL for listening."
        return Part("listener", DEGRADED, reason, advice)
    if report.listening:
        return Part("listener", OK, "notifications arrive")
    is_over = report.state == "stopped"
    return Part("listener", OK, "not listening any more" if is_over else "not listening yet")


def _lease(report: EngineReport, reason: str) -> Part:
    if report.state in ("starting", "stopped"):
        return Part("lease", OK, "nothing is held")
    if report.lease_left <= 0:
        advice = (
            "No jobs are claimed until a heartbeat succeeds; check the database and the load of this machine."
        )
        return Part("lease", DOWN, reason or "the lease is over", advice)
    seen = f"{report.lease_left:.0f} s left"
    if reason:
        return Part("lease", DEGRADED, reason, "Check the database and the load of this machine.")
    return Part("lease", OK, seen)


def _loop(report: EngineReport, reason: str) -> Part:
    if report.loop_lag < report.loop_limit and not reason:
        return Part("loop", OK, "the event loop answers")
    seen = reason or "a handler blocks the event loop"
    advice = "The log line loop.blocked names the job and the line; await there, or make the handler a sync function."
    return Part("loop", DEGRADED, f"{seen} ({report.loop_lag:.1f} s)", advice)


def _pools(report: EngineReport, reason: str) -> Part:
    in_error = [
        name
        for label, phase in report.phases.items()
        for name in phase.in_error or ([f"{phase.error} of {label}"] if phase.error else [])
    ]
    if not in_error:
        return Part("pools", DEGRADED, reason) if reason else Part("pools", OK, "no processor is in error")
    more = f" and {len(in_error) - LISTED} more" if len(in_error) > LISTED else ""
    listed = ", ".join(in_error[:LISTED]) + more
    advice = (
        "Their jobs exceeded the time limit and have not stopped; other processors replace them, but their threads still run. "
        "Check ctx.should_stop in these handlers, or run them with executor='process'."
    )
    return Part("pools", DEGRADED, f"processors in error: {listed}", advice)


def _lock(report: EngineReport, reason: str) -> Part:
    if report.lock_fault:
        advice = "No job runs until Redis answers, because background.redis_lock_required is true. Check Redis and redis.url."
        return Part("redis lock", DOWN, f"locks are required, so no job runs: {report.lock_fault}", advice)
    if not reason:
        return Part("redis lock", OK, "no trouble reported")
    advice = "Requests are locked inside each process only; the database still lets each job run once. Check Redis."
    return Part("redis lock", DEGRADED, reason, advice)


def _is_hung(report: EngineReport) -> bool:
    """Whether the step thread hangs. While the database is away, the thread waits for it: no reason to end the process."""
    limit = report.step_limit
    is_judged = limit is not None and report.store_reachable and report.state in ("running", "stopping")
    return is_judged and limit is not None and report.last_step_seconds_ago > limit


def _part_and_reason(line: str) -> tuple[str, str]:
    name, _, reason = line.partition(": ")  # names of phases contain colons, too
    return name.strip(), reason.strip() or "degraded"


def _shown(part: Part) -> dict[str, str]:
    shown = {"state": part.state, "seen": part.seen}
    return {**shown, "advice": part.advice} if part.advice else shown
