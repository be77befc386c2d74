"""The instances as the database knows them, with what they said of themselves. Every fact of a board is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass.features import Store
from windlass.store.jobs.instances import Instance

_ENDING = ("stopping", "stopped")


@dataclass(frozen=True, slots=True)
class Member:
    """One instance, and its board."""

    instance: Instance
    board_at: datetime | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.instance.id

    def is_alive(self, now: datetime) -> bool:
        """Whether the lease of the instance lasts."""
        one = self.instance
        return one.dead_at is None and one.heartbeat_at + one.lease >= now

    def serves(self, phase: str) -> bool:
        """Whether the instance claims jobs of a phase; one that stops does not."""
        phases = self.instance.info.get("phases", ())
        return phase in phases and self.facts.get("state") not in _ENDING

    def phase(self, name: str) -> Mapping[str, Any]:
        """The processors and the queue in memory of a phase."""
        return mapping(mapping(self.facts.get("phases")).get(name))

    def processor_of(self, job_id: str) -> Mapping[str, Any] | None:
        """The processor that runs a job."""
        for item in self.facts.get("processors") or ():
            if isinstance(item, Mapping) and item.get("job") == job_id:
                return item
        return None

    def has(self, fact: str, job_id: str) -> bool:
        """Whether a list of the board names a job."""
        listed = self.facts.get(fact)
        return isinstance(listed, list | Mapping) and job_id in listed

    def number(self, fact: str) -> float:
        found = self.facts.get(fact)
        return float(found) if isinstance(found, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """All instances at one time."""

    members: Mapping[str, Member]
    alive: Sequence[Member]

    def serving(self, phase: str) -> Sequence[Member]:
        """The living instances that claim jobs of a phase."""
        return [member for member in self.alive if member.serves(phase)]


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def read_fleet(store: Store, now: datetime) -> Fleet:
    """The instances and their boards: two reads."""
    boards = store.boards.read()
    members = {}
    for instance in store.instances.list():
        board = boards.get(str(instance.id))
        member = Member(instance) if board is None else Member(instance, board.at, board.facts)
        members[str(instance.id)] = member
    return Fleet(members, [member for member in members.values() if member.is_alive(now)])
