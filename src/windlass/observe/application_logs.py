"""The application's own logging: whether there is any, and how a worker leaves it as it is.

A worker imports Windlass before the application. A handler that the worker installed before the application's import would turn
``logging.basicConfig`` of the application into a no-op, and ``dictConfig`` with ``disable_existing_loggers`` (its default) would silence
Windlass's loggers, because they exist already. So a worker decides after the import.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from windlass.observe.logs import JobFields, LineHandler, formatter_for
from windlass.observe.redaction import Secrets

OURS = "windlass"


class Logging(Enum):
    """Who takes care of log lines in this process."""

    APPLICATION = "application"
    """The application configured logging, and its handlers get Windlass's lines."""
    APPLICATION_WITHOUT_US = "application, without Windlass"
    """Django's LOGGING leads Windlass's lines nowhere: they need a handler of their own, and nothing else is touched."""
    NOBODY = "nobody"
    """Logging is as Python starts it."""


def find() -> Logging:
    """Who takes care of log lines, after the application was imported."""
    if logging.getLogger(OURS).hasHandlers():
        return Logging.APPLICATION
    return Logging.APPLICATION_WITHOUT_US if _has_django_logging() else Logging.NOBODY


def enable_loggers() -> None:
    """Enable Windlass's loggers that ``dictConfig`` disabled only because Windlass had been imported before. The application's levels and
    handlers decide what is shown of them, as in its other processes."""
    for name, logger in list(logging.getLogger().manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and (name == OURS or name.startswith(f"{OURS}.")):
            logger.disabled = False


@contextmanager
def while_loading() -> Iterator[None]:
    """While the application is imported: write warnings that no handler takes in the form of the worker's own log. This replaces Python's
    handler of last resort, which neither ``basicConfig`` nor ``dictConfig`` knows of."""
    before = logging.lastResort
    handler = LineHandler(sys.stderr, formatter_for("auto", sys.stderr, Secrets()), JobFields())
    handler.setLevel(logging.WARNING)
    logging.lastResort = handler
    try:
        yield
    finally:
        logging.lastResort = before
        enable_loggers()


def _has_django_logging() -> bool:
    """Whether a Django project that is set up in this process has a LOGGING of its own."""
    conf: Any = sys.modules.get("django.conf")
    if conf is None or not conf.settings.configured:
        return False
    return bool(conf.settings.LOGGING_CONFIG and conf.settings.LOGGING)
