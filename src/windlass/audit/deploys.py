"""Records of deploys: marks of people and scripts, and starts of workers with another version of the code."""

from __future__ import annotations

from windlass.audit.record import SYSTEM, AuditRecord
from windlass.audit.store import AuditTrail
from windlass.store.database import Database

DEPLOY = "deploy"
MARK, CODE = "deploy.mark", "deploy.code"


def note_version(db: Database, version: str, running: list[str]) -> bool:
    """Record the version of a worker that starts; not if the last recorded one is the same, or if another worker is ``running`` with it: while
    a fleet is replaced, workers of both versions start. Returns whether it was recorded."""
    trail = AuditTrail(db)
    latest = next((one.name for one in trail.list(target=DEPLOY, limit=200).records if one.act == CODE), None)
    if version == latest or version in running:
        return False
    record = AuditRecord(actor=SYSTEM, act=CODE, target=DEPLOY, name=version)
    db.transact(lambda tx: trail.write(tx, record))
    return True
