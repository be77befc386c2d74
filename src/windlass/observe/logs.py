"""Structured logs on the standard library's ``logging``: one line for each call, with the fields of its job.

    logs.configure(level="info", style="auto")          # console lines on a terminal, JSON lines elsewhere
    logging.getLogger("shop").info("charged", extra={"order": 7})

Lines that a handler logs have its job's id, attempt and correlation id. Applications that configure logging themselves add the filter
``JobFields`` to one of their log handlers.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from windlass.closing import Closing
from windlass.errors import ConfigError
from windlass.observe.current_job import current_fields
from windlass.observe.formats import ConsoleFormatter, JsonFormatter
from windlass.observe.redaction import Redaction, Secrets
from windlass.ranges import is_whole

LEVELS = ("debug", "info", "warning", "error", "critical")
STYLES = ("auto", "console", "json")


class JobFields(logging.Filter):
    """Adds the running job's fields to every record that has none; lets all records pass."""

    def __init__(self, instance: Callable[[], str | None] = lambda: None) -> None:
        super().__init__()
        self._instance = instance

    def filter(self, record: logging.LogRecord) -> bool:
        known = record.__dict__
        for name, value in current_fields().items():
            known.setdefault(name, value)
        if "instance" not in known:
            try:
                instance = self._instance()
            except Exception:  # noqa: BLE001  the instance has not joined yet
                instance = None
            if instance:
                known["instance"] = instance
        return True


class PoolMessages(logging.Filter):
    """Drops the messages of our connection pools about each attempt to reach a database that is away: several lines a second,
    where the engine logs one (``store.unreachable``)."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != "psycopg.pool" or record.levelno >= logging.ERROR:
            return True
        pool = record.args[0] if isinstance(record.args, tuple) and record.args else None
        return not (isinstance(pool, str) and pool.startswith("windlass-"))


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream and never raises: a log that cannot be written must not end a job."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter, fields: logging.Filter) -> None:
        super().__init__(stream)
        self.lost = 0
        self.logs: Logs | None = None
        self.setFormatter(formatter)
        self.addFilter(PoolMessages())
        self.addFilter(fields)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
            encoding = getattr(self.stream, "encoding", None)
            if encoding and encoding.lower().replace("-", "") != "utf8":
                line = line.encode(encoding, "backslashreplace").decode(encoding)
            self.stream.write(line + "\n")
            self.stream.flush()
        except Exception:  # noqa: BLE001  the stream is closed, full or gone
            self.lost += 1


class Logs(Closing):
    """The log handler that ``configure`` installed; ``close`` restores the loggers."""

    def __init__(
        self,
        handler: LineHandler,
        secrets: Secrets,
        loggers: list[logging.Logger],
        options: Mapping[str, Any],
        instance: Callable[[], str | None],
    ) -> None:
        self.handler = handler
        self.secrets = secrets
        self.options = options
        self.instance = instance
        handler.logs = self
        self._before = [(logger, logger.level, logger.propagate) for logger in loggers]

    def close(self) -> None:
        """Remove the handler."""
        for logger, level, propagates in self._before:
            if self.handler in logger.handlers:
                logger.removeHandler(self.handler)
                logger.setLevel(level)
                logger.propagate = propagates
        self.handler.close()


def configure(
    level: str | int = "info",
    style: str = "auto",
    stream: TextIO | None = None,
    *,
    secrets: Secrets | None = None,
    instance: Callable[[], str | None] = lambda: None,
    root: bool = True,
    tracebacks: bool = True,
) -> Logs:
    """Send the logs of this process to ``stream`` (standard error); a second call replaces the first.

    One handler serves the logger ``windlass`` and, unless ``root`` is False, the root logger, so that lines of handlers have
    the same form. Whole tracebacks are shown on the console, below their line, unless
    ``tracebacks`` is False; JSON lines always have them.
    """
    number = _level(level)
    if style not in STYLES:
        raise ConfigError("log style", style, f"one of {', '.join(STYLES)}")
    stream = sys.stderr if stream is None else stream
    secrets = secrets or Secrets()
    if style == "auto":
        style = "console" if _is_terminal(stream) else "json"
    formatter = formatter_for(style, stream, secrets, tracebacks=tracebacks)
    ours = logging.getLogger("windlass")
    loggers = [ours, logging.getLogger()] if root else [ours]
    if (before := _installed()) is not None:
        before.close()
    options = {"level": number, "style": style, "root": root, "tracebacks": tracebacks}
    logs = Logs(LineHandler(stream, formatter, JobFields(instance)), secrets, loggers, options, instance)
    for logger in loggers:
        logger.addHandler(logs.handler)
        logger.setLevel(number)
    ours.propagate = False  # otherwise the root logger's handlers would repeat its lines
    return logs


def formatter_for(
    style: str, stream: TextIO, secrets: Secrets, *, tracebacks: bool = True
) -> logging.Formatter:
    """The formatter of a style for lines on this stream, with ANSI escapes only on a terminal."""
    is_terminal = _is_terminal(stream)
    if style == "json" or (style == "auto" and not is_terminal):
        return JsonFormatter(secrets)
    return ConsoleFormatter(secrets, colours=is_terminal and _wants_colours(), tracebacks=tracebacks)


def hide(*values: str) -> None:
    """Hide these texts in the log lines of this process until ``forget``; does nothing without ``configure``."""
    if (logs := _installed()) is not None:
        logs.secrets.add(*values)


def forget(*values: str) -> None:
    """Hide these texts no longer."""
    if (logs := _installed()) is not None:
        logs.secrets.forget(*values)


def redact_with(own: Redaction | None) -> None:
    """Apply a function of the application to the log lines of this process as well; does nothing without ``configure``."""
    if own is not None and (logs := _installed()) is not None:
        logs.secrets.own = own


def options_for_child() -> dict[str, Any] | None:
    """Options, as JSON, with which a child process logs like this one; None if ``configure`` was not called."""
    logs = _installed()
    return None if logs is None else {**logs.options, "secrets": logs.secrets.as_arguments()}


def current_instance() -> str | None:
    """The instance that log lines of this process name now."""
    logs = _installed()
    return None if logs is None else logs.instance()


def adopt(settings: Mapping[str, Any], instance: Callable[[], str | None] = lambda: None) -> Logs:
    """In a child process: log like the parent, to this process's standard error, for its ``instance``."""
    options = {name: value for name, value in settings.items() if name != "secrets"}
    return configure(**options, secrets=Secrets(**settings["secrets"]), instance=instance)


def _installed() -> Logs | None:
    found = (
        handler.logs for handler in logging.getLogger("windlass").handlers if isinstance(handler, LineHandler)
    )
    return next(found, None)


def _level(level: str | int) -> int:
    if isinstance(level, str) and level.lower() in LEVELS:
        return int(logging.getLevelNamesMapping()[level.upper()])
    if is_whole(level, 0):
        return level
    raise ConfigError("log level", level, f"one of {', '.join(LEVELS)}")


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # not a file, or closed
        return False


def _wants_colours() -> bool:
    """Whether to use ANSI escapes; not with ``NO_COLOR`` (``no-color.org``)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
