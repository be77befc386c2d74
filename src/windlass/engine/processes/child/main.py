"""A child process of an instance: runs one job at a time, so that its death ends only this job.

The instance starts it with the number of a socket and its own process id, and sends the messages of ``wire.py``. The child must never
outlive the instance: the kernel kills it when the thread that started it ends (Linux), and the reader of the socket ends it when the
instance is gone (everywhere, unless the handler keeps Python from switching threads).

    python -m windlass.engine.processes.child.main SOCKET PARENT
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from windlass.engine.processes import fork_safe_signals
from windlass.processes import die_with_parent


def main() -> None:
    """Serve the instance that started this process until it closes the socket."""
    number, parent = int(sys.argv[-2]), int(sys.argv[-1])
    die_with_parent()
    if os.getppid() != parent:  # it died before the line above took effect
        os._exit(1)
    os.set_inheritable(number, False)  # programs that a handler starts must not keep the socket open
    _reset_signals()
    faulthandler.enable()
    _use_lines()
    from windlass.engine.processes.child.runtime import (
        ChildRuntime,  # most of the start-up time: after the tie to the parent
    )

    with socket.socket(fileno=number) as line:
        ChildRuntime(line).serve()


def _reset_signals() -> None:
    """Ignore Ctrl-C and SIGTERM: the instance decides when its children stop.

    A handler that does nothing, not SIG_IGN: every program that a job starts would inherit that.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # systemd sends SIGTERM to the whole group. Processes that the job forks can still be terminated.
    fork_safe_signals.handle_here((signal.SIGINT, signal.SIGTERM), _ignore)


def _ignore(number: int, frame: Any) -> None:
    """Do nothing."""


def _use_lines() -> None:
    """Flush output after each line: nothing is lost in a buffer when this process dies."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
