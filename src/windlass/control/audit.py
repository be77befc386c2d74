"""The audit trail as an actor may read it: all of it, that of the tenant, or the actor's own acts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from windlass.audit.record import AuditPage
from windlass.control.given import check_texts
from windlass.control.noun import Noun, off_loop


class AuditControl(Noun):
    """Reads the audit trail."""

    def list(
        self,
        *,
        target: str | None = None,
        name: str | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> AuditPage:
        """Records from newest to oldest: of one ``target`` (job, phase, schedule, operation, instance, rule, token, deploy) and its ``name``, of one ``actor``."""
        check_texts(target=target, name=name, actor=actor)
        page = self._store.audit.list(
            target=target,
            name=name,
            actor=actor,
            since=since,
            cursor=cursor,
            limit=limit,
            scope=self._actor.scope.parameters(),
        )
        return replace(page, records=[self._payload.record(record) for record in page.records])

    list_async = off_loop(list)
