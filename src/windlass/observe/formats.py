"""The two forms of a log line: a JSON object for machines, aligned text for people. Neither raises for any record."""

from __future__ import annotations

import json
import logging
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from windlass.observe.emit import JobMessage
from windlass.observe.redaction import HIDDEN, Secrets
from windlass.observe.safe_text import escaped, json_escaped, plain, safe_str, shown, shown_end

JOB_FIELDS = (
    "job_id", "kind", "phase", "attempt", "max_attempts", "correlation_id", "processor", "instance",
)  # fmt: skip
"""The fields of a line about its job; all other fields of the record are in ``fields``."""

TRACEBACK_LIMIT = 8192

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", None, None))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",  # Uvicorn's message once more, with codes for a terminal
}
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}

SELF_CONTAINED = frozenset({"instance.health", "job.summary"})  # events whose message shows all their fields


class _Formatter(logging.Formatter, ABC):
    """The parts of a record that both forms have."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        try:
            return self._line(record)
        except Exception as error:  # noqa: BLE001  a log line must not end a job
            return self._last_resort(record, type(error).__name__)

    @abstractmethod
    def _line(self, record: logging.LogRecord) -> str:
        """The record in this form."""

    @abstractmethod
    def _last_resort(self, record: logging.LogRecord, why: str) -> str:
        """A short line for a record that cannot be formatted."""

    def _message(self, record: logging.LogRecord) -> str:
        try:
            text = record.msg.own if isinstance(record.msg, JobMessage) else record.getMessage()
        except Exception as error:  # noqa: BLE001  arguments that do not fit, or cannot be shown
            text = f"{safe_str(record.msg)} (its arguments could not be formatted: {type(error).__name__})"
        return safe_str(self._secrets.apply_own(shown(text, self._secrets)))

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The caller's own fields."""
        found: dict[str, Any] = {}
        for name, value in record.__dict__.items():
            if name in _STANDARD or name in JOB_FIELDS or name == "event":
                continue
            if name == "error" and isinstance(value, Mapping):
                continue
            found[shown(name, self._secrets, 200)] = (
                HIDDEN if self._secrets.is_secret(name) else plain(value, self._secrets)
            )
        if record.stack_info:
            found["stack"] = shown_end(safe_str(record.stack_info), self._secrets, TRACEBACK_LIMIT)
        return self._own(found, "fields") if found else found

    def _error(self, record: logging.LogRecord) -> dict[str, Any] | None:
        """The error field of an event, or the exception of a record."""
        found = record.__dict__.get("error")  # first: it has a code, and tokens are hidden in it
        if (
            not isinstance(found, Mapping)
            and isinstance(record.exc_info, tuple)
            and isinstance(record.exc_info[1], BaseException)
        ):
            error = record.exc_info[1]
            found = {"type": type(error).__name__, "message": safe_str(error), "traceback": _trace(error)}
        if not isinstance(found, Mapping):
            return None
        made = {
            name: shown(found[name], self._secrets)
            for name in ("type", "code", "message")
            if found.get(name) is not None
        }
        if trace := found.get("traceback"):
            made["traceback"] = shown_end(safe_str(trace), self._secrets, TRACEBACK_LIMIT)
        return self._own(made, "message")

    def _own(self, found: dict[str, Any], name: str) -> dict[str, Any]:
        """What the application's own function leaves of these fields; without a mapping, one field of this name."""
        made = self._secrets.apply_own(found)
        return dict(made) if isinstance(made, Mapping) else {name: safe_str(made)}


class JsonFormatter(_Formatter):
    """One object a line: ts, level, logger, event, message, the job's fields, ``fields`` and ``error``."""

    def _line(self, record: logging.LogRecord) -> str:
        made: dict[str, Any] = {
            "ts": _utc(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": shown(record.name, self._secrets),
            "event": shown(record.__dict__.get("event") or "log", self._secrets),
            "message": self._message(record),
        }
        for name in JOB_FIELDS:
            if (value := record.__dict__.get(name)) is not None:
                made[name] = plain(value, self._secrets)
        if fields := self._fields(record):
            made["fields"] = fields
        if error := self._error(record):
            made["error"] = error
        return json_escaped(json.dumps(made, ensure_ascii=False, separators=(",", ":")))

    def _last_resort(self, record: logging.LogRecord, why: str) -> str:
        fields = {
            "level": record.levelname.lower(),
            "event": "log",
            "message": f"a record that could not be formatted: {why}",
        }
        return json_escaped(
            json.dumps({"ts": _utc(record).isoformat(), "logger": "windlass.observe", **fields})
        )


class ConsoleFormatter(_Formatter):
    """``12:00:01.234 WARN  job.retried    welcome 0190… attempt 2/3  message  name=value``."""

    def __init__(self, secrets: Secrets, *, colours: bool = False, tracebacks: bool = True) -> None:
        super().__init__(secrets)
        self._colours = colours
        self._tracebacks = tracebacks

    def _line(self, record: logging.LogRecord) -> str:
        known = record.__dict__
        level = _LEVELS.get(record.levelname, record.levelname)
        event = shown(known.get("event") or record.name, self._secrets, 100)
        parts = [f"{event:<15}", *self._job(known), self._message(record)]
        if event not in SELF_CONTAINED:
            parts += [f"{name}={_value(value)}" for name, value in self._fields(record).items()]
        correlation = known.get("correlation_id")
        if correlation and correlation != known.get("job_id"):  # the default is the job's id
            parts.append(f"correlation_id={_value(plain(correlation, self._secrets))}")
        error = self._error(record)
        if error and record.exc_info and not isinstance(known.get("error"), Mapping):
            parts.append(f"{error.get('type', 'error')}: {error.get('message', '')}")
        at = _utc(record).astimezone()
        head = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {self._paint(record.levelname, f'{escaped(level):<5}')}"
        line = f"{head} {escaped(' '.join(parts))}".rstrip()
        if self._tracebacks and error and (trace := error.get("traceback")):
            line += "".join(f"\n    | {escaped(text)}" for text in trace.splitlines())
        return line

    def _job(self, known: Mapping[str, Any]) -> list[str]:
        parts = [
            shown(known[name], self._secrets, 200)
            for name in ("kind", "job_id")
            if known.get(name) is not None
        ]
        phase, kind = known.get("phase"), known.get("kind")
        if phase is not None and phase != kind:
            parts[0:1] = [shown(phase, self._secrets, 200)]  # "kind:label" says both
        if (attempt := known.get("attempt")) is not None and (most := known.get("max_attempts")) is not None:
            parts.append(f"attempt {safe_str(attempt)}/{safe_str(most)}")
        return [*parts, ""] if parts else []

    def _paint(self, level: str, text: str) -> str:
        colour = _COLOURS.get(level) if self._colours else None
        return f"\x1b[{colour}m{text}\x1b[0m" if colour else text

    def _last_resort(self, record: logging.LogRecord, why: str) -> str:
        return f"{_utc(record).astimezone():%H:%M:%S} {escaped(record.levelname):<5} a record that could not be formatted: {why}"


def _utc(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001  __str__ or __cause__ of a user's exception raised
        return "the traceback could not be formatted"


def _value(value: Any) -> str:
    """A field's value, quoted if its end would not be clear."""
    if isinstance(value, str):
        is_plain = value and not any(char.isspace() or char in "\"'=" for char in value)
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)
