"""What an inspection of a database found: facts about its tables, its server and the way to it, for ``windlass doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.model.history import PartitionsLeft


class Pooler(StrEnum):
    """What a URL leads to: the server itself, or a pooler that gives a server's session to a client or to a transaction."""

    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class DeadRows:
    """A table's rows, and the versions of rows that no transaction needs and that vacuum has not removed yet."""

    table: str
    live: int
    dead: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """The size of a table with its indexes. Of history on PostgreSQL all partitions together; ``rows`` is an estimate there. None is not known."""

    table: str
    rows: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction of any session of the database that keeps vacuum from removing rows."""

    pid: int
    seconds: float
    application: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The facts of one inspection. Facts that the database does not have are None or empty."""

    missing: Sequence[str] = ()
    """Tables, columns, indexes, triggers and functions that the migrations made and that are gone."""
    invalid: Sequence[str] = ()
    """Indexes that are not usable: their creation was interrupted."""
    dead_rows: Sequence[DeadRows] = ()
    transactions: Sequence[OpenTransaction] = ()
    """Transactions that keep dead rows, the oldest first."""
    autovacuum: bool | None = None
    partitions: int = 0
    left: PartitionsLeft | None = None
    """How far ahead the partitions of history reach."""
    may_make: bool = True
    """Whether the role of the URL may make partitions."""
    clock_ahead: float | None = None
    """Seconds by which the clock of the database is ahead of this machine's."""
    pooler: Pooler | None = None
    file_bytes: int = 0
    free_bytes: int = 0
    """Bytes of a SQLite file, and those of its pages that hold nothing."""
    log_bytes: int = 0
    """Bytes of the write-ahead log of a SQLite file."""
