"""Dependencies as a feature of jobs: the edges of new children, the ends of parents, and parents that are retried."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from windlass.dependencies.linking import Dependencies, Ended, counts, settle
from windlass.errors import ActRefusedError, ConfigError, DependencyCycleError, StoreError
from windlass.model import After, DependencyPolicy, Flag, NewJob, State
from windlass.store.database import Database, Transaction
from windlass.store.feature import (
    Agenda,
    EndedJob,
    Feature,
    FeatureDuty,
    Insertion,
    MovedJob,
    PutOff,
    Recording,
    RetriedJob,
    Retrying,
    retry,
)
from windlass.store.ids import is_id
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.rows import array

PATIENCE = 60.0
"""Seconds to wait for another instance that settles the children of an ended job and makes no progress."""


class DependenciesFeature(Feature):
    """Children wait for their parents; the end of a parent counts them down or cancels them."""

    name = "dependencies"
    flag = Flag.DEPENDENTS
    is_alone = True

    def is_asked(self, job: NewJob) -> bool:
        return bool(job.after)

    def check(self, job: CheckedJob) -> CheckedJob:
        _check_after(job.job.after)
        return replace(job, pending=len(_unique(job.job.after)))

    def check_all(self, jobs: Sequence[CheckedJob]) -> None:
        if any(job.job.after for job in jobs):
            _refuse_cycles(jobs)

    def before_insert(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        if not any(job.job.after for job in jobs):
            return jobs
        jobs = [_with_parents(job, call.instead) for job in jobs]
        parents = call.inserter.parents_of(call, jobs)
        jobs = _with_correlations(jobs, {job: correlation for job, (correlation, _) in parents.items()})
        call.notes[self.name] = linked = _children_of_this_call(jobs)
        return _flagged(jobs, {after.parent for job in linked for after in job.job.after})

    def after_insert(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        edges = [
            f'{{"parent":"{after.parent}","child":"{job.id}","policy":"{after.policy}"}}'
            for job in jobs
            for after in _unique(job.job.after)
        ]
        if edges:
            call.tx.run("enqueue.edges", edges=array(edges))
        if linked := call.notes.get(self.name):
            call.tx.run("link.own", ids=sorted(job.id for job in linked))

    def on_recorded(
        self, call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob]
    ) -> Sequence[EndedJob]:
        return settle(call.tx, [Ended(job.id, job.state) for job in ended]) if ended else ()

    def on_retried(self, call: Retrying, jobs: Sequence[RetriedJob]) -> None:
        _require_settled(call.tx, jobs)
        living = [job.id for job in jobs if not job.is_waiting]
        if not living:
            return  # children of a retried parent: their own children come with the next generation, below
        children = _reopen(call.tx, living)
        while call.dependents and children:  # one generation after the other, down the graph
            revived = _revive(call.tx, children)
            retry(call, revived)
            children = _reopen(call.tx, [job.id for job in revived])

    def duties(self, db: Database, inserter: Inserter, every: float) -> Sequence[FeatureDuty]:
        dependencies = Dependencies(db, inserter)

        def link(_: Agenda) -> None:
            dependencies.link()

        def settle(_: Agenda) -> float | None:
            return 0.0 if dependencies.settle() else None

        return [
            FeatureDuty("links", lambda agenda: agenda.has("unlinked"), link),
            FeatureDuty("dependents", lambda agenda: agenda.has("settling"), settle),
        ]

    def will_queue(self, agenda: Agenda, *, has_waiting: bool) -> bool:
        return agenda.has("unlinked") or agenda.has("settling")

    def on_deleted(self, tx: Transaction, jobs: Sequence[EndedJob]) -> None:
        states = {job.id: job.state for job in jobs}
        for parent, count in tx.run("delete.readers", ids=sorted(states)):
            many = (
                "1 job that has not ended needs" if count == 1 else f"{count} jobs that have not ended need"
            )
            why = f"{many} its result; let them end, or cancel them"
            raise ActRefusedError(parent, "delete", states[parent], why)

    def on_pruned(self, db: Database) -> None:
        db.run("prune.edges")


def _reopen(tx: Transaction, parents: Sequence[str]) -> list[str]:
    """Have children wait again for parents that live again; returns those that are to come back if they were cancelled."""
    tx.run("retry.reopen", ids=sorted(parents))
    return [row[0] for row in tx.run("retry.edges", ids=sorted(parents))]


def _revive(tx: Transaction, children: Sequence[str]) -> list[RetriedJob]:
    """Retry children that were cancelled because of a parent, unless another parent keeps them from running."""
    pending, doomed = Counter[str](), set[str]()
    for child, policy, state in tx.run("revive.edges", ids=sorted(set(children))):
        if state is None or (state != State.COMPLETED and policy == DependencyPolicy.WAIT):
            pending[child] += 1
        elif state != State.COMPLETED and policy == DependencyPolicy.CANCEL:
            doomed.add(child)
    waiting = {child: n for child, n in pending.items() if child not in doomed}
    rows = tx.run("revive.take", children=counts(waiting, "pending"))
    return [RetriedJob(row[0], row[1], row[2], row[3], row[4], is_waiting=True) for row in rows]


def _require_settled(tx: Transaction, jobs: Sequence[RetriedJob]) -> None:
    """Refuse a retry of jobs whose end has not been recorded on all their children."""
    parents = [job.id for job in jobs if job.flags & Flag.DEPENDENTS]
    left = [row[0] for row in tx.run("settle.left", ids=parents)] if parents else []
    if left:
        raise PutOff(lambda db, inserter: _finish(db, inserter, left))


def _finish(db: Database, inserter: Inserter, jobs: Sequence[str]) -> None:
    """Settle all children of these ended jobs, beside any instance that is doing so."""
    dependencies, deadline = Dependencies(db, inserter), time.monotonic() + PATIENCE
    while left := db.read("settle.left", ids=list(jobs)):
        if dependencies.settle(1, parent=left[0][0]):
            deadline = time.monotonic() + PATIENCE
        elif time.monotonic() > deadline:
            raise StoreError(
                f"job {left[0][0]} has ended, and another instance is still settling the jobs that waited for it, but has "
                f"made no progress for {PATIENCE:.0f} seconds; nothing was changed, try again"
            )
        else:
            time.sleep(0.02)


def _with_parents(job: CheckedJob, winners: Mapping[str, str]) -> CheckedJob:
    """A child whose parent of the same call met its key taken waits for the job that holds the key."""
    if not any(winners.get(after.parent, after.parent) != after.parent for after in job.job.after):
        return job
    after = [replace(item, parent=winners.get(item.parent, item.parent)) for item in job.job.after]
    return replace(job, job=replace(job.job, after=after), pending=len(_unique(after)))


def _with_correlations(jobs: Sequence[CheckedJob], known: Mapping[str, str]) -> list[CheckedJob]:
    """Children that were given no correlation id, with that of their first parent, which may have it from its own."""
    own = {job.id: job for job in jobs}
    found = {job.id: job.job.correlation_id for job in jobs if job.job.correlation_id}
    found |= {job.id: job.id for job in jobs if not job.job.after and job.id not in found}
    found |= known
    for job in jobs:
        line = [job.id]
        while line[-1] not in found:  # parents of one call may be given in any order, and never in a circle
            line.append(own[line[-1]].job.after[0].parent)
        found |= dict.fromkeys(line, found[line[-1]])
    return [
        replace(job, job=replace(job.job, correlation_id=found[job.id])) if job.job.after else job
        for job in jobs
    ]


def _children_of_this_call(jobs: Sequence[CheckedJob]) -> list[CheckedJob]:
    """The children whose parents are all stored by the same call. They need no linker: no session has seen their parents yet."""
    own = {job.id for job in jobs}
    return [job for job in jobs if job.job.after and all(after.parent in own for after in job.job.after)]


def _flagged(jobs: Sequence[CheckedJob], parents: set[str]) -> list[CheckedJob]:
    flag = int(Flag.DEPENDENTS)
    return [replace(job, flags=job.flags | flag) if job.id in parents else job for job in jobs]


def _unique(parents: Sequence[After]) -> list[After]:
    return list({after.parent: after for after in parents}.values())


def _check_after(parents: Sequence[object]) -> None:
    policies: dict[str, DependencyPolicy] = {}
    for after in parents:
        if not isinstance(after, After):
            raise ConfigError("after", after, "a list of After(job id); ids as text")
        if not is_id(after.parent):
            raise ConfigError("after", after.parent, "the id of a job: a UUID, lower case, with dashes")
        if not isinstance(after.policy, DependencyPolicy):
            raise ConfigError("after policy", after.policy, "DependencyPolicy.CANCEL, WAIT or RUN")
        if policies.setdefault(after.parent, after.policy) is not after.policy:
            raise ConfigError(
                "after",
                after.parent,
                because="this parent is named with two policies; give one policy for each parent",
            )


def _refuse_cycles(jobs: Sequence[CheckedJob]) -> None:
    """Jobs of one call may wait for each other, but not in a circle. Parents outside the call exist already, so no
    circle can pass through them."""
    waits: TopologicalSorter[str] = TopologicalSorter({job.id: () for job in jobs})
    own = {job.id for job in jobs}
    for job in jobs:
        for after in job.job.after:
            if after.parent in own:
                waits.add(after.parent, job.id)
    try:
        waits.prepare()
    except CycleError as error:
        raise DependencyCycleError(error.args[1]) from None
