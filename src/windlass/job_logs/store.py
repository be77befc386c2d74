"""Stores and reads the log lines of jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby

from windlass.job_logs.lines import AttemptLog, LogLine, Pending
from windlass.store.database import Database
from windlass.store.ids import is_id


class JobLogs:
    """The log lines of one database's jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, parts: Mapping[tuple[str, int], Pending]) -> None:
        """Store the next part of each attempt's lines, by job and token."""
        rows = [
            {
                "job": job,
                "token": token,
                "part": pending.part,
                "attempt": pending.attempt,
                "phase": pending.phase,
                "lines": [line.to_json() for line in pending.lines],
            }
            for (job, token), pending in sorted(parts.items(), key=lambda item: item[0])
        ]
        self._db.run("job_log.put", parts=json.dumps(rows, ensure_ascii=False).replace("\\u0000", "\\ufffd"))

    def read(self, job_id: str) -> Sequence[AttemptLog]:
        """The lines of a job, attempt by attempt, oldest first."""
        rows = self._db.read("job_log.read", id=job_id) if is_id(job_id) else []
        return [
            AttemptLog(
                phase,
                attempt,
                [LogLine.from_json(line) for row in group for line in json.loads(row[3])],
            )
            for (_, phase, attempt), group in groupby(rows, lambda row: row[:3])
        ]
