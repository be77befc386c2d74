"""Stores and reads the boards of instances."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.store.database import CHANNEL, WATCHERS, Database


@dataclass(frozen=True, slots=True)
class Board:
    """The facts that an instance published last (``engine/board.py`` describes them), and when."""

    instance: str
    at: datetime
    facts: Mapping[str, Any]


class Boards:
    """The boards of all instances."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, instance: str, facts: str) -> None:
        """Store the board of an instance, a JSON object; an instance that was declared dead has none."""
        self._db.run("board.put", instance=instance, facts=facts)

    def read(self) -> Mapping[str, Board]:
        """All boards by the ids of their instances. Boards of dead instances may be among them."""
        found: dict[str, Board] = {}
        for instance, at, text in self._db.read("board.read"):
            facts = json.loads(text)
            if isinstance(facts, dict):  # an instance of another release may have written something else
                found[str(instance)] = Board(str(instance), self._db.moment(at), facts)
        return found

    def watch(self, seconds: float) -> None:
        """Have all instances publish their boards every second, for so many seconds. Instances are notified where the database can do that, and
        read it with their agenda elsewhere."""
        self._db.run("board.watch", seconds=seconds)
        if self._db.notifies:
            self._db.run("ends.notify", channel=CHANNEL, texts=[f"{WATCHERS}{seconds:g}"])

    def drop(self, instance: str) -> None:
        """Remove the board of an instance that leaves."""
        self._db.run("board.drop", instance=instance)

    def sweep(self) -> None:
        """Remove the boards of dead instances."""
        self._db.run("board.sweep")
