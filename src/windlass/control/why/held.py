"""Jobs that an instance holds: they run, wait in its memory, are to stop, or their holder is dead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.control.why.codes import Why, WhyCode
from windlass.control.why.facts import Facts
from windlass.control.why.fleet import Member
from windlass.control.why.phase import unserved
from windlass.control.why.queued import cap_full, locked, waits_for_process
from windlass.control.why.texts import clock, many, said, since


def held_reasons(facts: Facts) -> Iterator[Why]:
    """What a held job does or waits for."""
    job = facts.job
    member = facts.fleet.members.get(job.instance or "")
    is_alive = member is not None and member.is_alive(job.now)
    if not is_alive:
        yield _lease_expired(facts, member)
    if job.cancel_at is not None:
        yield _cancel_requested(facts, is_alive=is_alive)
    if is_alive and member is not None:
        yield from _on_holder(facts, member)
    else:
        yield from unserved(facts)


def _lease_expired(facts: Facts, member: Member | None) -> Why:
    job = facts.job
    details: dict[str, Any] = {"instance": job.instance, "instances": len(facts.fleet.alive)}
    if member is None:
        sentence = "the instance that held it is gone"
    else:
        one = member.instance
        over = one.heartbeat_at + one.lease if one.dead_at is None else one.dead_at
        details |= {"heartbeat_at": one.heartbeat_at.isoformat(), "lease_ended_at": over.isoformat()}
        what = "lease ended" if one.dead_at is None else "end was noted"
        sentence = f"the instance {job.instance} held it, and its {what} at {clock(over, job.now)}"
    if facts.fleet.alive:
        sentence += "; recovery is due: a living instance puts the job back into its queue within seconds"
    else:
        sentence += "; no instance is alive that puts it back into its queue: start a worker"
    return Why(WhyCode.LEASE_EXPIRED, sentence, details)


def _cancel_requested(facts: Facts, *, is_alive: bool) -> Why:
    job = facts.job
    assert job.cancel_at is not None
    reason = said(job.cancel_reason) if job.cancel_reason else None
    because = f" ({reason})" if reason else ""
    then = (
        f"instance {job.instance} stops it at the next chance"
        if is_alive
        else "recovery ends it, because its instance is dead"
    )
    return Why(
        WhyCode.CANCEL_REQUESTED,
        f"a cancel was requested at {clock(job.cancel_at, job.now)}{because}; {then}",
        {"requested_at": job.cancel_at.isoformat(), "reason": reason, "instance": job.instance},
    )


def _on_holder(facts: Facts, member: Member) -> Iterator[Why]:
    job = facts.job
    processor = member.processor_of(job.id)
    if processor is None:
        if member.has("isolated_waiting", job.id):
            yield waits_for_process(facts, [member])
            return
        if member.has("lock_refused", job.id):
            yield from locked(facts, [member])
            return
    waits = processor is None and _waits_in_memory(facts, member)
    if waits and member.facts.get("full") is True:
        yield cap_full(facts, [member])
        return
    yield _processing(facts, member, None if processor is None else processor.get("name"), waits=waits)


def _waits_in_memory(facts: Facts, member: Member) -> bool:
    """Whether the board was written after the claim and shows jobs in memory, and this one on no processor."""
    job = facts.job
    if member.board_at is None or job.claimed_at is None or member.board_at <= job.claimed_at:
        return False
    return bool(member.phase(job.phase).get("queue"))


def _processing(facts: Facts, member: Member, processor: object, *, waits: bool) -> Why:
    job = facts.job
    assert job.claimed_at is not None
    details: dict[str, Any] = {
        "since": job.claimed_at.isoformat(),
        "instance": job.instance,
        "processor": processor,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "lease_until": (member.instance.heartbeat_at + member.instance.lease).isoformat(),
    }
    if waits:
        phase = member.phase(job.phase)
        details["waits_in_memory"] = True
        size = int(phase.get("size") or 0)
        return Why(
            WhyCode.PROCESSING,
            f"was claimed by instance {job.instance} at {clock(job.claimed_at, job.now)}, and begins when one of its "
            f"{many(size, 'processor')} of {job.phase} is free",
            details,
        )
    where = f"{processor} of instance {job.instance}" if processor else f"instance {job.instance}"
    return Why(
        WhyCode.PROCESSING,
        f"is processing since {since(job.claimed_at, job.now)} on {where}, attempt {job.attempt} of {job.max_attempts}",
        details,
    )
