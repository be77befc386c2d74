"""Rules: defined by code or by hand, kept in the database, fired by the ends of jobs (on_end.py).

A rule is about ends from the moment it was stored. Enqueues flag the jobs of kinds that have rules, so that no other job's end reads
rules; a kind that is new here also has jobs that are not flagged. ``catch_up`` flags those that live and fires for those that ended
since, at once and again 15 s later: by then every enqueue that did not know the kind has committed. A scan that met locked jobs is
repeated. (An enqueue inside a caller's own transaction may come later still; its job is flagged when it leaves the inbox.)

Rules that are gone from their module are marked and go on firing: in a rolling deploy the release that lacks a rule may start after
the one that has it. They end with ``remove``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any

from windlass.errors import ConfigError, RuleNotFoundError
from windlass.model import HIGHEST_PRIORITY, Defined, DependencyPolicy, NewJob, State
from windlass.model import rule as rules
from windlass.model.rule import MOST_PARENTS, FanIn, Part, Rule, RuleEvent, StoredRule
from windlass.observe.logger import get_logger
from windlass.ranges import is_time
from windlass.rules.on_end import fire, to_rule
from windlass.store.database import Also, Database, Row, Transaction, nothing
from windlass.store.ids import SMALLEST
from windlass.store.jobs.checked import check
from windlass.store.jobs.enqueue import Inserter
from windlass.store.validators import MAX_LABEL, NAME_RULE, is_label, is_name

log = get_logger("windlass.store")
FIRE_EVERY = 5.0  # seconds between two scans of ended jobs, while another session keeps a job locked

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
MOST = 2**31
PAGE = 5000
FIRED_AT_ONCE = 200


class Rules:
    """Defines rules, shows them and the children they wait to make."""

    def __init__(self, db: Database, inserter: Inserter) -> None:
        self._db = db
        self._inserter = inserter
        self._fired: dict[tuple[Any, int], tuple[int, float]] = {}

    # ------------------------------------------------------------------ defining

    def define(self, wanted: Sequence[Rule], modules: Collection[str] = ()) -> Defined:
        """Make the rules in the database those of the code: add rules, change them, and mark those that are gone from ``modules``, the
        modules of this code. All or none; refused with the cycle shown if rules would make jobs forever. If they are the same
        already, nothing is written.

        A rule whose parents, key or arguments changed counts anew what has arrived for children that are not made yet.
        """
        named = {rule.name: check_rule(rule) for rule in wanted}
        if len(named) < len(wanted):
            names = [rule.name for rule in wanted]
            raise ConfigError(
                "name",
                next(n for n in names if names.count(n) > 1),
                because="each rule needs a name of its own",
            )
        if not _differences(self._known(self._db.read), named, modules):
            return Defined()
        return self._db.transact(lambda tx: self._define(tx, named, modules))

    def put(self, rule: Rule) -> StoredRule:
        """Add one rule, or change the one of that name; live jobs of its kinds are flagged before this returns, except jobs that another session
        has locked at this moment. Workers flag these later."""
        self.define([rule])
        self.catch_up()
        return self.get(rule.name)

    def remove(self, name: str, *, also: Also = nothing) -> int:
        """Remove a rule, and with it what has arrived for children that are not made; returns how many there were. Jobs it made stay.
        One that code defines comes back when a worker with that code starts. ``also`` writes in the same transaction."""

        def work(tx: Transaction) -> int:
            tx.run("rule.lock")
            left = len({row[0] for row in tx.run("fan_in.list", rule=name, limit=MOST)})
            if not tx.run("rule.remove", name=name):
                raise RuleNotFoundError(name)
            tx.run("fan_in.undo", rule=name)
            left += len(tx.run("hit.forget", rule=name))
            tx.run("rule.kinds.sync")
            also(tx)
            return left

        if not is_label(name):
            raise RuleNotFoundError(name)
        return self._db.transact(work)

    def _define(self, tx: Transaction, named: Mapping[str, Rule], modules: Collection[str]) -> Defined:
        tx.run("rule.lock")
        known = self._known(tx.run)
        differ = _differences(known, named, modules)
        added = [name for name in differ if name not in known]
        changed = [name for name in differ if name in named and name in known]
        gone = [name for name in differ if name not in named]
        rules.refuse_cycles(
            [*named.values(), *(item.rule for name, item in known.items() if name not in named)]
        )
        if added or changed:
            tx.run("rule.put", rules=json.dumps([_facts(named[name]) for name in sorted(added + changed)]))
        if gone:
            tx.run("rule.mark_gone", names=gone)
        tx.run("rule.kinds.sync")
        for name in changed:
            if _deciding_parts(named[name]) != _deciding_parts(known[name].rule):
                self._count_anew(tx, name)
        return Defined(tuple(added), tuple(changed), tuple(gone))

    def _count_anew(self, tx: Transaction, name: str) -> None:
        parents = [row[0] for row in tx.run("fan_in.undo", rule=name)]
        parents += [row[0] for row in tx.run("hit.forget", rule=name)]
        fire(self._inserter, tx, parents, since=BEGINNING, only=name)

    def _known(self, run: Callable[..., list[Row]]) -> dict[str, StoredRule]:
        return {row[0]: self._stored(row) for row in run("rule.list", name=None)}

    # ------------------------------------------------------------------ reading

    def list(self) -> Sequence[StoredRule]:
        """All rules by name."""
        return [*self._known(self._db.read).values()]

    def get(self, name: str) -> StoredRule:
        """One rule."""
        rows = self._db.read("rule.list", name=name) if is_label(name) else []
        if not rows:
            raise RuleNotFoundError(name)
        return self._stored(rows[0])

    def open(self, rule: str | None = None, *, limit: int = 1000) -> Sequence[FanIn]:
        """Children that are not made yet: which of their parents have ended, and which are missing. Oldest first; then, of rules with
        one parent, jobs that did not complete and whose child waits for that; and children that could not be made."""
        return [*self._fan_ins(rule, limit), *self._left(rule, limit)][:limit]

    def _left(self, rule: str | None, limit: int) -> Iterator[FanIn]:
        rows = self._db.read("hit.left", rule=rule, limit=limit)
        for (name, fan_in, round_), group in groupby(rows, key=lambda row: row[:3]):
            for hits in [[*group]] if fan_in is not None else ([row] for row in group):
                *_, key, parent, _, _, at, error = hits[0]
                parts = [Part(row[5], row[4], State(row[6]), self._db.moment(row[7])) for row in hits]
                yield FanIn(
                    rule=name,
                    key=parent if fan_in is None else rules.key_value(key or ""),
                    round=round_,
                    opened_at=self._db.moment(at),
                    complete=parts if error is not None else [],
                    failed=[] if error is not None else parts,
                    missing=[] if error is not None else [part.kind for part in parts],
                    error=error,
                )

    def _fan_ins(self, rule: str | None, limit: int) -> Iterator[FanIn]:
        rows = self._db.read("fan_in.list", rule=rule, limit=limit)
        for _, group in groupby(rows, key=lambda row: row[0]):
            hits = [*group]
            _, name, key, round_, bad, opened, policy, parents, *_ = hits[0]
            parts = [Part(row[8], row[9], State(row[10]), self._db.moment(row[11])) for row in hits]
            satisfied = [
                part for part in parts if part.state is State.COMPLETED or policy == DependencyPolicy.RUN
            ]
            yield FanIn(
                rule=name,
                key=rules.key_value(key),
                round=round_,
                opened_at=self._db.moment(opened),
                complete=satisfied,
                failed=[part for part in parts if part not in satisfied],
                missing=[
                    kind for kind in json.loads(parents) if kind not in {part.kind for part in satisfied}
                ],
                is_cancelled=bad > 0 and policy == DependencyPolicy.CANCEL,
            )

    def _stored(self, row: Row) -> StoredRule:
        moment = self._db.moment
        return StoredRule(to_rule(row), moment(row[12]), moment(row[13]), moment(row[14]))

    # ------------------------------------------------------------------ catching up

    def catch_up(self) -> int:
        """Flag live jobs of kinds that are new here, and fire for those that ended since; returns how many children were made. Safe on every
        instance at once. A scan that left out locked jobs does not count: they may end unflagged meanwhile,
        so the kind stays new and is scanned again."""
        made = 0
        for (since, looks), group in groupby(self._db.read("rule.kinds.new"), key=lambda row: row[1:]):
            kinds = [row[0] for row in group]
            left_out = sum(self._flag_all(verb, kinds) for verb in ("rule.flag_later", "rule.flag_live"))
            scan, now = (since, looks), time.monotonic()
            before, fired_at = self._fired.get(scan, (left_out + 1, now))
            if left_out >= before and now - fired_at < FIRE_EVERY:
                continue  # the same jobs are still locked: do not scan history again yet (at most every FIRE_EVERY seconds)
            made += self._fire_ended(kinds, since, unflagged=True, only=None)
            self._fired[scan] = left_out, now
            if not left_out:
                self._db.run("rule.kinds.scanned", kinds=kinds, since=since, looks=looks + 1)
                self._fired.pop(scan, None)
        return made

    def _flag_all(self, verb: str, kinds: Sequence[str]) -> int:
        """Flag the jobs of one table; returns how many were locked and left out."""
        left_out, after = 0, SMALLEST
        while after:
            after, locked = self._db.transact(partial(self._flag, verb, kinds, after))
            left_out += locked
        return left_out

    def _flag(self, verb: str, kinds: Sequence[str], after: str, tx: Transaction) -> tuple[str, int]:
        end, queued, left_out = tx.run(verb, kinds=kinds, after=after, limit=PAGE)[0]
        self._db.notify(tx, queued or (), nudge=True)
        return str(end) if end else "", left_out

    def backfill(self, name: str, since: datetime) -> int:
        """Have a rule count jobs that ended before it was there, from ``since`` on; returns how many children were made. What it has counted
        already counts once, so it may be repeated."""
        if not is_time(since):
            raise ConfigError("since", since, "a datetime with a time zone")
        return self._fire_ended(self.get(name).rule.parents, since, unflagged=False, only=name)

    def _fire_ended(self, kinds: Sequence[str], since: Any, *, unflagged: bool, only: str | None) -> int:
        made, after = 0, SMALLEST
        while after:
            rows = self._db.read(
                "rule.missed",
                kinds=list(kinds),
                since=since,
                after=after,
                unflagged=unflagged,
                limit=FIRED_AT_ONCE,
            )
            ids = [row[0] for row in rows]
            if ids:
                made += self._db.transact(partial(fire, self._inserter, ids=ids, since=since, only=only))
            after = ids[-1] if len(ids) == FIRED_AT_ONCE else ""
        return made


def check_rule(rule: Rule) -> Rule:
    """Refuse what cannot be a rule, naming the option, before anything is written."""
    if not is_label(rule.name):
        raise ConfigError("name", rule.name, f"1 to {MAX_LABEL} printable characters")
    if not is_label(rule.source):
        raise ConfigError("source", rule.source, f"1 to {MAX_LABEL} printable characters")
    if not 1 <= len(rule.parents) <= MOST_PARENTS or len(set(rule.parents)) < len(rule.parents):
        raise ConfigError("parents", list(rule.parents), f"1 to {MOST_PARENTS} kinds, each once")
    for kind in rule.parents:
        if not is_name(kind):
            raise ConfigError("parents", kind, NAME_RULE)
    if rule.is_fan_in != bool(rule.key):
        raise ConfigError(
            "key",
            list(rule.key),
            "paths that say which parents belong together; for several parents, and only for these",
        )
    if not isinstance(rule.policy, DependencyPolicy):
        raise ConfigError("policy", rule.policy, "cancel, wait or run")
    if not isinstance(rule.event, RuleEvent):
        raise ConfigError("on", rule.event, "success or failure")
    if rule.event is RuleEvent.FAILURE and (rule.is_fan_in or rule.policy is not DependencyPolicy.CANCEL):
        raise ConfigError(
            "on",
            "failure",
            because="a rule for failures has one parent and no policy: each failed job makes a child",
        )
    rules.check_paths(rule)
    rules.refuse_cycles([rule])
    check(
        [NewJob(kind=rule.create, phase=rule.phase, priority=rule.priority, max_attempts=rule.max_attempts)]
    )
    args = {name: path if isinstance(path, str) else (path[0], path[1]) for name, path in rule.args.items()}
    return replace(rule, parents=tuple(rule.parents), key=tuple(rule.key), args=args)


def _differences(
    known: Mapping[str, StoredRule], named: Mapping[str, Rule], modules: Collection[str]
) -> list[str]:
    """The names of rules that are not in the database as they are meant."""
    other = [
        name
        for name, rule in named.items()
        if name not in known or known[name].gone_at is not None or known[name].rule != rule
    ]
    lost = [
        name
        for name, item in known.items()
        if name not in named and item.gone_at is None and item.rule.source.partition(":")[0] in modules
    ]
    return other + lost


def _deciding_parts(rule: Rule) -> tuple[object, ...]:
    """The part of a rule that decides which parents make a child, and from which arguments."""
    return rule.parents, rule.key, rule.args, rule.policy, rule.event


def _facts(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "parents": rule.parents,
        "kind": rule.create,
        "phase": rule.phase,
        "key": rule.key,
        "args": rule.args,
        "policy": rule.policy,
        "lane": HIGHEST_PRIORITY - rule.priority,
        "max_attempts": rule.max_attempts,
        "inherit": rule.inherit,
        "source": rule.source,
        "event": rule.event,
    }
