"""Ends a worker's process in time, even if threads and processes of handlers do not end.

At exit Python waits for the threads of every ``ThreadPoolExecutor`` (``asyncio.to_thread`` uses one), for other non-daemon threads, and
``multiprocessing`` waits for its processes. The threads that run sync handlers are daemons, so a job that does not stop delays nothing.
Threads and processes that handlers start themselves would keep the process alive long after their jobs were given back. They have until
a second after the grace period; then the process ends without them. Only ``windlass worker`` does this, never an application that runs
an engine of its own.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

BEYOND_GRACE = 1.0  # seconds: enough for threads and processes that end when asked
LEAST = 0.5  # seconds, also after a second signal, or if jobs that do not stop used up to 3.7 s of the 5 beyond the grace period
BEYOND_ALL = 4.8  # of the five seconds beyond the grace period, whatever hangs: a stopping engine, or a log that is not read
LOG_WAIT = 0.5  # a log that cannot be written must not keep the process either


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a command."""

    owns_process: bool
    """Whether the process exists only for this command, and ends with it."""


def watch_exit(code: int, grace: float, hurried: threading.Event) -> None:
    """Ensure that this process, which is about to exit with ``code``, ends soon after ``grace`` seconds from now, or after ``hurried``.

    A process that exits in time is not affected. Otherwise the remaining threads and processes are logged, processes of
    ``multiprocessing`` are terminated, and logs and both outputs are flushed. Functions registered with ``atexit`` are then not called:
    Python would call them when the last thread has ended, and the objects that they close may be in use.
    """
    is_time, is_said = threading.Event(), threading.Event()

    def say_it() -> None:
        time.sleep(LEAST)
        hurried.wait(max(0.0, grace + BEYOND_GRACE - LEAST))
        is_time.set()
        with suppress(Exception):
            _log_left_behind()
        is_said.set()

    def end() -> None:
        is_time.wait()
        is_said.wait(LOG_WAIT)
        os._exit(code)

    # Start both now: Python may refuse to start a thread while it exits.
    for target in (say_it, end):
        threading.Thread(target=target, name="windlass-exit", daemon=True).start()


def end_at_last(code: int, grace: float, hurried: threading.Event) -> None:
    """Ensure that this process, which begins to stop, ends within five seconds after ``grace`` seconds from now, or after ``hurried``.

    The engine stops in time by itself, unless it waits without a time limit: for a standard error that is not read.
    """

    def end() -> None:
        hurried.wait(grace)
        time.sleep(BEYOND_ALL)
        os._exit(code)

    threading.Thread(target=end, name="windlass-exit", daemon=True).start()


def _log_left_behind() -> None:
    from windlass.observe import events

    # Read from sys.modules, not imported: without an import there are no such threads. Pools have no public list of threads. Python waits
    # for them although they are daemons, as all threads are that a daemon started.
    pooled = set(getattr(sys.modules.get("concurrent.futures.thread"), "_threads_queues", ()))
    threads = [
        one
        for one in threading.enumerate()
        if one is not threading.main_thread() and (one in pooled or not one.daemon)
    ]
    used = sys.modules.get("multiprocessing")
    processes = used.active_children() if used is not None else []
    events.left_behind([one.name for one in threads], [one.name for one in processes])
    for process in processes:
        process.terminate()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or not read
            stream.flush()
