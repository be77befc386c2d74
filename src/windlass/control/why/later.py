"""Reasons of jobs that are not in their queue yet: their time, their parents, upkeep, a limit, a rate."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from windlass.control.why.codes import Why, WhyCode
from windlass.control.why.ended import error_text
from windlass.control.why.facts import Facts
from windlass.control.why.phase import phase_reasons
from windlass.control.why.queued import locked
from windlass.control.why.texts import CAP, are, many, named, said, since, until
from windlass.model import Flag, has_flag


def later_reasons(facts: Facts) -> Iterator[Why]:
    """Why a job is not in its queue."""
    job = facts.job
    is_due = job.at <= job.now
    match job.reason:
        case "waiting" | "unlinked":
            yield dependencies(facts)
            if not is_due:
                yield scheduled(facts)
        case "limited":
            yield limited(facts)
        case "paced":
            yield paced(facts)
        case "retry" if (job.error or {}).get("code") == "lock_refused":
            yield lock_refused(facts)
        case "retry" if not is_due:
            yield retry(facts)
        case "scheduled" if not is_due:
            yield scheduled(facts)
        case _:
            yield not_promoted(facts)
    if job.reason != "limited" and has_flag(job.flags, Flag.LIMIT) and facts.limit and facts.limit.is_full:
        yield limited(facts)
    yield from phase_reasons(facts)


def scheduled(facts: Facts) -> Why:
    job = facts.job
    return Why(
        WhyCode.SCHEDULED,
        f"is scheduled for {until(job.at, job.now)}",
        {"run_at": job.at.isoformat()},
    )


def retry(facts: Facts) -> Why:
    job = facts.job
    error, details = error_text(facts)
    comma = "," if error else ""
    return Why(
        WhyCode.RETRY,
        f"retries at {until(job.at, job.now)}, attempt {job.attempt + 1} of {job.max_attempts}{comma}{error}",
        {
            "run_at": job.at.isoformat(),
            "attempt": job.attempt + 1,
            "max_attempts": job.max_attempts,
            "error": details,
        },
    )


def lock_refused(facts: Facts) -> Why:
    """A worker claimed the job, could not get its lock, and put it off."""
    known = next(locked(facts, facts.fleet.serving(facts.job.phase)), None)
    sentence = "another process held its lock; a worker tries again every second"
    if known is None and facts.scope.is_all and facts.job.error:
        sentence = said(facts.payload.words(facts.job.error.get("message") or sentence))
    return known or Why(WhyCode.LOCK_HELD, sentence, {"run_at": facts.job.at.isoformat()})


def not_promoted(facts: Facts) -> Why:
    job, alive = facts.job, len(facts.fleet.alive)
    if job.reason == "inbox":
        was = "was enqueued in a transaction of its caller"
    else:
        was = f"is due since {since(job.at, job.now)}"
    then = (
        "the next round of upkeep of a worker moves it into its queue"
        if alive
        else "no instance is alive that moves it into its queue; start a worker"
    )
    return Why(WhyCode.NOT_PROMOTED, f"{was}; {then}", {"due_at": job.at.isoformat(), "instances": alive})


def dependencies(facts: Facts) -> Why:
    job = facts.job
    total, shown = facts.parents()
    details: dict[str, Any] = {
        "pending": job.pending,
        "parents": total,
        "jobs": [{"id": parent, "state": state} for parent, state in shown],
    }
    left = named([f"{parent} ({state})" for parent, state in shown], job.pending)
    sentence = f"waits for {job.pending:,} of {many(total)}: {left}"
    failed = [parent for parent, state in shown if state in ("failed", "cancelled")]
    if failed:
        sentence += f"; {named(failed, len(failed))} did not complete and has to be retried"
    elif job.reason == "unlinked":
        details["linked"] = False
        sentence += "; the next round of upkeep of a worker notes which of them have ended"
    return Why(WhyCode.DEPENDENCIES, sentence, details)


def limited(facts: Facts) -> Why:
    job, limit = facts.job, facts.limit
    if limit is None:
        return Why(
            WhyCode.LIMIT,
            "waits for a place of its concurrency limit; the next round of upkeep of a worker gives it one",
            {"phase": job.phase},
        )
    shown = facts.holders(limit.key)
    before = facts.before_at_gate() if job.gate is not None else 0
    details: dict[str, Any] = {
        "phase": job.phase,
        "key": said(facts.payload.words(limit.key) if limit.key else ""),
        "limit": limit.limit,
        "taken": limit.taken,
        "held_by": list(shown),
        "before": before,
    }
    of = f"of key {details['key']!r} in phase {job.phase}" if limit.key else f"of phase {job.phase}"
    if limit.is_full:
        sentence = (
            f"the limit {of} is full: {limit.taken:,} of {limit.limit:,} places {are(limit.taken)} taken, "
            f"by {named(shown, limit.taken)}"
        )
        sentence += (
            f"; {many(before)} {'waits' if before == 1 else 'wait'} for a place before it" if before else ""
        )
        sentence += "; it gets the first place that becomes free" if not before else ""
    else:
        sentence = f"the limit {of} has a free place; the next round of upkeep of a worker gives it one"
    return Why(WhyCode.LIMIT, sentence, details)


def paced(facts: Facts) -> Why:
    job, limit = facts.job, facts.limit
    before = facts.before_by_rate()
    details: dict[str, Any] = {"phase": job.phase, "before": before}
    if limit is None or limit.rate is None:
        return Why(
            WhyCode.RATE,
            f"the rate of phase {job.phase} was lifted; the next round of upkeep of a worker moves it into its queue",
            details,
        )
    wait = max(0.0, before + 1 - limit.tokens) / limit.rate
    free_at = job.now + timedelta(seconds=min(wait, 1e9))
    details |= {"per_second": limit.rate, "free_at": free_at.isoformat()}
    rate = f"{limit.rate:.3g} a second" if limit.rate >= 0.1 else f"{limit.rate * 3600:.3g} an hour"
    if wait > 0:
        bound = "not before " if before >= CAP else "at about "
        then = f"{many(before)} {are(before)} before it, and its turn comes {bound}{until(free_at, job.now)}"
    else:
        then = "its turn has come, and the next round of upkeep of a worker moves it into its queue"
    return Why(WhyCode.RATE, f"waits for the rate of phase {job.phase}, {rate}; {then}", details)
