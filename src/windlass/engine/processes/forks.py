"""Children that a handler forks, and that come back from it.

In the child only the thread that forked goes on, with a copy of everything: jobs in line, which it would run a second time, and
connections, which are the worker's. ``os._exit`` is how such a child ends by itself; one that returns from its handler, raises or calls
``sys.exit`` is ended here, as a program of its own would be.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn


def leave(error: BaseException | None = None) -> NoReturn:
    """End a forked child that came back with ``error``, or with an answer that nobody waits for."""
    code = 0
    with suppress(BaseException):  # whatever its exceptions and outputs are: it ends
        match error:
            case None:
                pass
            case SystemExit(code=None):
                pass
            case SystemExit(code=int() as said):
                code = said & 0xFF
            case SystemExit(code=said):
                code = 1
                sys.stderr.write(f"{said}\n")
            case _:
                code = 1
                traceback.print_exception(error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code)


def wandered() -> NoReturn:
    """End a forked child that was about to go on with jobs of its parent."""
    with suppress(BaseException):
        sys.stderr.write(
            "windlass: a job forked, and its child waits on the worker's event loop, where it would run other jobs again; "
            "it is ended. Use subprocess or multiprocessing, or end the child with os._exit.\n"
        )
        sys.stderr.flush()
    os._exit(1)
