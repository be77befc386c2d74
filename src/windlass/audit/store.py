"""Writes and reads the audit trail."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windlass.audit.record import AuditPage, AuditRecord
from windlass.errors import ConfigError
from windlass.ranges import is_time, is_whole
from windlass.store.database import Database, Row, Transaction
from windlass.store.ids import LARGEST, SMALLEST, first_at, is_id
from windlass.store.jobs.rows import clean

MAX_PAGE = 1000
MAX_TEXT = 1000
CLOCKS_DIFFER = 3600.0
"""Seconds: an id has the time of the machine that made it, and ``at`` that of the database."""
EVERYTHING: Mapping[str, str | None] = {"sees": "all", "subject": None, "issuer": None, "tenant": None}


class AuditTrail:
    """The audit trail of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, tx: Transaction, record: AuditRecord) -> None:
        """Store a record in the transaction of the act that it describes."""
        values = _values(record)
        tx.run("audit.write", **values, before=_json(record.before), after=_json(record.after))

    def write_all(self, tx: Transaction, records: Sequence[AuditRecord]) -> None:
        """Store the records of acts on many jobs, in one statement."""
        if records:
            rows = [{**_values(one), "before": one.before, "after": one.after} for one in records]
            tx.run("audit.write_all", records=_json(rows))

    def list(
        self,
        *,
        target: str | None = None,
        name: str | None = None,
        actor: str | None = None,
        scope: Mapping[str, str | None] = EVERYTHING,
        since: datetime | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> AuditPage:
        """Records from newest to oldest, a page at a time; ``scope`` says whose acts the reader may see, as in the SQL fragment ``is_audited``."""
        if not is_whole(limit, 1, MAX_PAGE):
            raise ConfigError("limit", limit, f"a whole number from 1 to {MAX_PAGE}")
        if cursor is not None and not is_id(cursor):
            raise ConfigError("cursor", cursor, "the next_cursor of the page before")
        if since is not None and not is_time(since):
            raise ConfigError("since", since, "a time with a time zone")
        if name is not None and target is None:
            raise ConfigError(
                "target",
                target,
                "the type of what name names: job, phase, schedule, operation, instance, rule, token, deploy or database",
            )
        verb, named = _index(target, name, actor, scope)
        rows = self._db.read(
            verb,
            **named,
            **{"from": SMALLEST if since is None else first_at(since.timestamp() - CLOCKS_DIFFER)},
            cursor=cursor or LARGEST,
            actor=actor,
            since=since,
            **scope,
            limit=limit + 1,
        )
        records = [self._record(row) for row in rows[:limit]]
        return AuditPage(records, records[-1].id if len(rows) > limit else None)

    def _record(self, row: Row) -> AuditRecord:
        ident, at, actor, subject, issuer, tenant, act, target, name, reason, before, after = row
        return AuditRecord(
            id=str(ident),
            at=self._db.moment(at),
            actor=actor,
            subject=subject,
            issuer=issuer,
            tenant=tenant,
            act=act,
            target=target,
            name=name,
            reason=reason,
            before=None if before is None else json.loads(before),
            after=None if after is None else json.loads(after),
        )


def _index(
    target: str | None, name: str | None, actor: str | None, scope: Mapping[str, str | None]
) -> tuple[str, Mapping[str, str | None]]:
    """The verb that reads the fewest records that are not asked for, and its own parameters: one operation writes a hundred thousand records."""
    by = scope["subject"] if scope["sees"] == "own" else actor
    if name is not None:
        return "audit.of", {"target": target, "name": name}
    if target not in (None, "job"):
        return "audit.of_others", {"target": target}
    if by is not None:
        return "audit.of_actor", {"target": target, "by": clean(by, MAX_TEXT)}
    if scope["sees"] == "tenant":
        return "audit.of_tenant", {"target": target, "of": scope["tenant"]}
    return "audit.list", {"target": target}


def _values(record: AuditRecord) -> dict[str, str | None]:
    return {
        "id": record.id,
        "actor": clean(record.actor, MAX_TEXT),
        "subject": record.subject,
        "issuer": record.issuer,
        "tenant": record.tenant,
        "act": record.act,
        "target": record.target,
        "name": clean(record.name, MAX_TEXT),
        "reason": None if record.reason is None else clean(record.reason, MAX_TEXT),
    }


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, default=str, ensure_ascii=False)
