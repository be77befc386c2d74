"""Loggers that never raise, even if a handler or filter of the application does.

``logging`` catches exceptions of its own handlers. An exception of an application's handler or filter would be raised by the call that
logs: it would end a thread of the engine that holds claimed jobs, or be handled as a failure of the database.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from windlass import forking
from windlass.forking import Process


class Quiet:
    """Lets one record a second pass and counts the others."""

    def __init__(self, seconds: float = 1.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._skipped = 0
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: a thread of the parent may hold the old one."""
        self._lock = threading.Lock()

    def skipped(self) -> int | None:
        """How many records were skipped before this one; None if this one is to be skipped, too."""
        with self._lock:
            now = self._monotonic()
            if now < self._next:
                self._skipped += 1
                return None
            self._next = now + self._seconds
            count, self._skipped = self._skipped, 0
            return count


_unwritable = Quiet()
_own: ContextVar[logging.Logger | None] = ContextVar("windlass_logger", default=None)
"""The application's own logger; lines of this context are written to it."""
_known: list[logging.Logger] = []


class Guard:
    """A base before a class of loggers: reports exceptions during logging on stderr, once a second, and does not raise them."""

    name: str

    def _log(self, *arguments: Any, stacklevel: int = 1, **options: Any) -> None:
        own: Any = _own.get()
        try:
            if own is not None and own is not self:
                own._log(*arguments, stacklevel=stacklevel + 1, **options)
                return
            super()._log(*arguments, stacklevel=stacklevel + 1, **options)  # type: ignore[misc]
        except BaseException as error:  # no exception of logging is the job's fault
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # Ctrl-C of a person
            _report(self.name)


def get_logger(name: str) -> logging.Logger:
    """Return the guarded logger of this name; also if it was made before, or the application has its own logger class."""
    found = logging.getLogger(name)
    if not isinstance(found, Guard):
        found.__class__ = type("GuardedLogger", (Guard, type(found)), {})
        _known.append(found)
    return found


class Routed:
    """A base before a guarded logger once an application has its own logger: the context decides whose level counts."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  logging's name
        own: Any = _own.get()
        decides: Any = super() if own is None or own is self else own
        return bool(decides.isEnabledFor(level))


@contextmanager
def use(own: logging.Logger | None) -> Iterator[None]:
    """Write the lines of this context, and of threads that are made in it with ``thread``, to an application's own logger."""
    if own is None:
        yield
        return
    for logger in _known:
        if not isinstance(logger, Routed):  # only now: it costs a call for each check of a level
            logger.__class__ = type("RoutedLogger", (Routed, type(logger)), {})
    token = _own.set(own)
    try:
        yield
    finally:
        _own.reset(token)


def thread(target: Callable[..., None], name: str, *arguments: Any) -> threading.Thread:
    """Make a thread that logs to the same logger as this context."""
    return _Thread(name, (_own.get(), target, *arguments))


class _Thread(threading.Thread):
    """A thread that may be made before a fork and started after the fork: in the child, Python 3.13 considers an ordinary thread started."""

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self._made = name, arguments
        self._process = Process.pid
        super().__init__(target=_run, args=arguments, name=name, daemon=True)

    def start(self) -> None:
        if self._process != Process.pid:
            self.__init__(*self._made)  # type: ignore[misc]
        super().start()


def _run(own: logging.Logger | None, target: Callable[..., None], *arguments: Any) -> None:
    _own.set(own)
    target(*arguments)


def _report(name: str) -> None:
    with suppress(Exception):  # stderr may be closed, too
        if (skipped := _unwritable.skipped()) is not None:
            others = f", and {skipped} before it" if skipped else ""
            sys.stderr.write(f"windlass: a record of {name} could not be logged{others}\n")
            traceback.print_exc()
