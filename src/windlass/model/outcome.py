"""A claimed job, and how its attempt may end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from windlass.model.job import DEFAULT_MAX_ATTEMPTS, Flag, JobError, Json, has_flag


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed job and the token that lets its holder write it; all a handler needs to start."""

    id: str
    token: int
    kind: str
    phase: str
    priority: int
    generation: int
    attempt: int
    max_attempts: int
    crashes: int
    flags: Flag
    args_json: Json
    correlation_id: str
    created_at: datetime
    ready_at: datetime
    claimed_at: datetime

    @property
    def args(self) -> Any:
        return json.loads(self.args_json)

    @property
    def is_suspect(self) -> bool:
        return has_flag(self.flags, Flag.SUSPECT)

    @property
    def is_recovered(self) -> bool:
        """Whether an instance that held this job has died: the job may have run before without spending an attempt."""
        return has_flag(self.flags, Flag.RECOVERED)


@dataclass(frozen=True, slots=True)
class Want:
    """Room for a claim: at most ``limit`` jobs of ``phase``; the first ``starting`` of them start at once. ``suspects`` says whether jobs
    that must run in a process of their own are wanted as well."""

    phase: str
    limit: int
    starting: int | None = None
    quiet: timedelta = timedelta(0)
    suspects: bool = True


class Run(NamedTuple):
    """Where and how long an attempt ran: the number of the processor in its pool, the time from the claim to the start, and
    the time from the start to the end. A tuple, because one is made for every job."""

    processor: int
    waited_ms: int
    ran_ms: int


Route = tuple[tuple[str, int], ...]
"""The phases of a kind in their order, each with its number of attempts; empty for a kind of one phase."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The last phase is done. With a ``route`` it is checked whether it was the last that the job had not been in."""

    lease: Lease
    result: Any = None
    run: Run | None = None
    route: Route = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """No further attempt. ``crashed`` (its own process died under it) is counted in the job's crashes."""

    lease: Lease
    error: JobError
    run: Run | None = None
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed and the job is to run again after ``delay``.

    ``crashed`` (its own process died under it) makes it a suspect and counts towards the crash cap. ``counted=False`` gives the attempt back.
    A counted retry of the last attempt is recorded as a failure: the budget is not the caller's to overdraw.
    """

    lease: Lease
    error: JobError
    delay: timedelta
    crashed: bool = False
    counted: bool = True
    run: Run | None = None


ON_REQUEST = "cancelled on request"
"""The reason of a holder that was asked to stop without one; a reason given with the request takes its place."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The holder stopped because it was asked to (``ON_REQUEST``), or because the handler said so."""

    lease: Lease
    reason: str = "cancelled"
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class Advanced:
    """The phase is done: store its output and move the job to the next phase's queue."""

    lease: Lease
    phase: str
    output: Any = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    run: Run | None = None
    route: Route = ()


@dataclass(frozen=True, slots=True)
class Released:
    """The claim is given back unrun (or stopped in the middle); ``counted`` keeps the attempt spent. An ``error`` is kept on the job's
    timeline.

    Without a ``delay`` the job goes back to its old place in its queue. With one, the job is put off: it is scheduled, and comes to the end
    of its queue after the delay. Only a job that has not run under this claim may be put off, and its attempt is not spent.
    """

    lease: Lease
    counted: bool = False
    run: Run | None = None
    error: JobError | None = None
    delay: timedelta = timedelta(0)


PhaseEnd = Completed | Failed | Cancelled | Advanced
"""An end of a phase of a pipeline: of the job, or a move to the next phase."""
Outcome = Completed | Failed | Retried | Cancelled | Advanced | Released
PlainEnd = Completed | Failed | Cancelled


class Verdict(StrEnum):
    """The database's verdict on one outcome; exactly one outcome per attempt is ever RECORDED."""

    RECORDED = "recorded"
    ALREADY_RECORDED = "already_recorded"  # this very attempt's outcome is there: the earlier reply was lost
    REROUTED = "rerouted"  # the pipeline was changed meanwhile: the job is elsewhere than the outcome says
    CANCELLED = "cancelled"  # a cancel came first: the job ended cancelled instead of going on
    LOST = "lost"  # the lease is gone; nothing was changed


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of recovery for one job of a dead instance.

    ``lease`` is the dead holder's; with the verdict ``held``, ours, under which a probe is asked. ``outcome`` is what was recorded
    in the dead holder's name and ``standing`` what the database made of it; None if the job went back to its queue or is held.
    ``error`` is what was charged to the attempt: the death of its instance, where its handler was entered. ``deaths`` are those that were
    charged to a held job before. ``reason`` is that of a cancel that was asked for.
    """

    lease: Lease
    verdict: str
    outcome: Outcome | None = None
    standing: Verdict = Verdict.RECORDED
    error: JobError | None = None
    deaths: int = 0
    reason: str | None = None

    @property
    def job_id(self) -> str:
        return self.lease.id

    @property
    def is_held(self) -> bool:
        return self.verdict == "held"
