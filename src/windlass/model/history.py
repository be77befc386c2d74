"""From how many partitions on history is a warning, and the words for it."""

from __future__ import annotations

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
