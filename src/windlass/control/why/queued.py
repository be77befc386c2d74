"""Reasons of jobs that are in their queue and not claimed: what keeps each instance from claiming them, and the jobs ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from windlass.control.why.codes import Why, WhyCode
from windlass.control.why.facts import Facts, JobFacts
from windlass.control.why.fleet import Member, mapping
from windlass.control.why.phase import phase_reasons
from windlass.control.why.texts import CAP, are, many, said, since, span, until
from windlass.model import Flag, has_flag


def queued_reasons(facts: Facts) -> Iterator[Why]:
    """Why a queued job is not claimed."""
    found = [*phase_reasons(facts)]
    serving = facts.fleet.serving(facts.job.phase)
    found += locked(facts, serving)
    found += _held_back(facts, serving)
    yield from found
    count = facts.ahead()
    if count or not found:
        yield _ahead(facts, count, serving, is_only=not found)


def _held_back(facts: Facts, serving: Sequence[Member]) -> Iterator[Why]:
    """What keeps instances from claiming the job, if something keeps every one of them from it."""
    job = facts.job
    blocks = [(member, _blocks(job, member)) for member in serving]
    if not blocks or not all(found for _, found in blocks):
        return
    for code, why in (
        (WhyCode.BACKPRESSURE, _backpressure),
        (WhyCode.QUIET, _quiet),
        (WhyCode.ISOLATED, waits_for_process),
        (WhyCode.INSTANCE_CAP, cap_full),
    ):
        members = [member for member, found in blocks if code in found]
        if members:
            yield why(facts, members)


def _blocks(job: JobFacts, member: Member) -> set[WhyCode]:
    """Why one instance does not claim the job, by its board."""
    found = set()
    if mapping(member.phase(job.phase).get("held")):
        found.add(WhyCode.BACKPRESSURE)
    if job.at + timedelta(seconds=member.number("quiet")) > job.now:
        found.add(WhyCode.QUIET)
    if has_flag(job.flags, Flag.SUSPECT) and member.facts.get("isolated_waiting"):
        found.add(WhyCode.ISOLATED)
    if member.facts.get("full") is True:
        found.add(WhyCode.INSTANCE_CAP)
    return found


def _backpressure(facts: Facts, members: Sequence[Member]) -> Why:
    held: Mapping[str, Any] = members[0].phase(facts.job.phase)["held"]
    following, queued, most = held.get("next"), held.get("queued"), held.get("most")
    return Why(
        WhyCode.BACKPRESSURE,
        f"the phase {facts.job.phase} is held back, because {following} is full ({queued} jobs wait there, at most {most} may); "
        "it is claimed when that phase has caught up",
        {"phase": facts.job.phase, "next": following, "queued": queued, "most": most, **_on(members)},
    )


def _quiet(facts: Facts, members: Sequence[Member]) -> Why:
    job = facts.job
    quiet = min(member.number("quiet") for member in members)
    claimed_at = job.at + timedelta(seconds=quiet)
    return Why(
        WhyCode.QUIET,
        f"became ready less than {span(quiet)} ago, and is not claimed before {until(claimed_at, job.now)}",
        {
            "ready_at": job.at.isoformat(),
            "quiet": quiet,
            "claimed_from": claimed_at.isoformat(),
            **_on(members),
        },
    )


def waits_for_process(facts: Facts, members: Sequence[Member]) -> Why:
    """A job that was running when its process died runs where only it can die; there are few such places."""
    running = sum(int(member.number("isolated")) for member in members)
    return Why(
        WhyCode.ISOLATED,
        "was running at deaths of its process, so it runs in a process of its own; "
        f"{many(running)} {are(running)} running like that, and it begins when one of them has ended",
        {"running": running, **_on(members)},
    )


def cap_full(facts: Facts, members: Sequence[Member]) -> Why:
    """The instances run as many jobs as ``max_concurrent_calls`` allows."""
    caps = [member.facts.get("max_concurrent_calls") for member in members]
    running = sum(int(member.number("running")) for member in members)
    of = f"of at most {caps[0]}" if len(members) == 1 else f"on {len(members)} instances"
    return Why(
        WhyCode.INSTANCE_CAP,
        f"its instances run as many jobs as they may ({running} {of}); it begins when one of them has ended",
        {"running": running, "max_concurrent_calls": caps, **_on(members)},
    )


def locked(facts: Facts, members: Sequence[Member]) -> Iterator[Why]:
    """Another process holds the lock of the job, or the lock server is away."""
    job = facts.job
    refused = [member for member in members if member.has("lock_refused", job.id)]
    if refused:
        listed = refused[0].facts["lock_refused"]
        holder = listed.get(job.id) if isinstance(listed, Mapping) and facts.scope.is_all else None
        by = f", {said(holder)}," if holder else ""
        details = {"holder": said(holder)} if holder else {}
        yield Why(
            WhyCode.LOCK_HELD,
            f"another process{by} holds its lock; a worker tries again every second",
            {**details, **_on(refused)},
        )
    elif members and all(member.facts.get("lock_fault") is True for member in members):
        yield Why(
            WhyCode.LOCK_HELD,
            "locks are required, and none can be acquired (the health report says why); it is claimed when the lock server is back",
            {"fault": True, **_on(members)},
        )


def _ahead(facts: Facts, count: int, serving: Sequence[Member], *, is_only: bool) -> Why:
    job = facts.job
    rate = facts.per_second()
    details: dict[str, Any] = {
        "phase": job.phase,
        "ahead": count,
        "capped": count >= CAP,
        "per_second": round(rate, 3),
        "ready_at": job.at.isoformat(),
    }
    sentence = f"{many(count)} {are(count)} ahead of it in the queue of {job.phase}"
    if count == 0:
        sentence = f"is the next job in the queue of {job.phase}, ready since {since(job.at, job.now)}"
    phases = [member.phase(job.phase) for member in serving]
    if is_only and all("size" in phase for phase in phases):
        size, busy = (sum(int(phase.get(name) or 0) for phase in phases) for name in ("size", "busy"))
        details |= {"processors": size, "busy": busy}
        sentence += f"; {busy} of {many(size, 'processor')} {are(size)} busy"
    if rate and count:
        wait = min(count / rate, 1e9)
        sentence += f", and about {rate:.3g} jobs a second end"
        if is_only:  # else nothing begins before the other reasons are gone
            start = job.now + timedelta(seconds=wait)
            details["starts_at"] = start.isoformat()
            sentence += f": it starts {'not before' if count >= CAP else 'at about'} {until(start, job.now)}"
    elif is_only:
        sentence += "; it starts when a processor is free"
    return Why(WhyCode.AHEAD, sentence, details)


def _on(members: Sequence[Member]) -> dict[str, Any]:
    """The instances that a reason is known from, and since when it is known."""
    times = [member.board_at for member in members if member.board_at is not None]
    return {
        "instances": [member.id for member in members],
        "as_of": max(times).isoformat() if times else None,
    }
