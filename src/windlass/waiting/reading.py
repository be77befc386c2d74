"""One thread that makes the calls it is given, one after the other, so that all of them use one connection.

Not ``ThreadPoolExecutor``: that refuses calls once the main thread has ended, while other threads of the program still wait for results,
and its thread never ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from windlass.observe.logger import thread

P = ParamSpec("P")
T = TypeVar("T")


class OneThread:
    """Makes calls in a daemon thread, which begins with a call and ends after ``linger`` seconds without one, or by ``end``."""

    def __init__(self, name: str, linger: float) -> None:
        self._name = name
        self._linger = linger
        self._lock = threading.Lock()
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have the thread make a call; ``RuntimeError`` if no thread can be started."""
        future: Future[T] = Future()
        with self._lock:
            if self._thread is None:
                started = thread(self._run, self._name)
                started.start()
                self._thread = started
            self._calls.put((future, partial(function, *args, **kwargs)))
        return future

    def end(self) -> None:
        """End the thread after the calls that it was given; a later call begins another one."""
        with self._lock:
            if self._thread is not None:
                self._calls.put(None)

    def _run(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=self._linger)
            except Empty:
                call = None
            if call is not None:
                _make(*call)
                del call  # else the last caller's result would stay
            elif self._is_over():
                return

    def _is_over(self) -> bool:
        with self._lock:
            if self._calls.empty():
                self._thread = None
            return self._thread is None


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001  the caller gets it
        future.set_exception(error)
    else:
        future.set_result(result)
