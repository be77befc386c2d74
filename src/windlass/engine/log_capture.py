"""Sees the log lines of running jobs: a factory of log records.

The factory sees every line that passes its logger's level, whatever handlers the application has, and changes nothing about the lines or
the handlers. A handler on the root logger would turn a later ``logging.basicConfig`` of the application into a no-op.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from windlass.job_logs.lines import LogLine
from windlass.model import Lease
from windlass.observe.current_job import current_job
from windlass.principals.rights import Rights


class LogCapture:
    """Calls ``sink`` with each line that a running job logs in this process, from any thread or task of the job."""

    def __init__(self, sink: Callable[[Lease, LogLine], None]) -> None:
        self._sink = sink
        self._before: Callable[..., logging.LogRecord] | None = None
        self._busy = threading.local()

    def start(self) -> None:
        self._before = logging.getLogRecordFactory()
        logging.setLogRecordFactory(self._make)

    def stop(self) -> None:
        """Stop capturing. If another library has put its own factory around this one, this one stays and passes records on."""
        self._sink = _drop
        if self._before is not None and logging.getLogRecordFactory() == self._make:
            logging.setLogRecordFactory(self._before)

    def _make(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = (self._before or logging.LogRecord)(*args, **kwargs)
        job = current_job.get()
        if job is not None and not getattr(self._busy, "now", False):
            self._busy.now = True  # a __str__ that logs must not come back here
            try:
                line = _line(record)
                context: Rights | None = getattr(job, "context", None)
                if context is not None:
                    line = line._replace(message=context.hidden(line.message))
                self._sink(job.lease, line)
            except Exception:  # noqa: BLE001, S110  a message that cannot be formatted; its own handler reports that
                pass
            finally:
                self._busy.now = False
        return record


def _drop(_lease: Lease, _line: LogLine) -> None:
    """Do nothing with a line."""


def _line(record: logging.LogRecord) -> LogLine:
    message = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        message = f"{message} [{type(error).__name__}: {error}]"
    return LogLine(
        datetime.fromtimestamp(record.created, UTC), record.levelname.lower(), record.name, message
    )
