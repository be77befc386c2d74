"""The end of a worker's process: as of any Python program, but in time.

At its exit Python waits for the threads of every ``ThreadPoolExecutor`` (``asyncio.to_thread`` uses one), for others that are no daemons,
and ``multiprocessing`` for the processes it made. The threads that run plain handlers are daemons, so a job that does not stop keeps nobody
waiting; what handlers start themselves would keep the process, long after their jobs were given back. So it has until a second after the
grace time, and then the process ends without it: here, never in an application that runs an engine of its own.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

BEYOND_GRACE = 1.0  # seconds: enough for what ends when asked
LEAST = 0.5  # also after a second signal, or where jobs that do not stop took the time: up to 3.7 s of the 5 beyond the grace time
BEYOND_ALL = 4.8  # of the five seconds beyond the grace time, whatever hangs, an engine that stops or a log that nobody reads
LAST_WORDS = 0.5  # a log that cannot be written must not keep the process either


@dataclass(frozen=True, slots=True)
class Caller:
    """Who runs a command."""

    owns_process: bool
    """Whether the process is there for this command only, and ends with it."""


def watch_exit(code: int, grace: float, hurried: threading.Event) -> None:
    """See to it that this process, which is about to exit with ``code``, is gone soon after ``grace`` seconds from now, or ``hurried``.

    A process that exits in time does so as if nothing had been watched. Otherwise what it leaves behind is logged, processes of
    ``multiprocessing`` are told to end, logs and both outputs are flushed. What is registered with ``atexit`` is then not called:
    Python would call it when the last thread has ended, and what it closes may be in use.
    """
    is_time, is_said = threading.Event(), threading.Event()

    def say_it() -> None:
        time.sleep(LEAST)
        hurried.wait(max(0.0, grace + BEYOND_GRACE - LEAST))
        is_time.set()
        with suppress(Exception):
            _last_words()
        is_said.set()

    def end() -> None:
        is_time.wait()
        is_said.wait(LAST_WORDS)
        os._exit(code)

    # Both now: a thread that is started while Python exits may be refused.
    for target in (say_it, end):
        threading.Thread(target=target, name="windlass-exit", daemon=True).start()


def end_at_last(code: int, grace: float, hurried: threading.Event) -> None:
    """See to it that this process, which begins to stop, is gone within five seconds after ``grace`` seconds from now, or after ``hurried``.

    The engine stops in time by itself, unless it waits for something that has no time limit: a standard error that nobody reads.
    """

    def end() -> None:
        hurried.wait(grace)
        time.sleep(BEYOND_ALL)
        os._exit(code)

    threading.Thread(target=end, name="windlass-exit", daemon=True).start()


def _last_words() -> None:
    from windlass.observe import events

    # Looked up, not imported: where nobody has, there is nothing to find. The pools' threads have no public list; they are waited for
    # though they are daemons, as all threads are that a daemon made.
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
        with suppress(Exception):  # closed, or nobody reads it
            stream.flush()
