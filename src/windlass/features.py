"""The store with all its features: ``open_store(url)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.audit.store import AuditTrail
from windlass.boards.store import Boards
from windlass.dependencies.feature import DependenciesFeature
from windlass.dependencies.linking import Dependencies
from windlass.dependencies.parents import ParentReader
from windlass.dependencies.relations import RelationReader
from windlass.expiry.feature import ExpiryFeature
from windlass.expiry.store import Expiries
from windlass.headers.feature import HeadersFeature
from windlass.headers.store import Headers
from windlass.idempotency.store import RequestKeys
from windlass.job_logs.store import JobLogs
from windlass.keys.feature import Keys
from windlass.keys.holders import KeyHolders
from windlass.limits.feature import LimitsFeature
from windlass.limits.store import Limits
from windlass.operations.requests import Requests
from windlass.operations.store import Operations
from windlass.principals.feature import PrincipalsFeature
from windlass.principals.store import Principals
from windlass.rules.feature import RulesFeature
from windlass.rules.store import Rules
from windlass.schedules.store import Schedules
from windlass.store.database import Database
from windlass.store.feature import register
from windlass.store.opening import opening_checks
from windlass.store.schema.statements import add_folder
from windlass.store.store import CoreStore
from windlass.tokens.store import ApiTokens

FEATURES = (
    Keys(),
    DependenciesFeature(),
    RulesFeature(),
    PrincipalsFeature(),
    ExpiryFeature(),
    LimitsFeature(),
    HeadersFeature(),
)
"""All features of jobs. Their order is the order of locks: each may lock its own rows only after those of the features before it."""

register(*FEATURES)
add_folder("windlass.schedules")
add_folder("windlass.audit")
add_folder("windlass.job_logs")
add_folder("windlass.boards")
add_folder("windlass.operations")
add_folder("windlass.idempotency")
add_folder("windlass.tokens")


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
        self.parents = ParentReader(db)
        self.relations = RelationReader(db)
        self.key_holders = KeyHolders(db)
        self.rules = Rules(db, self.enqueuer)
        self.principals = Principals(db)
        self.expiries = Expiries(db, self.enqueuer)
        self.headers = Headers(db)
        self.limits = Limits(db)
        self.schedules = Schedules(db, self.enqueuer)
        self.audit = AuditTrail(db)
        self.logs = JobLogs(db)
        self.boards = Boards(db)
        self.operations = Operations(db)
        self.requests = Requests(db)
        self.request_keys = RequestKeys(db, self.enqueuer)
        self.tokens = ApiTokens(db)


def open_store(url: str, **options: Any) -> Store:
    """Open the database that a URL names: ``sqlite:///path/to/file.db`` or ``postgresql://user@host/name``.

    Nothing is created on PostgreSQL (``windlass db migrate`` does that); a SQLite file is created and migrated. The options belong to
    the database: ``clock``, and for PostgreSQL ``pooled``, ``direct_url``, ``max_connections`` and ``auto_migrate``.
    """
    for check in opening_checks:
        check(url)
    return Store.open(url, **options)
