"""The results of a holder's calls: of a step, and of a heartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from windlass.model import Lease, Verdict


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step: a verdict for each outcome, in order, the jobs claimed, and the reasons of cancels, by job id."""

    verdicts: Sequence[Verdict]
    claimed: Sequence[Lease]
    reasons: Mapping[str, str] | None = None


class CancelRequest(NamedTuple):
    """A request to stop a job. It counts for this claim of the job only: by the time it arrives, the job may have been claimed again."""

    job: str
    token: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The result of a heartbeat: jobs to stop, and how many jobs of lost claims went back to their queues."""

    cancelled: Sequence[CancelRequest]
    released: int
