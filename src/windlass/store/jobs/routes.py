"""Chooses the next phase of a job of several phases: the first one that it has no output of.

As a rule that is the one after the phase that ended. Where the pipeline was changed while the job was running, it may not be: then no
phase that is there now is left out, and none is visited twice. Read in the transaction that ends the phase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from windlass.model import Advanced, Completed, Json, Outcome
from windlass.observe.logger import get_logger
from windlass.store.database import Transaction

log = get_logger("windlass.store")


def correct_routes(tx: Transaction, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Correct outcomes that would leave a phase out, or visit one twice; the others are unchanged."""
    asked = [
        outcome.lease.id
        for outcome in outcomes
        if isinstance(outcome, Completed | Advanced) and outcome.route
    ]
    if not asked:
        return list(outcomes)
    seen: dict[str, set[str]] = defaultdict(set)
    for job_id, phase in tx.run("output.phases", ids=asked):
        seen[str(job_id)].add(phase)
    return [
        _route(outcome, seen[outcome.lease.id])
        if isinstance(outcome, Completed | Advanced) and outcome.route
        else outcome
        for outcome in outcomes
    ]


def _route(outcome: Completed | Advanced, seen: set[str]) -> Completed | Advanced:
    lease = outcome.lease
    left = [step for step in outcome.route if step[0] not in seen and step[0] != lease.phase]
    wanted = outcome.phase if isinstance(outcome, Advanced) else None
    if (left[0][0] if left else None) == wanted:
        return outcome
    log.warning(
        "job %s: its pipeline was changed while it was running; after %s it %s",
        lease.id,
        lease.phase,
        f"goes on in {left[0][0]}, where it has not been"
        if left
        else "is complete: it has been in every phase",
        extra={"job_id": lease.id, "phase": lease.phase, "correlation_id": lease.correlation_id},
    )
    value = outcome.output if isinstance(outcome, Advanced) else outcome.result
    if not left:
        return Completed(lease, value, outcome.run)
    if isinstance(outcome, Advanced):
        return replace(outcome, phase=left[0][0], max_attempts=left[0][1])
    return Advanced(lease, left[0][0], Json("null") if value is None else value, left[0][1], outcome.run)
