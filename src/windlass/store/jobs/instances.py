"""Lists the instances known to the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from windlass.store.database import Database
from windlass.store.ids import is_id
from windlass.store.jobs.holder import Holder


@dataclass(frozen=True, slots=True)
class Instance:
    """A running (or dead) process as the database knows it."""

    id: str
    started_at: datetime
    heartbeat_at: datetime
    dead_at: datetime | None
    lease: timedelta
    info: Mapping[str, Any]


class HasHolder(Protocol):
    """The part of a process that has its current holder; read each time, because a lost lease replaces the holder."""

    @property
    def holder(self) -> Holder: ...


class Instances:
    """The instances known to the database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def is_dead(self, instance: str) -> bool | None:
        """Whether an instance was declared dead; None if the database does not know it: it left, or died long ago, or never joined."""
        rows = self._db.read("instance.dead", instance=instance) if is_id(instance) else []
        return bool(rows[0][0]) if rows else None

    def list(self) -> list[Instance]:
        """All instances the database knows, newest first."""
        return [
            Instance(
                instance,
                self._db.moment(started),
                self._db.moment(beat),
                self._db.moment(dead),
                timedelta(seconds=lease),
                json.loads(info),
            )
            for instance, started, beat, dead, lease, info in self._db.read("instances")
        ]
