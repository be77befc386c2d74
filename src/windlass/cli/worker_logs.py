"""The log of a worker process: its own, or that of the application."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.cli.load_app import load_app
from windlass.observe import application_logs, events, logs
from windlass.observe.application_logs import Logging
from windlass.observe.emit import emit

if TYPE_CHECKING:
    from windlass.app.app import App

LEVEL = "info"


def load_and_log(
    target: str, style: str, level: str | None, instance: Callable[[], str], *, flags: Mapping[str, Any]
) -> App:
    """Load the app, with these settings of the command line, and decide who logs.

    ``console`` and ``json`` are the worker's own log, configured before the import. ``none`` leaves logging alone, and so does ``auto``
    where the application configured it; otherwise ``auto`` is the worker's own log, configured after the import.
    """
    if style == "none":
        loaded = _load(target, flags)
        application_logs.enable_loggers()
        return _unconfigured(loaded, level)
    if style in ("console", "json"):
        made = logs.configure(level or LEVEL, style, instance=instance)
        loaded = _load(target, flags)
        application_logs.enable_loggers()
    else:
        with application_logs.while_loading():
            loaded = _load(target, flags)
        found = application_logs.find()
        if found is Logging.APPLICATION:
            return _unconfigured(loaded, level)
        made = logs.configure(level or LEVEL, style, instance=instance, root=found is Logging.NOBODY)
    made.secrets.add_url(loaded.url)
    made.secrets.own = loaded.parts.redaction
    return loaded


def _load(target: str, flags: Mapping[str, Any]) -> App:
    loaded = load_app(target)
    loaded.parts.use_flags(flags)
    return loaded


def _unconfigured(loaded: App, level: str | None) -> App:
    if level is not None:
        emit(events.LEVEL_UNUSED, wanted=level)
    return loaded
