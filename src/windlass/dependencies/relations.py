"""Reads which jobs a job comes from and leads to, through dependencies and rules, some levels far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.store.database import Database

LEVELS = 6
"""How many levels are read on each side."""
MOST = 2000
"""How many edges of one level are read."""


@dataclass(frozen=True, slots=True)
class Related:
    """A job with its kind and state; ``level`` is below 0 for jobs that lead to the one that was asked for, above 0 for those behind it."""

    id: str
    kind: str
    state: str
    level: int


@dataclass(frozen=True, slots=True)
class Relations:
    """The jobs around a job by their ids, itself among them, and the edges between them. ``is_cut``: there are more."""

    jobs: Mapping[str, Related]
    edges: frozenset[tuple[str, str]]
    is_cut: bool


class RelationReader:
    """Reads relations."""

    def __init__(self, db: Database, *, most: int = MOST) -> None:
        self._db = db
        self._most = most

    def read(self, job_id: str, scope: Mapping[str, str | None]) -> Relations:
        """The jobs around a job that an actor may see."""
        levels: dict[str, int] = {job_id: 0}
        edges: set[tuple[str, str]] = set()
        is_cut = False
        for verb, side in (("relations.parents", -1), ("relations.children", 1)):
            front = [job_id]
            for depth in range(1, LEVELS + 1):
                rows = self._db.read(verb, ids=front, limit=self._most + 1) if front else ()
                is_cut = is_cut or len(rows) > self._most
                pairs = {(str(row[0]), str(row[1])) for row in rows[: self._most]}
                edges |= pairs
                found = sorted({pair[0 if side < 0 else 1] for pair in pairs} - levels.keys())
                levels.update(dict.fromkeys(found, side * depth))
                front = found
            is_cut = is_cut or bool(front)
        seen = {
            str(ident): Related(str(ident), kind, str(state), levels[str(ident)])
            for ident, kind, state in self._db.read("relations.jobs", ids=list(levels), **scope)
        }
        between = frozenset(pair for pair in edges if pair[0] in seen and pair[1] in seen)
        return Relations(seen, between, is_cut)
