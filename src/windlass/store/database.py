"""The contract of a database that the store's verbs run on.

The nouns (jobs, outputs, dependencies, ...) are written once, against this contract. The dialects differ in their .sql
files and in the few things below: how a transaction begins, how values travel, how a waiting process is notified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

from windlass.clock import Clock
from windlass.model import MergeStep, PlainEnd, Retention, Want
from windlass.model.history import PartitionsLeft
from windlass.store.open_effects import OpenEffect, OpenEffects

Row = tuple[Any, ...]
T = TypeVar("T")

CHANNEL = "windlass"
"""The notification channel of workers. A payload is a phase name, or one of the words below."""

LATER = "@later"
"""Something was put into `job_later`: the promoter and the linker should scan it."""

NUDGE = "@nudge "
"""Followed by a phase: jobs went back to an old place in its queue, so low-water marks must be forgotten."""

CANCEL = "@cancel "
"""Followed by a job id: its holder should stop."""

WAITERS = "@waiters"
"""Callers wait for ends of jobs: workers should announce ends for a while."""

WATCHERS = "@watchers "
"""Followed by seconds: people watch for so long, and instances should publish their boards every second."""

ENDS_CHANNEL = "windlass_ends"
"""The channel on which workers announce the ends of jobs while callers wait. A payload is the ids of ended jobs."""

RECONNECTED = "@reconnected"
"""Made by a listener itself: notifications may have been missed, so scan every phase."""


BEATS, STEPS = "beats", "steps"
"""Needs that have a connection of their own."""


def never() -> bool:
    """Returns False: ``is_stopping`` of a caller that never stops."""
    return False


class Transaction(Protocol):
    """An open transaction: verbs run in it are committed or rolled back together."""

    def run(self, verb: str, **parameters: object) -> list[Row]:
        """Run a verb; returns the rows of its last statement that returns any."""
        ...


Also = Callable[[Transaction], None]
"""What a caller writes beside an act, in the transaction of the act and only if the act changed something."""


def nothing(_: Transaction) -> None:
    """Write nothing beside an act."""


class Effect(Transaction, Protocol):
    """A transaction that also carries a handler's own writes."""

    @property
    def connection(self) -> Any:
        """The driver's own connection (psycopg or sqlite3), inside this transaction."""
        ...

    def confirm(self) -> None:
        """Make sure that this is still the transaction that was begun: a handler may have ended it in its own SQL."""
        ...


class Listener(Protocol):
    """Receives hints about new work; hints may be lost, doubled or late, and nothing but speed depends on them."""

    @property
    def is_connected(self) -> bool:
        """Whether hints can arrive now; where they cannot, a waiting instance should scan more often."""
        ...

    def wait(self, timeout: float) -> Sequence[str]:
        """Wait for hints for at most ``timeout`` seconds; empty when none came."""
        ...

    def interrupt(self) -> None:
        """End the wait of another thread now, and every later wait at once. Any thread may call it, also after ``close``."""
        ...

    def close(self) -> None: ...


class EndsBefore(Protocol):
    """Ends that a step records before it claims, in the same transaction (store/jobs/phase_ends.py)."""

    def record(self, tx: Transaction) -> None:
        """Write the ends."""
        ...

    def notify(self, tx: Transaction, claimed: Sequence[Row]) -> None:
        """Notify others of what the step has left, whose claimed rows these are."""
        ...


class Database(Protocol):
    """A connection to one database. Safe to share between threads."""

    dialect: str
    low_water: bool
    """Whether claims and promotions should start at a low-water mark (see jobs/low_water.py)."""
    notifies: bool
    """Whether enqueues have to notify waiting instances (see jobs/notify_throttle.py)."""

    records_phases: bool
    """Whether ends of phases have a statement of their own (``record.pipeline``)."""

    @property
    def open_effects(self) -> OpenEffects | None:
        """The effect transactions of this process, where an open one keeps every other write waiting."""
        ...

    def run(self, verb: str, **parameters: object) -> list[Row]:
        """One verb in a transaction of its own. A deadlock or a serialisation failure is repeated, not raised."""
        ...

    def read(self, verb: str, **parameters: object) -> list[Row]:
        """One verb that only reads; never waits for a writer."""
        ...

    def transact(
        self, work: Callable[[Transaction], T], *, waits: bool = False, patience: float | None = None
    ) -> T:
        """Run ``work`` in one transaction; repeated from the start after a deadlock, so it must have no other effects.

        ``waits`` says that it may have to wait for another session's transaction: for a bounded time, and never on all connections.
        ``patience`` is that time in seconds, if it is not the one of the database.
        """
        ...

    def savepoint(self, tx: Transaction) -> AbstractContextManager[Any]:
        """A part of a transaction: an exception that leaves the block undoes what the block wrote, and nothing else."""
        ...

    def reserved(self, need: str) -> AbstractContextManager[None]:
        """Reserve a connection for this thread until the block ends: for ``BEATS`` or for ``STEPS``."""
        ...

    def step(
        self,
        *,
        instance: str,
        outcomes: Sequence[PlainEnd],
        aside: int,
        emptied: Sequence[int],
        wants: Sequence[Want],
        marks: Sequence[datetime | None],
        ends: EndsBefore | None = None,
    ) -> tuple[Sequence[str] | None, list[Row]]:
        """Record plain ends and claim the next batch of each of some phases in one commit. ``marks`` has one for each lane of each phase.

        Returns the ids that were finished (None when all were) and the claimed rows.
        """
        ...

    bulk_from: float
    """From how many plain jobs on ``bulk`` pays; infinity where it never does."""

    def bulk(self, lines: Callable[[str], Iterable[str]], phases: str) -> list[Row]:
        """Stream plain jobs into the queue and count them, in one commit; returns the phases that were notified.

        ``lines`` is called with the end of a line and returns text; it may be called again.
        """
        ...

    def effect(self, seconds: float, opened: OpenEffect | None = None) -> AbstractContextManager[Effect]:
        """A transaction for a handler's writes that the database itself ends when it idles longer than ``seconds``. ``opened`` is its
        entry in ``open_effects``."""
        ...

    def fenced(self, tx: Effect, work: Callable[[], T]) -> T:
        """Run the last statements of an effect; a repeat here never repeats the handler's own statements."""
        ...

    def notify(self, tx: Transaction, phases: Iterable[str], *, nudge: bool = False) -> None:
        """Hint, when ``tx`` commits, that these phases have work; ``nudge`` where it lies behind the low-water marks."""
        ...

    def wait(self, phases: Sequence[str], seconds: float) -> None:
        """Register as waiting for these phases for so many seconds, so that enqueues notify."""
        ...

    def listen(self, channel: str = CHANNEL) -> Listener:
        """Open a listener on a channel, where the database has channels."""
        ...

    def moment(self, value: Any) -> Any:
        """A time column as an aware UTC datetime, or None if it is NULL."""
        ...

    def stamp(self, value: datetime | None) -> Any:
        """A datetime in the form the dialect's JSON parameters carry."""
        ...

    @property
    def clock(self) -> Clock | None:
        """The clock that replaces the database's, if one was given."""
        ...

    def now(self) -> datetime:
        """The database's clock."""
        ...

    def is_worth(self, verb: str, **parameters: object) -> bool:
        """Whether a verb would find anything to do, where a check is cheaper than the verb: on SQLite the check is a read, and
        the verb takes the one write lock."""
        ...

    def drop_history(
        self, keep: Retention, *, only_empty: bool = False, is_stopping: Callable[[], bool] = never
    ) -> int:
        """Remove whole days of history that are past every retention, where the dialect can; returns how many jobs were removed.

        With ``only_empty`` only days that hold no job any more. No further day is removed once ``is_stopping`` returns True.
        """
        ...

    def merge_history(self, *, always: bool, page: int) -> MergeStep | None:
        """Do a piece of the work that makes months of old days, where there are too many partitions, or ``always``; None when there is
        nothing to do."""
        ...

    def partitions(self) -> int:
        """How many partitions history has; 0 where it is one table."""
        ...

    def upkeep(self) -> PartitionsLeft | None:
        """Do the dialect's own periodic work (history partitions, WAL checkpoints). Where partitions are the work of another role, returns
        how many are left; None everywhere else."""
        ...

    def close(self) -> None: ...


EFFECT = "windlass_effect"
"""The savepoint at the beginning of an effect; it is gone if the handler ended the transaction."""

ENDED_BY_HANDLER = (
    "the handler ended its transaction itself (COMMIT, ROLLBACK, commit(), …), so its writes and its job's end are no longer "
    "one commit; the job's state was not changed. Leave the `with` block to commit, raise to roll back"
)
