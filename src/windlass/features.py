"""The store with all its features: ``open_store(url)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.dependencies.feature import DependenciesFeature
from windlass.dependencies.linking import Dependencies
from windlass.keys.feature import Keys
from windlass.limits.feature import LimitsFeature
from windlass.limits.store import Limits
from windlass.principals.feature import PrincipalsFeature
from windlass.principals.store import Principals
from windlass.rules.feature import RulesFeature
from windlass.rules.store import Rules
from windlass.schedules.store import Schedules
from windlass.store.database import Database
from windlass.store.feature import register
from windlass.store.schema.statements import add_folder
from windlass.store.store import CoreStore

FEATURES = (Keys(), DependenciesFeature(), RulesFeature(), PrincipalsFeature(), LimitsFeature())
"""All features of jobs. Their order is the order of locks: each may lock its own rows only after those of the features before it."""

register(*FEATURES)
add_folder("windlass.schedules")


class Store(CoreStore):
    """Everything durable, one attribute per noun. Safe to share between threads; close it when done.

    >>> with open_store("sqlite:///jobs.db") as store:
    ...     store.enqueue([NewJob(kind="welcome", args={"user_id": 7})])
    ...     holder = store.join()
    ...     for lease in holder.claim("welcome", limit=10):
    ...         holder.complete(lease, result="sent")
    """

    def __init__(self, db: Database, options: Mapping[str, Any] | None = None) -> None:
        super().__init__(db, options)
        self.dependencies = Dependencies(db, self.enqueuer)
        self.rules = Rules(db, self.enqueuer)
        self.principals = Principals(db)
        self.limits = Limits(db)
        self.schedules = Schedules(db, self.enqueuer)


def open_store(url: str, **options: Any) -> Store:
    """Open the database that a URL names: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/name``.

    Nothing is created on PostgreSQL (``windlass db migrate`` does that); a SQLite file is created and migrated. Options are those of
    the database: ``clock``, and for PostgreSQL ``pooled``, ``direct_url``, ``max_connections`` and ``auto_migrate``.
    """
    return Store.open(url, **options)
