"""Reasons that hold for a whole phase: it is paused, or no instance serves it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.control.why.codes import Why, WhyCode
from windlass.control.why.facts import Facts
from windlass.control.why.texts import are, clock, many, said, since, until


def phase_reasons(facts: Facts) -> Iterator[Why]:
    """Why no job of the phase is claimed."""
    yield from paused(facts)
    yield from unserved(facts)


def paused(facts: Facts) -> Iterator[Why]:
    pause, job = facts.pause, facts.job
    if pause is None:
        return
    details: dict[str, Any] = {"phase": job.phase, "since": pause.since.isoformat()}
    details["until"] = None if pause.until is None else pause.until.isoformat()
    by = ""
    if facts.scope.is_all:  # the reason and the person may name other people's jobs
        details |= {"by": pause.by, "reason": said(pause.reason)}
        by = f" by {said(pause.by)}" if pause.by else ""
    reason = f" ({details['reason']})" if details.get("reason") else ""
    end = "until it is resumed" if pause.until is None else f"until {until(pause.until, job.now)}"
    yield Why(
        WhyCode.PAUSED,
        f"the phase {job.phase} is paused{by} since {clock(pause.since, job.now)}{reason}, {end}",
        details,
    )


def unserved(facts: Facts) -> Iterator[Why]:
    fleet, job = facts.fleet, facts.job
    if fleet.serving(job.phase):
        return
    late = [
        member
        for member in fleet.members.values()
        if not member.is_alive(job.now) and member.serves(job.phase)
    ]
    alive = len(fleet.alive)
    details: dict[str, Any] = {"phase": job.phase, "instances": alive, "late": len(late)}
    others = f"{many(alive, 'instance')} {are(alive)} alive" if alive else "no instance is alive"
    lost = ""
    if late:
        beat = max(member.instance.heartbeat_at for member in late)
        details["last_heartbeat"] = beat.isoformat()
        lost = f"; the last one that did was last heard of at {since(beat, job.now)}"
    yield Why(
        WhyCode.NO_INSTANCE,
        f"no living instance serves the phase {job.phase} ({others}){lost}; start a worker that serves it",
        details,
    )
