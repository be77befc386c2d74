"""Checks whether the jobs that wait have instances that serve them, and whether instances died."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from windlass.control.doctor.findings import Finding
from windlass.control.why.fleet import Fleet, Member, read_fleet
from windlass.features import Store
from windlass.model import Counts

LATE = 60.0
"""Seconds after the end of a lease from when on its recovery is late, while other instances live."""


def check_instances(store: Store) -> Iterator[Finding]:
    """Phases without an instance, leases that ran out, and claims of dead instances."""
    now = store.now()
    fleet = read_fleet(store, now)
    yield from _unserved(store, fleet)
    claims = {str(instance): count for instance, count in store.db.read("claims.count")}
    for member in fleet.members.values():
        one = member.instance
        if one.dead_at is None and not member.is_alive(now):
            yield _expired(member, claims.get(member.id, 0), now, bool(fleet.alive))
        elif one.dead_at is not None and claims.get(member.id) and _age(one.dead_at, now) >= LATE:
            yield Finding.error(
                "recovery.due",
                f"The instance {_named(member)} died {_ago(one.dead_at, now)}, and its jobs are not recovered yet.",
                _recovery_cure(bool(fleet.alive)),
            )


def _unserved(store: Store, fleet: Fleet) -> Iterator[Finding]:
    paused = {pause.phase: pause for pause in store.phases.paused()}
    for phase, counts in sorted(store.phases.counts().items()):
        if not (left := _open(counts)):
            continue
        if not fleet.serving(phase):
            severity = Finding.error if counts.queued or counts.processing else Finding.warning
            yield severity(
                "phase.unserved",
                f"The phase {phase} has {_jobs(left)} ({counts.queued:,} queued), and no living instance serves it.",
                f"Start a worker that serves it: windlass worker APP --phase {phase}.",
            )
        if phase in paused:
            yield Finding.note(
                "phase.paused",
                f"The phase {phase} is paused and has {_jobs(left)}: {paused[phase].reason}",
                f"windlass phases resume {phase}",
            )


def _jobs(left: int) -> str:
    return f"{left:,} open job{'' if left == 1 else 's'}"


def _open(counts: Counts) -> int:
    return counts.waiting + counts.scheduled + counts.queued + counts.processing


def _expired(member: Member, claims: int, now: datetime, others_live: bool) -> Finding:
    one = member.instance
    ended = one.heartbeat_at + one.lease
    holds = f"; it holds {claims:,} claims" if claims else ""
    is_late = not others_live or _age(ended, now) >= LATE
    severity = Finding.error if is_late and claims else Finding.warning
    return severity(
        "lease.expired",
        f"The lease of the instance {_named(member)} ran out {_ago(ended, now)}{holds}.",
        _recovery_cure(others_live),
    )


def _recovery_cure(others_live: bool) -> str:
    if others_live:
        return "Living workers recover its jobs within seconds. If this stays, read their logs for errors of recovery."
    return "Start a worker: it recovers the jobs at its start."


def _named(member: Member) -> str:
    info = member.instance.info
    where = f" ({info['host']}, process {info['pid']})" if "host" in info and "pid" in info else ""
    return f"{member.id}{where}"


def _age(moment: datetime, now: datetime) -> float:
    return (now - moment).total_seconds()


def _ago(moment: datetime, now: datetime) -> str:
    seconds = max(0.0, _age(moment, now))
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
