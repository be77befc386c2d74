"""The partitions of history: when they are a warning, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

MANY = 200
ADVICE = "Run `windlass db merge-history` as the owner of the tables, which makes months of old days; or keep less history (`windlass db prune`)."


def partition_warning(partitions: int) -> str:
    """The warning for so many partitions; empty if they are few."""
    if partitions < MANY:
        return ""
    return (
        f"history has {partitions} partitions; each look-up of a job plans and locks them all, which is slow from {MANY} on and may run out "
        "of the server's locks"
    )


LEAST_AHEAD = 6
"""The owner of the tables makes partitions seven days ahead, every day; fewer than this many left means that two runs are missing."""
OWNER_ADVICE = (
    "Run `windlass db migrate` as the owner of the tables every day, which makes the partitions of the next seven days; "
    "or let the workers connect as the owner."
)


@dataclass(frozen=True, slots=True)
class PartitionsLeft:
    """How many days of history have a partition, for a role that may make none: ``day`` is the first one without, ``ahead`` days from now."""

    day: date
    ahead: int

    @property
    def is_late(self) -> bool:
        """Whether the owner should have made more by now."""
        return self.ahead < LEAST_AHEAD

    @property
    def text(self) -> str:
        """The words for logs and health."""
        if self.ahead <= 0:
            return "this role may not make partitions of history, and today has none: jobs cannot be finished"
        return f"this role may not make partitions of history; from {self.day} on there is none, and jobs could not be finished"
