"""Forked children of tests."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable

from tests.waiting import PATIENCE


class Child:
    """A forked child that does something: ``code`` is 0, or 1 (its traceback is shown), or the signal that ended it because it hung (what
    its threads did is shown)."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._pid = os.fork()
        if self._pid:
            return
        code = 1
        try:
            faulthandler.unregister(signal.SIGALRM)  # the parent's, where the parent is such a child itself
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            # Shows what the threads do; then the signal ends the child.
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(int(PATIENCE))
            work()
            code = 0
        except BaseException:  # noqa: BLE001  shown
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    @property
    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
