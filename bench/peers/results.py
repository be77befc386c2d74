"""From what the scripts answered to a result: rates, percentiles, and whether the counts are right.

A result is a plain dict. ``jobs`` is what really happened (executed, or stored), ``rate`` is jobs per second, and
``wrong`` is there when the figure must not be used, saying why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.load import percentile

Answer = dict[str, Any]
Result = dict[str, Any]


def enqueued(answer: Answer, expected: int | None = None) -> Result:
    """Jobs were put into the store; the store has to hold as many."""
    jobs, seconds = int(answer["jobs"]), float(answer["seconds"])
    result: Result = {"jobs": jobs, "seconds": seconds, "rate": jobs / seconds if seconds > 0 else 0.0}
    stored = int(answer["stored"])
    if stored != jobs or jobs == 0 or jobs != (jobs if expected is None else expected):
        wanted = "" if expected is None else f" of {expected:,}"
        result["wrong"] = f"enqueued {jobs:,} jobs{wanted}, the store holds {stored:,}"
    return result


def drained(answers: Sequence[Answer], jobs: int) -> Result:
    """Jobs 0 to jobs-1 were queued and some processes ran them: from the first start to the store being empty."""
    shares = [int(answer["handled"]) for answer in answers]
    began = [answer["began_at"] for answer in answers if answer["began_at"] is not None]
    # All look at the same store, so the first to see it empty is right; the others were only slower to look.
    ended = [answer["ended_at"] for answer in answers if answer["ended_at"] is not None]
    seconds = min(ended) - min(began) if began and ended else 0.0
    handled = sum(shares)
    result: Result = {
        "jobs": handled,
        "seconds": seconds,
        "rate": handled / seconds if seconds > 0 else 0.0,
        "processes": len(answers),
    }
    if len(answers) > 1:
        result["shares"] = shares
    if complaint := _wrong_counts(answers, handled, jobs):
        result["wrong"] = complaint
    return result


def waited(returns: Sequence[float], workers: Sequence[Answer], *, warm_up: int) -> Result:
    """Milliseconds from the return of each enqueue call to the start of its handler, the warm-up left out.

    A handler that starts before the call has returned counts as it is: below zero.
    """
    result: Result = {"jobs": len(returns) - warm_up}
    starts = {int(number): float(at) for worker in workers for number, at in worker["starts"]}
    waits = [
        (starts[number] - at) * 1000
        for number, at in enumerate(returns)
        if number >= warm_up and number in starts
    ]
    result["mean_ms"] = sum(waits) / len(waits) if waits else 0.0
    for share in (50, 95, 99):
        result[f"p{share}_ms"] = percentile(waits, share / 100)
    if complaint := _wrong_counts(workers, sum(int(worker["handled"]) for worker in workers), len(returns)):
        result["wrong"] = complaint
    return result


def failed(reason: str) -> Result:
    """Nothing was measured."""
    return {"jobs": 0, "rate": 0.0, "wrong": reason}


def _wrong_counts(answers: Sequence[Answer], handled: int, jobs: int) -> str | None:
    left = [int(answer["left"]) for answer in answers]
    if handled != jobs:
        return f"{handled:,} jobs were executed, {jobs:,} were queued; {min(left):,} are left in the store"
    # As many as were queued, yet one twice and another not at all: the sum of their numbers would tell.
    if sum(int(answer["sum"]) for answer in answers) != jobs * (jobs - 1) // 2:
        return f"{handled:,} jobs were executed, but not each of them once"
    if all(left):
        return f"all jobs were executed, but {min(left):,} are left in the store"
    return None
