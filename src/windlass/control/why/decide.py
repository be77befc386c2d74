"""From the facts about a job to the reasons, the most decisive first."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.control.why.codes import PRECEDENCE, Why, WhyCode
from windlass.control.why.ended import ended_reasons
from windlass.control.why.facts import Facts
from windlass.control.why.held import held_reasons
from windlass.control.why.later import later_reasons
from windlass.control.why.queued import queued_reasons
from windlass.control.why.texts import said


def decide(facts: Facts, job_id: str) -> Why:
    """Why a job is not running."""
    if not facts.find(job_id):
        return Why(
            WhyCode.UNKNOWN,
            f"there is no job {said(job_id, 100)}: it never existed, or it ended and was pruned",
            {"id": said(job_id, 100)},
        )
    return first_of(_reasons(facts))


def _reasons(facts: Facts) -> Iterable[Why]:
    match facts.job.place:
        case "done":
            return ended_reasons(facts)
        case "later":
            return later_reasons(facts)
        case _:
            return queued_reasons(facts) if facts.job.claimed_at is None else held_reasons(facts)


def first_of(reasons: Iterable[Why]) -> Why:
    """The most decisive reason, with the others in ``also``."""
    first, *others = sorted(reasons, key=lambda why: PRECEDENCE[why.code])
    return Why(first.code, first.sentence, first.details, tuple(others))
