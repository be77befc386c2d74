"""Loggers whose handlers and filters may raise: whoever logs here is in the middle of something, with claimed jobs in its hands.

``logging`` catches what its own handlers raise while they write. What an application's handler or filter raises comes out of the call
that logs, and ended the threads of the engine, or was taken for a failure of the database.
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

from windlass.forking import Process


class Quiet:
    """Lets one record a second through and counts the others."""

    def __init__(self, seconds: float = 1.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._next = float("-inf")
        self._skipped = 0

    def skipped(self) -> int | None:
        """How many were left out before this one; None where this one is to be left out, too."""
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
"""The logger that an application gave; lines written in this context go there."""
_known: list[logging.Logger] = []


class Guard:
    """Goes before a class of loggers: what is raised while a record is written is reported on stderr, once a second, and goes no further."""

    name: str

    def _log(self, *arguments: Any, stacklevel: int = 1, **options: Any) -> None:
        own: Any = _own.get()
        try:
            if own is not None and own is not self:
                own._log(*arguments, stacklevel=stacklevel + 1, **options)
                return
            super()._log(*arguments, stacklevel=stacklevel + 1, **options)  # type: ignore[misc]
        except BaseException as error:  # whatever it is, it is not the job's fault
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # a person's
            _report(self.name)


def get_logger(name: str) -> logging.Logger:
    """The logger of this name, guarded; also where somebody has asked for it before, or set a class of loggers of their own."""
    found = logging.getLogger(name)
    if not isinstance(found, Guard):
        found.__class__ = type("GuardedLogger", (Guard, type(found)), {})
        _known.append(found)
    return found


class Routed:
    """Goes before a guarded logger once an application gave a logger of its own: whose level counts is told by the context."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  logging's name
        own: Any = _own.get()
        decides: Any = super() if own is None or own is self else own
        return bool(decides.isEnabledFor(level))


@contextmanager
def use(own: logging.Logger | None) -> Iterator[None]:
    """Have the lines of this context, and of threads that are made in it with ``thread``, go to an application's own logger."""
    if own is None:
        yield
        return
    for logger in _known:
        if not isinstance(logger, Routed):  # only now: it costs a call for each look at a level
            logger.__class__ = type("RoutedLogger", (Routed, type(logger)), {})
    token = _own.set(own)
    try:
        yield
    finally:
        _own.reset(token)


def thread(target: Callable[..., None], name: str, *arguments: Any) -> threading.Thread:
    """A thread of ours whose lines go where those of this context go."""
    return _Thread(name, (_own.get(), target, *arguments))


class _Thread(threading.Thread):
    """A thread that may be made before a fork and started after the fork: in the child, Python 3.13 takes a plain one for started."""

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
