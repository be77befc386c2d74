"""The codes of ``app.jobs.why``, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class WhyCode(StrEnum):
    """Why a job is not running. The order is that of precedence: of several reasons that hold at once, the one that stands first here is the
    code of the result, and the others are in ``also``. What a job waits for by itself (its time, its parents, a place) comes before what its
    phase waits for, and that before what single instances wait for."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> WhyCode:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    UNKNOWN = "unknown", "There is no job of this id: it never existed, or it ended and was pruned."
    ENDED = "ended", "The job completed, failed or was cancelled."
    FAN_IN = "fan_in", "A rule has not made a child of the job yet: jobs of other kinds are missing."
    LEASE_EXPIRED = "lease_expired", "The instance that holds the job is dead; recovery is due."
    CANCEL_REQUESTED = (
        "cancel_requested",
        "A cancel was requested, and the holder has not stopped the job yet.",
    )
    DEPENDENCIES = "dependencies", "The job waits for other jobs."
    SCHEDULED = "scheduled", "The job is scheduled for a time that has not come."
    RETRY = "retry", "An attempt failed, and the time of the next one has not come."
    NOT_PROMOTED = "not_promoted", "The job is due, and upkeep has not moved it into its queue yet."
    LIMIT = "limit", "All places of the job's concurrency limit are taken."
    RATE = "rate", "The rate of the phase allows no further job now."
    PAUSED = "paused", "The phase is paused."
    NO_INSTANCE = "no_instance", "No living instance serves the phase."
    BACKPRESSURE = "backpressure", "The next phase of the pipeline is full, so this phase is held back."
    QUIET = "quiet", "Instances do not claim jobs that became ready so recently."
    LOCK_HELD = "lock_held", "Another process holds the lock of the job, or no lock can be acquired."
    ISOLATED = "isolated", "The job has to run in a process of its own, and waits for one."
    INSTANCE_CAP = "instance_cap", "The instances run as many jobs as they may."
    AHEAD = "ahead", "The job is in its queue, behind other jobs."
    PROCESSING = "processing", "The job is being processed."


PRECEDENCE = {code: place for place, code in enumerate(WhyCode)}


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job is not running: a ``code``, a ``sentence`` for people that says what happens next, and ``details``, facts as JSON (times, ids,
    counts). ``also`` has the further reasons that hold at the same time, the most decisive first."""

    code: WhyCode
    sentence: str
    details: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[Why, ...] = ()

    def __str__(self) -> str:
        return f"{self.code}: {self.sentence}"
