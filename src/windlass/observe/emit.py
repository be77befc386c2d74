"""Writes one log record for one event: its name, its level, its text and its fields. The events are in events.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from windlass.model import Job, Lease
from windlass.observe.current_job import lease_fields
from windlass.observe.logger import get_logger

log = get_logger("windlass.engine")


class Event(NamedTuple):
    """A kind of log record. ``text`` is a format string over the words and the fields that ``emit`` is given."""

    name: str
    level: int
    text: str


class JobMessage(str):
    """A message about a job. As a text it begins with the job, for the application's own formats and Python's default one; ``own`` is the
    message alone, for Windlass's formats, which show the job in fields."""

    __slots__ = ("own",)
    own: str


def job_message(message: str, fields: Mapping[str, Any]) -> str:
    """The message of a record with these fields; one about an attempt of a job names the job."""
    if "job_id" not in fields or "attempt" not in fields:
        return message
    named = JobMessage("{phase} {job_id}, attempt {attempt}/{max_attempts}: ".format_map(fields) + message)
    named.own = message
    return named


def emit(
    event: Event,
    *words: object,
    lease: Lease | Job | None = None,
    level: int | None = None,
    exc_info: BaseException | None = None,
    stacklevel: int = 2,
    **fields: Any,
) -> None:
    """Write one record; nothing is formatted while its level is off.

    ``words`` are shown in the text only. ``fields``, and those of the ``lease``, are also part of the record; a field that is None is not.
    """
    level = event.level if level is None else level
    if not log.isEnabledFor(level):
        return
    if lease is not None:
        fields |= lease_fields(lease)
    message = event.text.format(*words, **fields)
    known = {name: value for name, value in fields.items() if value is not None}
    known["event"] = event.name
    log.log(level, job_message(message, fields), exc_info=exc_info, extra=known, stacklevel=stacklevel)
