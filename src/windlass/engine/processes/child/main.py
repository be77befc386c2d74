"""A child process of an instance: runs one job at a time, so that only this job can die with it.

The instance starts it with the number of a socket and its own process id, and speaks to it as ``wire.py`` says. It must never outlive the
instance, whatever its handler does: the kernel kills it when the thread that started it ends (Linux), and a reader of the socket ends it
when the other side is gone (everywhere, unless the handler keeps Python from switching threads).

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

from windlass.engine.processes import fork_safe_signals as own_signals
from windlass.processes import die_with_parent


def main() -> None:
    """Serve the instance that started this process until it hangs up."""
    number, parent = int(sys.argv[-2]), int(sys.argv[-1])
    die_with_parent()
    if os.getppid() != parent:  # it died before the line above could take effect
        os._exit(1)
    os.set_inheritable(number, False)  # what a handler starts must not keep the line open
    _reset_signals()
    faulthandler.enable()
    _use_lines()
    from windlass.engine.processes.child.runtime import (
        ChildRuntime,  # most of the start-up time: after the tie to the parent
    )

    with socket.socket(fileno=number) as line:
        ChildRuntime(line).serve()


def _reset_signals() -> None:
    """Ctrl-C is the instance's business: its children are told to stop when it decides so.

    A handler that does nothing, not SIG_IGN: the latter would be inherited by every program a job starts.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # systemd sends SIGTERM to the whole group; the parent decides. What the job forks can be terminated by the job.
    own_signals.keep((signal.SIGINT, signal.SIGTERM), _leave_it)


def _leave_it(number: int, frame: Any) -> None:
    """Not for us."""


def _use_lines() -> None:
    """Both outputs go line by line to the instance, which passes them on: nothing is lost in a buffer when this process dies."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
