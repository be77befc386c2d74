"""The seam between the life of a job and the features that hang on it.

The core knows one job's life: it is stored, claimed, recorded, recovered, retried, pruned. A feature adds something to some jobs: a
key, parents, a principal, a limit. It sets its flag on the rows of these jobs, keeps rows of its own for them, and is called when
something happens to them. A job without flags is plain: no feature is called for it.

Features are called in the order in which they are registered (``windlass.features``). This order is the order of locks: a feature may lock
rows of its own tables only after those of the features before it.

A feature also has SQL: ``postgres.sql`` and ``sqlite.sql`` in its folder, with verbs of its own and texts for the slots of the core's verbs
(``sql/both/slots.sql``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from windlass.model import Flag, JobLimit, NewJob, State
from windlass.store.database import Database, Transaction
from windlass.store.schema import statements

if TYPE_CHECKING:
    from windlass.store.jobs.checked import CheckedJob
    from windlass.store.jobs.enqueue import Inserter


class EndedJob(NamedTuple):
    """A job that ended. ``has_waited`` says that it never came into its queue: it waited for other jobs."""

    id: str
    flags: int
    state: State
    has_waited: bool = False


class MovedJob(NamedTuple):
    """A job that left its phase without an end: for a retry, or for its next phase (``is_advanced``)."""

    id: str
    flags: int
    is_advanced: bool


class RetriedJob(NamedTuple):
    """An ended job that is retried by hand, with what its history says. ``is_waiting``: it waits for its parents again."""

    id: str
    kind: str
    flags: int
    args: str
    key: str | None
    is_waiting: bool = False


class EditedJob(NamedTuple):
    """A job that has not begun and is given other arguments. ``reason`` is why it is not in its queue, None for a queued one. ``limits`` are the
    limits that the new arguments lead to by the code of its kind, ``limits_before`` those that the arguments before led to."""

    id: str
    kind: str
    phase: str
    flags: int
    state: State
    reason: str | None
    limits_before: Sequence[JobLimit] = ()
    limits: Sequence[JobLimit] = ()


@dataclass(slots=True)
class Insertion:
    """One call that stores jobs. ``instead`` names, for a request that made no job, the job that takes its place; those of its keys that are in
    ``replaced`` changed that job."""

    tx: Transaction
    inserter: Inserter
    is_ours: bool
    """The store makes these jobs by itself, and not an application that knows what their phases allow."""
    instead: dict[str, str] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    notes: dict[str, Any] = field(default_factory=dict)
    """Notes of features from before the insert for after it, by the feature's name."""
    notify: bool = True
    """Whether the transaction may notify; one that will be prepared may not."""

    def hint_later(self) -> None:
        """Hint, when the transaction commits, that upkeep has to do something at a time that it does not know yet."""
        if self.notify:
            self.inserter.hint_later(self.tx)

    @property
    def stamp(self) -> Callable[[datetime], Any]:
        return self.inserter.stamp


@dataclass(slots=True)
class Recording:
    """One transaction that records ends. ``is_foreign``: the caller commits it, perhaps much later."""

    tx: Transaction
    inserter: Inserter
    db: Database
    is_foreign: bool = False
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    """Functions that features want called once the transaction is committed: log lines. Only the start of jobs calls them."""


@dataclass(slots=True)
class Retrying:
    """One retry by hand; ``dependents``: of the jobs that were cancelled because of it, too."""

    tx: Transaction
    db: Database
    dependents: bool


class Agenda(Protocol):
    """The work that is due, from one read of the database (``AgendaItems``)."""

    def has(self, name: str) -> bool:
        """Whether the column of that name says that there is something to do."""

    def seconds(self, name: str) -> float | None:
        """The seconds that the column of that name says are left until there is something to do; None if there is nothing."""


class FeatureDuty(NamedTuple):
    """Background work of a feature, on any instance. ``run`` returns the seconds until there may be more to do, or
    None. Duties that take long (``is_long``) run behind the others."""

    name: str
    is_due: Callable[[Agenda], bool]
    run: Callable[[Agenda], float | None]
    is_long: bool = False


class PutOff(Exception):  # noqa: N818  a signal between a feature and the core, never seen by callers
    """A retry that has to wait until the feature has finished something about the job; ``finish`` does that, outside the transaction."""

    def __init__(self, finish: Callable[[Database, Inserter], None]) -> None:
        super().__init__()
        self.finish = finish


class Feature:
    """The hooks at each point of a job's life; a feature overrides those it needs."""

    name: ClassVar[str]
    flag: ClassVar[Flag]
    is_alone: ClassVar[bool] = False
    """Whether an enqueue with this feature reads before and after its insert, so that a repeat must be detected."""

    # ---------------------------------------------------------------- storing

    def is_asked(self, job: NewJob) -> bool:
        """Whether a request asks for this feature."""
        return False

    def check(self, job: CheckedJob) -> CheckedJob:
        """Refuse a request that cannot work (``ConfigError``), before anything is written; set the flag where rows will be there."""
        return job

    def check_all(self, jobs: Sequence[CheckedJob]) -> None:
        """Refuse requests of one call that cannot work together."""

    def may_wait(self, job: NewJob) -> bool:
        """Whether another session's open transaction can keep this job from being stored."""
        return False

    def before_insert(self, call: Insertion, jobs: list[CheckedJob]) -> list[CheckedJob]:
        """Called with the jobs that are to be stored; returns those that still are."""
        return jobs

    def after_insert(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        """Called when the rows of the jobs are there."""

    def on_replaced(self, call: Insertion, job: CheckedJob) -> None:
        """A later request gave a waiting job (of this id) its own arguments: what the feature keeps for it is replaced, too."""

    def kind_flags(self, db: Database) -> Mapping[str, int]:
        """Flags that jobs get by their kind; for jobs that are streamed into their queue."""
        return {}

    # ---------------------------------------------------------------- living

    def on_recorded(
        self, call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob]
    ) -> Sequence[EndedJob]:
        """Called when jobs with the flag ended or left their phase; returns jobs that end because of that, for the features behind this one."""
        return ()

    def on_start(self, call: Recording, jobs: Sequence[str]) -> Collection[str]:
        """Called before the start of held jobs with the flag is stored, if the flag is one of ``UNBEGUN``, in the same transaction and with
        their rows locked; returns the jobs that must not start, which the feature has ended."""
        return ()

    def on_cancel(self, tx: Transaction, job_ids: Sequence[str]) -> None:
        """Called when jobs are cancelled: they have ended, or their holders will be notified."""

    def on_retried(self, call: Retrying, jobs: Sequence[RetriedJob]) -> None:
        """Called when jobs are retried by hand, with any flags; raises to refuse that."""

    def on_edited(self, tx: Transaction, job: EditedJob) -> None:
        """Called before a job that has not begun, whose row is locked, is given other arguments, with any flags: derive anew what was derived
        from the arguments, or raise ``ActRefusedError`` where that is not possible."""

    def on_deleted(self, tx: Transaction, jobs: Sequence[EndedJob]) -> None:
        """Called before ended jobs, whose rows are locked, are removed by hand, with any flags; raises to refuse that."""

    # ---------------------------------------------------------------- upkeep

    def duties(self, db: Database, inserter: Inserter, every: float) -> Sequence[FeatureDuty]:
        """The feature's background duties, each run at least every ``every`` seconds."""
        return ()

    def will_queue(self, agenda: Agenda, *, has_waiting: bool) -> bool:
        """Whether a duty is about to move jobs into their queues; ``has_waiting``: jobs wait in the phases that are asked about."""
        return False

    def on_pruned(self, db: Database) -> None:
        """Called after old jobs were removed: remove rows that are no longer needed."""


_registered: list[Feature] = []


def register(*features: Feature) -> None:
    """Register features; they are called after those that are registered already."""
    for feature in features:
        if all(feature.name != known.name for known in _registered):
            _registered.append(feature)
            statements.add_folder(type(feature).__module__.rpartition(".")[0])


def features() -> Sequence[Feature]:
    """All features, in the order of their locks. They are loaded by the first call: nothing may be checked or stored without them."""
    if not _registered:
        import_module("windlass.features")
    return _registered


def carry(
    call: Recording,
    ended: Sequence[EndedJob],
    moved: Sequence[MovedJob] = (),
    *,
    behind: str | None = None,
) -> None:
    """Call features for jobs that ended or left their phase, and for jobs that end because of that; only the features behind the one
    named ``behind``, where it is given."""
    known = list(ended)
    names = [feature.name for feature in _registered]
    for feature in _registered[names.index(behind) + 1 if behind else 0 :]:
        mine = [job for job in known if int.__and__(job.flags, feature.flag)]
        left = [job for job in moved if int.__and__(job.flags, feature.flag)]
        if mine or left:
            known += feature.on_recorded(call, mine, left)


def cancelled(tx: Transaction, job_ids: Sequence[str]) -> None:
    """Call features for jobs that are cancelled."""
    for feature in _registered:
        feature.on_cancel(tx, job_ids)


def edited(tx: Transaction, job: EditedJob) -> None:
    """Call features for a job that is given other arguments."""
    for feature in _registered:
        feature.on_edited(tx, job)


def deleted(tx: Transaction, jobs: Sequence[EndedJob]) -> None:
    """Call features for ended jobs that are removed by hand."""
    for feature in _registered:
        feature.on_deleted(tx, jobs)


def retry(call: Retrying, jobs: Iterable[RetriedJob]) -> None:
    """Call features for jobs that are retried by hand."""
    given = list(jobs)
    for feature in _registered:
        feature.on_retried(call, given)


__all__ = [
    "Agenda",
    "EditedJob",
    "EndedJob",
    "Feature",
    "FeatureDuty",
    "Insertion",
    "MovedJob",
    "PutOff",
    "Recording",
    "RetriedJob",
    "Retrying",
    "cancelled",
    "carry",
    "deleted",
    "edited",
    "features",
    "register",
    "retry",
]
