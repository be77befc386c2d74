"""Deploy marks: when which code began to run, for the charts. They are records of the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from windlass.audit.deploys import CODE, DEPLOY, MARK
from windlass.control.given import check_count
from windlass.control.noun import Noun, off_loop
from windlass.control.system_views import DeployMark as DeployMark
from windlass.errors import ConfigError
from windlass.store.validators import is_text

MOST = 200
MAX_TEXT = 200


class DeployControl(Noun):
    """Marks deploys, and lists the marks."""

    def mark(self, text: str) -> DeployMark:
        """Mark this moment on the charts: ``app.deploys.mark("release 41")``."""
        self._actor.require_all("mark a deploy")
        if not is_text(text) or not text.strip() or len(text) > MAX_TEXT:
            raise ConfigError("text", text, f"a text of 1 to {MAX_TEXT} characters, such as a version")
        record = self._record(MARK, DEPLOY, self._source.redacted(text.strip()))
        self._audited(record, lambda also: self._store.db.transact(also))
        return self.list(limit=1)[0]

    def list(self, *, since: datetime | None = None, limit: int = 50) -> Sequence[DeployMark]:
        """The marks, newest first; of several workers that started with the same version only the first."""
        self._actor.require_all("list deploy marks")
        check_count("limit", limit)
        records = self._store.audit.list(target=DEPLOY, since=since, limit=MOST).records
        marks: list[DeployMark] = []
        for record in reversed(records):
            is_code = record.act == CODE
            earlier = next((one.text for one in reversed(marks) if one.is_code), None)
            if record.at is None or (is_code and earlier == record.name):
                continue
            marks.append(DeployMark(at=record.at, text=record.name, actor=record.actor, is_code=is_code))
        return marks[::-1][:limit]

    mark_async = off_loop(mark)
    list_async = off_loop(list)
