"""The day's parcels."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from windlass.model import After, NewJob
from windlass.store.ids import new_id

KIND = "parcel"
PACK, SHIP = "pack", "ship"

DELAYED = 30
DEPENDENT = 30
IMPOSSIBLE = "nowhere"
NOT_WANTED = "not-wanted"


def day_of(round_name: str, parcels: int) -> list[NewJob]:
    """Orders for one round: plain ones, some due in a moment, some that may start only after another one was shipped,
    one whose address does not exist and one that will be cancelled. All have the round as their correlation id."""
    delayed = min(DELAYED, parcels // 5)
    dependent = min(DEPENDENT, parcels // 5)
    plain = parcels - delayed - dependent - 2

    def order(address: str, **options: Any) -> NewJob:
        plain = NewJob(
            kind=KIND, phase=PACK, args={"address": address}, correlation_id=round_name, id=new_id()
        )
        return replace(plain, **options)

    jobs = [order(f"street {n}", priority=n % 3 + 4) for n in range(plain)]
    jobs += [order(f"later street {n}", delay=timedelta(seconds=1 + n / 10)) for n in range(delayed)]
    parents = [job.id for job in jobs if job.id is not None]
    jobs += [order(f"second parcel {n}", after=[After(parents[n])]) for n in range(dependent)]
    jobs.append(order(IMPOSSIBLE, max_attempts=2))
    jobs.append(order(NOT_WANTED, delay=timedelta(seconds=2)))
    return jobs
