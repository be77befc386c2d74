"""Principals that ask for jobs, and what is stored of them."""

from __future__ import annotations

from typing import Any

from windlass.model import Job
from windlass.model.principal import Principal

USER = Principal("u-7", tenant="acme", roles={"read", "write"}, attributes={"county": ["Harju", "Tartu"]})
SMALL = USER.narrowed(roles=["read"])
OTHER = Principal("u-8", tenant="acme", roles={"read"})


def code(job: Job) -> str:
    assert job.error is not None, job.state
    return str(job.error["code"])


def asked(shop: Any, job: Any) -> Principal | None:
    found = shop.store.principals.get(getattr(job, "id", job))
    return found.principal if found else None
