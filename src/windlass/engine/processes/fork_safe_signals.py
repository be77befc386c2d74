"""Signal handlers for one process only: processes that it forks get the earlier handlers back.

A forked child inherits handlers and the descriptor that Python writes signals to. Without this module, SIGTERM to a child of a job
(``Process.terminate``, the end of a ``with multiprocessing.Pool(...)``) did not end the child, and the worker handled it as its own.
Programs that a job starts are not affected: the kernel resets handlers when another program begins.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType


def handle_here(numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> None:
    """Handle these signals in this process only; call this once, on the main thread.

    The signals are blocked while a thread forks: a child receives them only after its handlers are restored.
    """
    before = {number: signal.signal(number, handler) or signal.SIG_DFL for number in numbers}
    masks = threading.local()

    def block() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, before)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def restore() -> None:
        # The thread that forked is the main thread of the child, so it may set handlers.
        for number, was in before.items():
            if (
                signal.getsignal(number) is handler
            ):  # not if other code has replaced it, or an earlier fork restored it
                signal.set_wakeup_fd(-1)
                signal.signal(number, was)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=restore)
