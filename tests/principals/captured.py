"""Jobs with a principal, and what is stored of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.conformance.bystanders import rows
from tests.conformance.life import claim_one, one
from windlass.features import Store
from windlass.model.principal import Principal
from windlass.principals.sealed_tokens import TokenKeys

DAY = timedelta(days=1)
USER = Principal(
    "u-7",
    tenant="acme",
    roles={"read", "write"},
    attributes={"county": ["Harju", "Võru"], "level": 3},
    issuer="https://id.example",
    token_id="t-1",
)
OTHER = Principal("u-8", tenant="acme", roles={"read"})
KEYS = TokenKeys({"k": bytes(32)})


def asked(store: Store, job_id: str) -> Principal | None:
    found = store.principals.get(job_id)
    return found.principal if found else None


def captured(store: Store) -> set[str]:
    return {row["job"] for row in rows(store, "principal")}


def ended(store: Store, kind: str = "work", **options: Any) -> str:
    """A job that somebody asked for, completed."""
    job_id = one(store, kind, principal=USER, **options)
    holder = store.join()
    holder.complete(claim_one(holder, kind))
    holder.step()
    holder.leave()
    return job_id
