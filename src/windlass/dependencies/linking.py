"""Jobs that wait for jobs.

An enqueue only inserts: the child waits ``unlinked``, its edges name its parents. The linker (any instance, a short
transaction) flags living parents and counts those that ended already. A flagged parent's end consumes its edges and
counts its children down on their locked rows; a child that reaches zero is moved into its queue by that same commit.

The two orders in which linking and ending can meet:

    linker locks the parent first → the end waits a moment, then sees the flag and the edges
    the end holds the parent first → the linker skips it, finds it neither flagged nor ended, and tries again later

The orders in which linking and pruning can meet:

    the child is stored before the prune checks its locked page → the parent stays
    the prune has checked its page first → the linker skips the locked parent, and finds it gone later: it counts as cancelled

Whole days of history are dropped in the same way: the mark of the day has the part of the row locks.

A transaction settles at most ``PAGE`` children. The rest is noted in ``settling`` by the same commit and is done by upkeep, page by
page, on any instance: the parent has ended, and a child that is not settled yet waits. A retry of such a parent settles the rest first.

And linking and claiming: a claim passes over a parent that the linker has locked, so the linker notifies the instances that serve its phase to scan
again. Without that the parent would wait for the next periodic scan.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from windlass.model import DependencyPolicy, Flag, State
from windlass.store.database import Database, Transaction
from windlass.store.feature import EndedJob, Recording, carry
from windlass.store.ids import LARGEST, SMALLEST, is_id
from windlass.store.jobs import lines
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.rows import array

PARENT_ERROR = json.dumps(
    {
        "type": "Cancelled",
        "code": "parent_not_completed",
        "message": "a job this one waited for did not complete",
    }
)

PAGE = 1000
"""The most edges that one transaction consumes."""
PAGES = 10
"""The most pages that upkeep settles in one run."""

FOR_PARENTS = ["waiting", "unlinked"]
"""Why a job in `job_later` waits for other jobs (the other reasons wait for time)."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One dependency; ``parent_state`` is set once the parent ended. ``rule`` names the rule that made the child, which then has no
    policy of its own."""

    parent: str
    child: str
    policy: DependencyPolicy | None
    parent_state: State | None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended, and the child up to which its children are settled."""

    id: str
    state: State
    after: str = SMALLEST


def settle(tx: Transaction, ended: Sequence[Ended]) -> list[EndedJob]:
    """Settle the children of jobs that ended, and the children of those that are cancelled by it, and so on, a page of them in all; the rest
    is left to upkeep. Returns the children that were cancelled."""
    ended_with: list[EndedJob] = []
    room = PAGE
    while ended and room > 0:
        ended = sorted(ended, key=lambda job: job.id)
        rows = tx.run("settle.edges", ended=_rows(ended), limit=room)
        found = {(parent, child) for parent, child, _, _ in rows}
        cancelled = _count_down(tx, [row[1:] for row in rows if row[2] is not None])
        ended_with += cancelled
        ended = [*(_rest(ended, max(found)) if len(found) == room else ()), *with_dependents(cancelled)]
        room -= len(found)
    if ended:
        tx.run("settle.leave", ended=_rows(ended))
    return ended_with


def _rest(ended: Sequence[Ended], last: tuple[str, str]) -> list[Ended]:
    """The jobs whose edges were not all found: they are found in the order of their ids."""
    parent, child = last
    return [replace(job, after=child) if job.id == parent else job for job in ended if job.id >= parent]


def _count_down(tx: Transaction, edges: Sequence[Sequence[str]]) -> list[EndedJob]:
    """Let the children of consumed edges go on, or end them; returns those that ended."""
    satisfied: Counter[str] = Counter()
    doomed: set[str] = set()
    for child, policy, state in edges:
        if state == State.COMPLETED or policy == DependencyPolicy.RUN:
            satisfied[child] += 1
        elif policy == DependencyPolicy.CANCEL:
            doomed.add(child)
    going_on = {child: n for child, n in satisfied.items() if child not in doomed}
    if going_on and doomed:
        tx.run("settle.lock", counted=sorted(going_on), doomed=sorted(doomed), reasons=FOR_PARENTS)
    if going_on:
        promote(tx, [row[0] for row in tx.run("settle.count", children=counts(going_on, "satisfied"))])
    return cancel_children(tx, doomed)


def _rows(ended: Sequence[Ended]) -> str:
    return array(f'{{"id":"{job.id}","state":"{job.state}","after":"{job.after}"}}' for job in ended)


def with_dependents(cancelled: Sequence[EndedJob]) -> list[Ended]:
    return [Ended(job.id, State.CANCELLED) for job in cancelled if job.flags & Flag.DEPENDENTS]


def promote(tx: Transaction, due: Sequence[str]) -> None:
    """Move children that nothing holds back into their queues."""
    if due:
        tx.run("settle.promote", ids=sorted(due))
        lines.let_go(tx, sorted(due))


def cancel_children(tx: Transaction, doomed: set[str]) -> list[EndedJob]:
    """End waiting children; returns those that were waiting."""
    if not doomed:
        return []
    # A child that was cancelled and retried by hand no longer waits for a parent, and is left alone.
    rows = tx.run("cancel.later", ids=sorted(doomed), error=PARENT_ERROR, reasons=FOR_PARENTS)
    tx.run("record.tidy", ids=[row[0] for row in rows])
    lines.cancelled_with_parents(tx, [row[0] for row in rows])
    return [EndedJob(row[0], row[1], State.CANCELLED, has_waited=True) for row in rows]


class Dependencies:
    """Links waiting children to their parents and lists dependencies."""

    def __init__(self, db: Database, inserter: Inserter) -> None:
        self._db = db
        self._inserter = inserter

    def link(self, limit: int = 500) -> int:
        """Link children that are not linked yet, page by page; returns how many were. Safe on every instance at once.

        A child whose parent is locked right now is left for the next call, and holds up none behind it.
        """
        if not self._db.is_worth("link"):
            return 0
        linked, after = 0, SMALLEST
        while after:
            n, after = self._db.transact(partial(self._link, limit, after))
            linked += n
        return linked

    def settle(self, pages: int = PAGES, *, parent: str | None = None) -> bool:
        """Settle children of parents (or of this one) that ended longer ago, page by page; True if there may be more. Safe on every
        instance at once."""

        def page(tx: Transaction) -> bool:
            taken = tx.run("settle.take", first=parent or SMALLEST, last=parent or LARGEST, limit=PAGE)
            self._carry(
                tx, settle(tx, [Ended(job_id, State(state), after) for job_id, state, after in taken])
            )
            return bool(taken)

        return all(self._db.transact(page) for _ in range(pages))

    def of(self, job_id: str) -> list[Edge]:
        """The edges a job is part of, as child or as parent."""
        return [
            Edge(parent, child, policy and DependencyPolicy(policy), state and State(state), rule)
            for parent, child, policy, state, rule in (
                self._db.read("dependencies", id=job_id) if is_id(job_id) else ()
            )
        ]

    def _link(self, limit: int, after: str, tx: Transaction) -> tuple[int, str]:
        edges: dict[str, list[tuple[str, str, str | None]]] = defaultdict(list)
        for child, parent, policy, state in tx.run("link.pick", limit=limit, after=after):
            edges[child].append((parent, policy, state))
        if not edges:
            return 0, ""
        parents = sorted({parent for group in edges.values() for parent, _, _ in group})
        live = tx.run("link.flag_live", parents=parents)
        self._db.notify(tx, {phase for _, phase in live if phase}, nudge=True)
        flagged = {row[0] for row in live}
        flagged |= {row[0] for row in tx.run("link.flag_later", parents=parents)}
        ended: dict[str, tuple[State, datetime | None]] = {
            row[0]: (State(row[1]), self._db.moment(row[2])) for row in tx.run("link.ended", parents=parents)
        }
        ended |= self._gone(
            tx, [parent for parent in parents if parent not in flagged and parent not in ended]
        )
        marks: list[str] = []
        pending: dict[str, int] = {}
        doomed: set[str] = set()
        for child, group in edges.items():
            open_edges, new_marks, is_doomed = 0, [], False
            for parent, policy, known in group:
                state = State(known) if known else ended[parent][0] if parent in ended else None
                if state is None:
                    if parent not in flagged:
                        break  # in the middle of a move: neither living nor ended for us; next time
                    open_edges += 1
                    continue
                if not known:
                    at = self._db.stamp(ended[parent][1])
                    new_marks.append(
                        f'{{"parent":"{parent}","child":"{child}","state":"{state}","ended_at":{json.dumps(at)}}}'
                    )
                if state is not State.COMPLETED and policy != DependencyPolicy.RUN:
                    is_doomed |= policy == DependencyPolicy.CANCEL
                    open_edges += 1
            else:
                marks += new_marks
                if is_doomed:
                    doomed.add(child)
                else:
                    pending[child] = open_edges
        if marks:
            tx.run("link.mark", edges=array(marks))
        if pending:
            promote(tx, [row[0] for row in tx.run("link.done", children=counts(pending, "pending"))])
        cancelled = cancel_children(tx, doomed)
        self._carry(tx, cancelled + settle(tx, with_dependents(cancelled)))
        return len(pending) + len(doomed), max(edges) if len(edges) == limit else ""

    def _carry(self, tx: Transaction, cancelled: Sequence[EndedJob]) -> None:
        """Call the features behind this one for children that were cancelled."""
        carry(Recording(tx, self._inserter, self._db), cancelled, behind="dependencies")

    def _gone(self, tx: Transaction, parents: Sequence[str]) -> dict[str, tuple[State, None]]:
        """Parents that are in no table: pruned between the child's check and its commit. They count as cancelled, since
        it is not known any more how and when they ended; one in the middle of a move is in exactly one table of any snapshot."""
        if not parents:
            return {}
        there = {row[0] for row in tx.run("enqueue.present", ids=list(parents))}
        return {parent: (State.CANCELLED, None) for parent in parents if parent not in there}


def counts(numbers: dict[str, int], name: str) -> str:
    """A JSON array of a number per job."""
    return array(f'{{"id":"{child}","{name}":{n}}}' for child, n in sorted(numbers.items()))
