"""Flow control: how many jobs of a key may be admitted at once, how fast a phase goes, and how fast waiting raises a job's priority.

A job with a limit is parked in `job_later` and admitted to its queue when there is a place; claims know nothing of it, so phases without
limits pay nothing. The way of a limited job:

    enqueue, promote, advance, retry by hand      parks it: an insert, nothing is locked
    assign (upkeep)                               puts it at its gate
    admit (upkeep, and each end that frees one)   gives free places to the jobs at a gate, in order
    pace (upkeep)                                 where the phase has a rate: admits what the bucket allows
    free (its end, retry or advance)              frees the place, once, and admits the next; where that transaction is a handler's own
                                                  and may stay open, upkeep does after its commit

A place is held from `admit` to `free`: while the job is queued or processing, also by an instance that died, until recovery decided about
it. Jobs are put at a gate, and places are given and freed, only under the lock of the gate's row, so a transaction that frees a place sees all jobs that wait for
it. Each place is a mark on the job's own row of `job_limit`; the gate's count is their number, and `check` says where it is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial

from windlass.errors import ConfigError
from windlass.model import Flow, Gate, GateDrift, JobLimit, Rate
from windlass.model import rate as rates
from windlass.observe.logger import get_logger
from windlass.store.database import Database, Row, Transaction
from windlass.store.ids import SMALLEST
from windlass.store.jobs.rows import array
from windlass.store.validators import MAX_LABEL, NAME_RULE, is_label, is_name

log = get_logger("windlass.store")

PAGE = 500
TAKEN = 0.02
"""Seconds to wait before retrying a gate that another session had locked."""
SHORTEST, LONGEST = 0.005, 1.0
"""Bounds of the pause between two reads of a phase's bucket, in seconds."""


def free(tx: Transaction, *, ended: Sequence[str] = (), moved: Sequence[str] = ()) -> None:
    """Free the places of jobs that ended, or left their phase, and admit the next ones. The last statements of a
    transaction: they wait for the gates."""
    admit(tx, tx.run("free.lock", ids=sorted({*ended, *moved})), ended, moved)


def free_later(tx: Transaction, *, ended: Sequence[str] = (), moved: Sequence[str] = ()) -> None:
    """Free places in a transaction that the caller commits, perhaps much later: it must not lock a gate. Upkeep frees the places."""
    tx.run("free.later", ids=sorted({*ended, *moved}), ended=sorted(ended))


def park(db: Database, tx: Transaction, ids: Sequence[str]) -> None:
    """Park queued jobs that have just moved to a phase where they are limited."""
    if tx.run("park", ids=sorted(ids))[0][0]:
        db.notify(tx, ["@later"])


def admit(
    tx: Transaction, gates: Sequence[Row], ended: Sequence[str] = (), moved: Sequence[str] = ()
) -> None:
    """Free the places of these jobs, and give the free places of these gates, which this transaction has locked, to the jobs that wait there."""
    passed: list[str] = []
    while gates or ended or moved:
        rows = tx.run("admit", gates=_gates(gates), ended=list(ended), moved=list(moved), limit=PAGE)
        passed += [job_id for job_id, _, _, is_in, is_paced, _, _ in rows if not is_in and not is_paced]
        gates = sorted({(row[1], row[2]) for row in rows if row[5]})
        ended = moved = ()
    if passed:
        tx.run("admit.move", ids=passed)


class Limits:
    """The store's flow control: what phases allow, which jobs wait, and the duties that admit jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # ------------------------------------------------------------------ what phases allow

    def define(self, flows: Iterable[Flow]) -> list[str]:
        """Store what phases allow from now on, also for jobs that wait already; returns the phases where it changed.

        The last call counts. A phase that is given without any limits loses those it had.
        """
        known = {row[0] for row in self._db.read("flow.all")}
        rows = [
            _flow_row(flow)
            for flow in map(check_flow, flows)
            if flow.phase in known or flow.limit or flow.rate or flow.age
        ]
        if not rows:
            return []
        wanted = {json.dumps(row, sort_keys=True) for row in rows}
        same = {json.dumps(_flow_row(flow), sort_keys=True) for flow in self.flows()}
        if wanted <= same:
            return []
        changed = sorted(row[0] for row in self._db.run("flow.put", phases=json.dumps(rows)))
        self.mend()
        return changed

    def flows(self) -> list[Flow]:
        """What phases allow, by name; only those that were ever limited are listed."""
        return read_flows(self._db)

    def gates(self, phase: str | None = None, *, limit: int = 1000) -> list[Gate]:
        """The keys of limited phases that were in use lately."""
        return [Gate(*row) for row in self._db.read("gates", phase=phase, limit=limit)]

    # ------------------------------------------------------------------ admitting

    def assign(self, limit: int = PAGE) -> bool:
        """Put parked jobs at their gates and admit those that there is a place for; False if a gate was locked by another session and some jobs are left."""
        is_done = True
        gone: tuple[str, str] | None = (SMALLEST, "")
        while gone is not None:
            is_missed, gone = self._db.transact(partial(self._free_gone, gone))
            is_done = is_done and not is_missed
        after = SMALLEST
        while after:
            is_missed, after = self._db.transact(partial(self._assign, limit, after))
            is_done = is_done and not is_missed
        return is_done

    def _free_gone(self, after: tuple[str, str], tx: Transaction) -> tuple[bool, tuple[str, str] | None]:
        """Free places that were given up in transactions of handlers, a page of them after (job, phase); returns whether a gate was locked by another session,
        and after what the next page begins."""
        rows = tx.run("free.gone", job=after[0], phase=after[1], limit=PAGE)
        if not rows:
            return False, None
        wanted = sorted({(row[1], row[2]) for row in rows})
        tx.run("gate.open", gates=_gates(wanted))
        ours = tx.run("gate.try", gates=_gates(wanted))
        locked = {(row[0], row[1]) for row in ours}
        freed = [{"job": row[0], "phase": row[1]} for row in rows if (row[1], row[2]) in locked]
        if freed:
            tx.run("free.places", places=json.dumps(freed))
        admit(tx, ours)
        return len(freed) < len(rows), (rows[-1][0], rows[-1][1]) if len(rows) == PAGE else None

    def _assign(self, limit: int, after: str, tx: Transaction) -> tuple[bool, str]:
        rows = tx.run("gate.pick", after=after, limit=limit)
        if not rows:
            return False, ""
        first = {row[1]: row for row in reversed(rows) if not row[6] and (row[3] or row[4])}
        if first:
            flows = [
                {"phase": phase, "lim": row[3], "rate": row[4], "burst": row[5]}
                for phase, row in first.items()
            ]
            tx.run("flow.first", phases=json.dumps(flows))
        wanted = sorted({(row[1], row[2]) for row in rows if row[3]})
        if wanted:
            tx.run("gate.open", gates=_gates(wanted))
        ours = tx.run("gate.try", gates=_gates(wanted)) if wanted else []
        locked = {(row[0], row[1]) for row in ours}
        assigned = [row for row in rows if not row[3] or (row[1], row[2]) in locked]
        if assigned:
            places = [{"id": row[0], "gate": row[2] if row[3] else None} for row in assigned]
            tx.run("gate.assign", jobs=json.dumps(places))
        free = [row[0] for row in assigned if not row[3] and not row[4]]  # limited in other phases only
        if free:
            tx.run("admit.move", ids=free)
        admit(tx, ours)
        return len(assigned) < len(rows), rows[-1][0] if len(rows) == limit else ""

    def let_in(self) -> float | None:
        """Admit jobs that wait, through gates and rates; returns the seconds until there may be more, None if no job waits."""
        is_done = self.assign()
        paced = self.pace()
        return paced if is_done else TAKEN

    def pace(self) -> float | None:
        """Admit the jobs that the rates of phases allow now; returns the seconds until there may be more, None if no job waits."""
        waits = [self._db.transact(partial(self._pace, phase)) for (phase,) in self._db.read("pace.phases")]
        return min((wait for wait in waits if wait is not None), default=None)

    def _pace(self, phase: str, tx: Transaction) -> float | None:
        found = tx.run("pace.lock", phase=phase)
        if not found:
            return TAKEN
        rate, burst, tokens, at, is_ahead, queued = found[0]
        wait: float
        room = PAGE if rate is None else min(PAGE, int(tokens + 1e-6), max(0, burst - queued))
        ids = [row[0] for row in tx.run("pace.pick", phase=phase, limit=room)] if room else []
        if ids:
            tx.run("admit.move", ids=ids)
        if rate is None:
            return SHORTEST if len(ids) == room else None
        tokens = max(0.0, tokens - len(ids))
        if ids or is_ahead:  # a clock that went back must not stop the bucket from filling
            tx.run("pace.spend", phase=phase, tokens=tokens, at=at)
        if len(ids) < room:
            return None
        missing = 1.0 - tokens
        wait = missing / rate if missing > 0 else 1 / rate
        return min(LONGEST, max(SHORTEST, wait))

    def age(self, limit: int = PAGE) -> int:
        """Raise jobs that have waited long, in phases that say so; returns how many."""
        raised = 0
        for flow in self.flows():
            if flow.age is not None:
                raised += self._age(flow.phase, flow.age.total_seconds(), limit)
        return raised

    def _age(self, phase: str, seconds: float, limit: int) -> int:
        def raise_page(verb: str, tx: Transaction) -> int:
            found = int(tx.run(verb, phase=phase, age=seconds, limit=limit)[0][0])
            if found and verb == "age":
                self._db.notify(tx, [phase], nudge=True)  # they keep their place in time, behind the marks
            return found

        raised = 0
        for verb in ("age", "age.later"):
            while found := self._db.transact(partial(raise_page, verb)):
                raised += found
                if found < limit:
                    break
        return raised

    # ------------------------------------------------------------------ the safety net

    def check(self, limit: int = PAGE) -> list[GateDrift]:
        """Gates whose count is not the number of jobs admitted: there should be none. A read, true at any moment."""
        return [
            GateDrift(phase, key, int(admitted), int(given), int(used))
            for phase, key, admitted, given, used in self._db.read("gates.check", limit=limit)
        ]

    def mend(self, limit: int = PAGE) -> int:
        """Correct counts, give free places that were not given, forget gates that are not used; returns how many gates were wrong."""
        drifts = self.check(limit)
        if drifts:
            log.warning("the counts of %d gates were wrong and are counted anew: %s", len(drifts), drifts[0])
            self._db.transact(lambda tx: self._repair(tx, [(drift.phase, drift.key) for drift in drifts]))
        if room := self._db.read("gates.room", limit=limit):
            self._db.transact(lambda tx: admit(tx, tx.run("gate.try", gates=_gates(room))))
        if self._db.read("gates.idle", limit=limit):
            self._db.transact(lambda tx: self._sweep(tx, limit))
        return len(drifts)

    def _repair(self, tx: Transaction, gates: Sequence[tuple[str, str]]) -> None:
        tx.run("gate.open", gates=_gates(gates))
        ours = tx.run("gate.try", gates=_gates(gates))
        if ours:
            tx.run("gates.repair", gates=_gates(ours))
            admit(tx, ours)

    def _sweep(self, tx: Transaction, limit: int) -> None:
        if idle := tx.run("gates.idle", limit=limit):
            tx.run("gates.sweep", gates=_gates(idle))


def check_flow(flow: Flow) -> Flow:
    """Refuse flow control that cannot work, naming the option."""
    if not is_name(flow.phase):
        raise ConfigError("phase", flow.phase, NAME_RULE)
    return rates.checked(flow)


def check_job(limits: Sequence[object]) -> None:
    """Refuse limits that a job cannot have."""
    phases = set()
    for limit in limits:
        if not isinstance(limit, JobLimit) or not is_name(limit.phase) or limit.phase in phases:
            raise ConfigError("limits", limit, "a list of JobLimit, one for each phase at most")
        phases.add(limit.phase)
        if limit.limit is None and limit.rate is None:
            raise ConfigError("limits", limit, "a limit, a rate, or both")
        if limit.limit is not None:
            rates.check_limit(limit.limit)
        if limit.rate is not None:
            rates.check_rate(limit.rate)
        if limit.key != "" and not is_label(limit.key):
            raise ConfigError("limit key", limit.key, f"at most {MAX_LABEL} printable characters")


def job_rows(job_id: str, limits: Sequence[JobLimit]) -> list[str]:
    """The JSON rows of a job's limits."""
    return [
        json.dumps(
            {
                "job": job_id,
                "phase": limit.phase,
                "key": limit.key,
                "lim": limit.limit,
                "rate": float(limit.rate.per_second) if limit.rate else None,
                "burst": limit.rate.burst if limit.rate else None,
            }
        )
        for limit in limits
    ]


def read_flows(tx: Transaction | Database) -> list[Flow]:
    """What phases allow, by name."""
    return [_to_flow(row) for row in tx.run("flow.all")]


def known_limits(flows: Iterable[Flow], kind: str, phase: str, args: str) -> list[JobLimit]:
    """The limits of a job by what is stored about its phases, for jobs that were enqueued without their code.

    Arguments without the key, or with something that cannot be one, are no reason to refuse it here: it shares one key with others like it.
    """
    found = []
    for flow in flows:
        if (flow.limit or flow.rate) and (flow.phase == phase or flow.phase.startswith(f"{kind}:")):
            try:
                found.append(rates.limit_of(flow, args))
            except ConfigError:
                found.append(rates.limit_of(flow, args, ""))
    return found


def _gates(gates: Iterable[Sequence[object]]) -> str:
    return array(json.dumps({"phase": gate[0], "key": gate[1]}) for gate in gates)


def _flow_row(flow: Flow) -> dict[str, object]:
    return {
        "phase": flow.phase,
        "lim": flow.limit,
        "key": flow.limit_key,
        "rate": float(flow.rate.per_second) if flow.rate else None,
        "burst": flow.rate.burst if flow.rate else None,
        "age": flow.age.total_seconds() if flow.age else None,
    }


def _to_flow(row: Row) -> Flow:
    phase, limit, key, rate, burst, age = row
    return Flow(
        phase=phase,
        limit=limit,
        limit_key=key,
        rate=None if rate is None else Rate(rate, burst),
        age=None if age is None else timedelta(seconds=age),
    )
