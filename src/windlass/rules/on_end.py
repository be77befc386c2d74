"""Fires rules when jobs end: children are made by the commit that ended their (last) parent.

It runs in the transaction of the end, after everything else that end does, and inserts children last. Definitions are read there,
under a lock that a change of them has to wait for. For a rule with several parents the row of the fan-in, locked in the order of
(rule, key), is where parents meet:

    hits of one kind in a round      one counts: the last that completed, else the last that ended in another way
    all kinds satisfied              the child is made, the round is over, the row stays for the next round
    a job that was in a round        belongs to it for good: retried after its child was made, it changes nothing

Each end is noted once per rule (parent, generation), so an end that is scanned again later makes no second child.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.errors import WindlassError
from windlass.model import HIGHEST_PRIORITY, DependencyPolicy, NewJob, State
from windlass.model import rule as rules
from windlass.model.principal import NOBODY
from windlass.model.rule import Rule, RuleEvent
from windlass.observe.logger import get_logger
from windlass.store.database import Row, Transaction
from windlass.store.jobs import lines
from windlass.store.jobs.checked import CheckedJob, check
from windlass.store.jobs.enqueue import Inserter
from windlass.store.jobs.rows import array, clean

log = get_logger("windlass.store")

MAX_ERROR = 1000


def to_rule(row: Row) -> Rule:
    """A rule; columns as `rule.list` and `rule.of` return them."""
    name, parents, kind, phase, key, args, policy, lane, max_attempts, inherit, source, event = row[:12]
    return Rule(
        name=name,
        parents=tuple(json.loads(parents)),
        create=kind,
        phase=phase,
        key=tuple(json.loads(key)),
        args={
            name: tuple(path) if isinstance(path, list) else path for name, path in json.loads(args).items()
        },
        policy=DependencyPolicy(policy),
        priority=HIGHEST_PRIORITY - lane,
        max_attempts=max_attempts,
        inherit=bool(inherit),
        source=source,
        event=RuleEvent(event),
    )


_HIT_COLUMNS = (
    *("parent", "generation", "kind", "state", "fan_in", "round"),
    *("counts", "asked", "child", "error", "data"),
)


@dataclass(slots=True)
class _Hit:
    """One end that one rule has to process."""

    rule: Rule
    parent: str
    kind: str
    generation: int
    state: State
    asked: bool
    has_headers: bool
    correlation: str
    facts: Mapping[str, Any]
    key: str = ""
    fan_in: int | None = None
    round: int | None = None
    counts: bool = True
    child: str | None = None
    error: str | None = None
    data: Mapping[str, Any] | None = None

    def as_row(self) -> str:
        return json.dumps({"rule": self.rule.name, **{name: getattr(self, name) for name in _HIT_COLUMNS}})

    def as_key(self) -> str:
        return json.dumps({"parent": self.parent, "rule": self.rule.name, "generation": self.generation})


@dataclass(slots=True)
class _LockedFanIn:
    """A locked fan-in: its current counts, and what this transaction adds to its round."""

    id: int
    rule: Rule
    round: int
    missing: int
    bad: int
    counting: dict[str, tuple[str, int, State]] = field(default_factory=dict)
    outdone: list[tuple[str, int]] = field(default_factory=list)
    hits: list[_Hit] = field(default_factory=list)

    def take(self, hit: _Hit) -> None:
        """Count a hit; of several of a kind a completed one goes before others, and the later before the earlier."""
        hit.fan_in, hit.round = self.id, self.round
        hit.data = rules.share_of(self.rule, hit.kind, hit.facts)
        self.hits.append(hit)
        before = self.counting.get(hit.kind)
        if before is not None:
            if before[2] is State.COMPLETED and hit.state is not State.COMPLETED:
                hit.counts = False
                return
            self._supersede(hit.kind, *before[:2])
        was_good = before is not None and self.rule.is_satisfied_by(before[2])
        is_good = self.rule.is_satisfied_by(hit.state)
        self.missing -= is_good and not was_good
        self.bad += (not is_good and before is None) - (is_good and before is not None and not was_good)
        self.counting[hit.kind] = (hit.parent, hit.generation, hit.state)

    def _supersede(self, kind: str, parent: str, generation: int) -> None:
        for mine in self.hits:
            if (mine.kind, mine.parent, mine.generation, mine.counts) == (kind, parent, generation, True):
                mine.counts = False
                return
        self.outdone.append((parent, generation))


def fire(
    inserter: Inserter,
    tx: Transaction,
    ids: Iterable[str],
    *,
    since: Any = None,
    only: str | None = None,
    inbox: bool = False,
) -> int:
    """Fire the rules of jobs that have ended; returns how many children were made. ``since`` is the earliest end among them, where it was not
    just now; ``only`` names a single rule to fire. ``inbox`` is for a transaction that the caller commits later."""
    jobs = tx.run("rule.ended", ids=sorted(set(ids)), since=since)
    if not jobs:
        return 0
    of_kind: dict[str, list[Rule]] = defaultdict(list)
    for rule in map(to_rule, tx.run("rule.of", kinds=sorted({job[1] for job in jobs}))):
        if only is None or rule.name == only:
            for parent in rule.parents:
                of_kind[parent].append(rule)
    hits = [_to_hit(rule, job) for job in jobs for rule in of_kind[job[1]]]
    entries = _fire_single(tx, [hit for hit in hits if not hit.rule.is_fan_in])
    arriving = [hit for hit in hits if hit.rule.is_fan_in]
    while arriving:
        arriving, made = _count_arrivals(tx, arriving)
        entries += made
    if entries:
        # Last: on PostgreSQL a claim's low-water mark depends on a short time between this statement and the commit.
        inserter.insert(tx, entries, inbox=inbox, is_repeat=False, is_ours=True)
    return len(entries)


def _to_hit(rule: Rule, job: Row) -> _Hit:
    job_id, kind, generation, state, asked, has_headers, correlation, args, result, error = job
    facts = {
        "id": job_id,
        "kind": kind,
        "correlation_id": correlation or job_id,
        "state": state,
        "args": json.loads(args),
        "result": None if result is None else json.loads(result),
        "error": None if error is None else json.loads(error),
    }
    return _Hit(
        rule,
        job_id,
        kind,
        generation,
        State(state),
        bool(asked),
        bool(has_headers),
        correlation or job_id,
        facts,
    )


# --- one parent ------------------------------------------------------------------------------------------------------


def _fire_single(tx: Transaction, hits: Sequence[_Hit]) -> list[CheckedJob]:
    noted, born = [], {}
    for hit in hits:
        if hit.rule.is_satisfied_by(hit.state):
            share = rules.share_of(hit.rule, hit.kind, hit.facts)
            entry = _child(hit, share, [hit.parent] if hit.asked else [])
            if isinstance(entry, str):
                hit.error = entry
            else:
                hit.child = entry.id
                born[hit.parent, hit.rule.name] = entry
            noted.append(hit)
        elif hit.rule.policy is DependencyPolicy.WAIT:
            noted.append(hit)
    if not noted:
        return []
    new = {(row[0], row[1]) for row in tx.run("hit.put", hits=array(hit.as_row() for hit in noted))}
    repeated = [hit for hit in noted if hit.generation > 1 and hit.child is not None]
    if repeated:
        tx.run("hit.drop_earlier", hits=array(hit.as_key() for hit in repeated))
    made = {key: entry for key, entry in born.items() if key in new}
    for (parent, rule), entry in made.items():
        lines.rule_fired(rule, entry, [parent])
    return list(made.values())


def _child(
    last: _Hit, args: Mapping[str, Any], heir_of: Sequence[str], *, is_disowned: bool = False
) -> CheckedJob | str:
    """The child, checked; or why it cannot be made, which does not keep its parents from ending. It has the correlation id and the headers of
    the parent that ended last, and the rights that all jobs it inherits from have: none if the principal of one of them was erased."""
    rule, correlation = last.rule, last.correlation
    job = NewJob(
        kind=rule.create,
        phase=rule.phase,
        args=args,
        priority=rule.priority,
        max_attempts=rule.max_attempts,
        correlation_id=correlation if rule.inherit else None,
        principal=NOBODY if rule.inherit and is_disowned else None,
        heir_of=heir_of if rule.inherit and not is_disowned else (),
        headers_of=last.parent if rule.inherit and last.has_headers else None,
    )
    try:
        return check([job])[0]
    except WindlassError as error:
        log.error(
            "rule %s made no %s: %s", rule.name, rule.create, error, extra={"correlation_id": correlation}
        )
        return clean(str(error), MAX_ERROR)


# --- several parents -------------------------------------------------------------------------------------------------


def _count_arrivals(tx: Transaction, hits: Sequence[_Hit]) -> tuple[list[_Hit], list[CheckedJob]]:
    """Count arrived parents; returns the hits that came after a round was over, for its next one, and the children."""
    for hit in hits:
        hit.key = rules.key_of(hit.rule, hit.facts)
    fan_ins = _lock_fan_ins(tx, hits)
    belongs, known = {}, set()
    for parent, rule, generation, fan_in, round_ in tx.run(
        "fan_in.earlier", hits=array(hit.as_key() for hit in hits)
    ):
        belongs[parent, rule] = fan_in, round_
        known.add((parent, rule, generation))
    left = []
    for hit in hits:
        fan_in = fan_ins[hit.rule.name, hit.key]
        here = fan_in.id, fan_in.round
        if (hit.parent, hit.rule.name, hit.generation) in known or belongs.get(
            (hit.parent, hit.rule.name), here
        ) != here:
            continue  # counted before, or of a round that is over
        if fan_in.missing:
            fan_in.take(hit)
        else:
            left.append(hit)
    busy = [fan_in for fan_in in fan_ins.values() if fan_in.hits]
    outdone = [(m.rule.name, parent, generation) for m in busy for parent, generation in m.outdone]
    if outdone:
        rows = [json.dumps({"rule": rule, "parent": parent, "generation": n}) for rule, parent, n in outdone]
        tx.run("fan_in.supersede", hits=array(rows))
    if busy:
        tx.run("hit.put", hits=array(hit.as_row() for fan_in in busy for hit in fan_in.hits))
    still_open = [fan_in for fan_in in busy if fan_in.missing]
    if still_open:
        rows = [f'{{"id":{m.id},"missing":{m.missing},"bad":{m.bad}}}' for m in still_open]
        tx.run("fan_in.count", fan_ins=array(rows))
    return left, _close_rounds(tx, [fan_in for fan_in in busy if not fan_in.missing])


def _lock_fan_ins(tx: Transaction, hits: Sequence[_Hit]) -> dict[tuple[str, str], _LockedFanIn]:
    """Lock the fan-ins of these hits; returns them with the hits that count so far for the kinds that arrive."""
    wanted = {(hit.rule.name, hit.key): hit.rule for hit in hits}
    rows = [
        json.dumps({"rule": name, "key": key, "width": len(rule.parents)})
        for (name, key), rule in sorted(wanted.items(), key=lambda item: item[0])
    ]
    fan_ins = {
        (name, key): _LockedFanIn(number, wanted[name, key], round_, missing, bad)
        for number, name, key, round_, missing, bad in tx.run("fan_in.open", fan_ins=array(rows))
    }
    by_id = {fan_in.id: fan_in for fan_in in fan_ins.values()}
    kinds = {(fan_ins[hit.rule.name, hit.key].id, hit.kind) for hit in hits}
    rows = [
        json.dumps({"fan_in": number, "round": by_id[number].round, "kind": kind})
        for number, kind in sorted(kinds)
    ]
    for number, kind, parent, generation, state in tx.run("fan_in.counting", kinds=array(rows)):
        by_id[number].counting[kind] = (parent, generation, State(state))
    return fan_ins


def _close_rounds(tx: Transaction, complete: Sequence[_LockedFanIn]) -> list[CheckedJob]:
    """End rounds that are complete; their children."""
    if not complete:
        return []
    rows = array(f'{{"id":{fan_in.id},"round":{fan_in.round}}}' for fan_in in complete)
    parts: dict[int, dict[str, Row]] = defaultdict(dict)
    for part in tx.run("fan_in.parts", fan_ins=rows):
        parts[part[0]][part[1]] = part
    entries, closed = [], []
    for fan_in in complete:
        rule, shares = fan_in.rule, parts[fan_in.id]
        args: dict[str, Any] = {}
        for kind in rule.parents:
            args |= json.loads(shares[kind][5])
        entry = _child(
            fan_in.hits[-1],  # the one that completed it
            args,
            [part[2] for part in shares.values() if part[3]],
            is_disowned=any(part[4] for part in shares.values()),
        )
        facts: dict[str, Any] = {"id": fan_in.id, "round": fan_in.round, "width": len(rule.parents)}
        if isinstance(entry, str):
            facts["error"] = entry
        else:
            facts["child"] = entry.id
            entries.append(entry)
            lines.rule_fired(rule.name, entry, [part[2] for part in shares.values()])
        closed.append(json.dumps(facts))
    tx.run("fan_in.close", fan_ins=array(closed))
    return entries
