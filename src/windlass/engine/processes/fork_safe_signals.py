"""Signals that a process keeps for itself: what it forks has the handlers that were there before.

A forked child inherits handlers and the descriptor that Python writes signals to. So SIGTERM to a child of a job (``Process.terminate``,
the end of a ``with multiprocessing.Pool(...)``) did not end the child, and was heard by the worker as if it were meant for it. Programs
that a job starts are not concerned: the kernel forgets handlers when another program begins.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType


def keep(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> None:
    """Handle these signals in this process only; main thread only, once per process.

    They wait while a thread forks: a child that is told to end before it has its own handlers is told when it has.
    """
    before = {number: signal.signal(number, handler) or signal.SIG_DFL for number in numbers}
    masks = threading.local()

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, before)

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def give_back() -> None:
        # The thread that forked is the child's main thread, whatever it was here, so it may do this.
        for number, was in before.items():
            if signal.getsignal(number) is handler:  # nobody else's, and not those of a child's own child
                signal.set_wakeup_fd(-1)
                signal.signal(number, was)
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=give_back)
