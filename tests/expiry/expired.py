"""What tests of expiry ask about a job."""

from __future__ import annotations

from tests.conformance.bystanders import rows
from windlass.features import Store
from windlass.model import Flag, State


def expired(store: Store, job_id: str) -> bool:
    job = store.jobs.get(job_id)
    return job.state is State.CANCELLED and (job.error or {})["code"] == "expired"


def flagged(store: Store, job_id: str) -> bool:
    found = rows(store, "jobs", f"id = '{job_id}'")
    return bool(found[0]["flags"] & Flag.EXPIRES)
