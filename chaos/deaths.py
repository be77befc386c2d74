"""Workers that are killed, what they held, and how long it took until their jobs ran again."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chaos.bed import Bed
from chaos.findings import Findings
from chaos.workers import Worker, at

MEDIAN_FROM = 10  # jobs: the median of fewer is the wait of one of them, which may be as long as the longest
HOLD_STILL = 0.2  # the server may still be at the last statement of the dead


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that was killed, when, and what it held."""

    when: float
    instances: frozenset[str]
    held: Sequence[str]


@dataclass(slots=True)
class Waits:
    """Seconds until the jobs of dead workers ran again: those that ran like any other, and suspects."""

    plain: list[float] = field(default_factory=list)
    isolated: list[float] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    ended: int = 0
    """Jobs that the last statement of the dead had ended."""
    dark: float = 0.0
    """Seconds in which no worker lived."""


def kill(bed: Bed, victim: Worker) -> Death:
    when = victim.kill()
    time.sleep(HOLD_STILL)
    instances = victim.instances
    return Death(when, frozenset(instances), bed.held_by(instances))


def waits(bed: Bed, deaths: Sequence[Death]) -> Waits:
    """From the later of a holder's death and the first moment that another worker lives, until the handler was entered again. A job whose
    next holder died as well, before it was entered, is judged by that death."""
    dark = _dark(bed.workers, deaths)
    found = Waits(dark=sum(end - begin for begin, end in dark))
    starts = defaultdict(list)
    for start in bed.ledger.starts():
        starts[start.job].append(start)
    losses = defaultdict(list)
    for death in deaths:
        for job in death.held:
            losses[job].append(death.when)
    for job, moments in losses.items():
        for place, moment in enumerate(moments):
            until = moments[place + 1] if place + 1 < len(moments) else float("inf")
            again = next((start for start in starts[job] if moment < start.at < until), None)
            if again is not None:
                since = next((end for begin, end in dark if begin <= moment < end), moment)
                (found.isolated if again.is_suspect else found.plain).append(again.at - since)
            elif until == float("inf"):
                if bed.store.jobs.get(job).state.is_final:
                    found.ended += 1
                else:
                    found.never.append(job)
    return found


def await_sweep(bed: Bed) -> None:
    """Let the living sweep what the dead left in the table of claims. (Their own last ones go when they stop.)"""
    living = {instance for worker in bed.workers if worker.code is None for instance in worker.instances}

    def is_swept() -> bool:
        rows = bed.query(f"SELECT CAST(instance AS text) FROM {bed.table('claim')}")
        return {row[0] for row in rows} <= living

    bed.until(is_swept, 60, "the claims of the dead are swept")


def met(bed: Bed) -> Counter[str]:
    """How many deaths of its instance each job was charged with."""
    rows = bed.query(f"SELECT CAST(job AS text), CAST(error AS text) FROM {bed.table('attempt')}")
    return Counter(
        job for job, error in rows if (json.loads(error or "null") or {}).get("code") == "instance_died"
    )


def judge(findings: Findings, found: Waits, lease: float, *, least: int) -> None:
    """The promise: half of the jobs run within the lease and a second, 99 % within the lease and three."""
    findings.least("jobs that ran again", len(found.plain) + len(found.isolated), least)
    findings.none("held by a killed worker, never run again", found.never)
    findings.note("ended by the last statement of the dead", found.ended)
    if len(found.plain) >= MEDIAN_FROM:
        findings.most("ran again after, median, s", _share(found.plain, 0.5), lease + 1)
    findings.most("ran again after, 99 %, s", _share(found.plain, 0.99), lease + 3)
    findings.note("no worker lived for, s", round(found.dark, 1))
    findings.note("isolated", len(found.isolated))
    findings.note("isolated ran again after, median, s", _share(found.isolated, 0.5))
    findings.note("isolated ran again after, 99 %, s", _share(found.isolated, 0.99))


def _share(waits: Iterable[float], share: float) -> float:
    ordered = sorted(waits)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else 0.0


def _dark(workers: Sequence[Worker], deaths: Sequence[Death]) -> list[tuple[float, float]]:
    """The times at which no worker lived, between the first and the last that did."""
    lives = []
    for worker in workers:
        started = worker.log.events("instance.started")
        if started:
            ends = [death.when for death in deaths if death.instances & set(worker.instances)]
            lives.append((at(started[0]), ends[0] if ends else float("inf")))
    dark: list[tuple[float, float]] = []
    lit: float | None = None
    for begin, end in sorted(lives):
        if lit is not None and begin > lit:
            dark.append((lit, begin))
        lit = end if lit is None else max(lit, end)
    return dark
