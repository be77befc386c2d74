"""Rules: which ends of jobs create which jobs, and the fan-ins that are still open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.control.given import check_count, check_texts
from windlass.control.noun import Noun, off_loop
from windlass.control.why.codes import Why
from windlass.control.why.ended import child_of
from windlass.model.rule import FanIn, StoredRule

MOST_OPEN = 10_000


class RuleControl(Noun):
    """Lists and removes rules, and lists open fan-ins."""

    def list(self) -> Sequence[StoredRule]:
        """All rules by name."""
        self._actor.require_all("list rules")
        return self._store.rules.list()

    def get(self, name: str) -> StoredRule:
        """One rule; ``RuleNotFoundError`` if there is none of this name."""
        self._actor.require_all("read a rule")
        return self._store.rules.get(name)

    def open(self, rule: str | None = None, *, limit: int = 1000) -> Sequence[FanIn]:
        """Children that are not made yet: which parents have ended, which are missing."""
        self._actor.require_all("list open fan-ins")
        check_texts(rule=rule)
        check_count("limit", limit, MOST_OPEN)
        return [self._payload.fan_in(one) for one in self._store.rules.open(rule, limit=limit)]

    def why(self, name: str, key: Any) -> Why:
        """Why a rule has not made its child for a key (a value, or a list of the values of its paths): which kinds the open fan-in lacks."""
        self._actor.require_all("read open fan-ins")
        rule = self._store.rules.get(name).rule
        return child_of(self._store, rule, key)

    def remove(self, name: str, reason: str | None = None) -> int:
        """Remove a rule, and with it the fan-ins that are open; returns how many children are therefore not made. Jobs that it made stay. A rule that
        code defines comes back when a worker with that code starts."""
        self._actor.require_all("remove a rule")
        rule = self._store.rules.get(name).rule
        facts = {"parents": [*rule.parents], "create": rule.create, "key": [*rule.key], "on": str(rule.event)}
        record = self._record("rule.remove", "rule", name, reason, before=facts)
        return self._audited(record, lambda also: self._store.rules.remove(name, also=also))

    list_async = off_loop(list)
    remove_async = off_loop(remove)
    why_async = off_loop(why)
    get_async = off_loop(get)
    open_async = off_loop(open)
