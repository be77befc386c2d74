"""Ends processes that a handler forks and that return from the handler.

In the child only the thread that forked continues, with a copy of everything: jobs in line, which it would run a second time, and
connections, which belong to the worker. Such a child should end with ``os._exit``; a child that returns from its handler, raises or calls
``sys.exit`` is ended here, like a separate program.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn


def exit_child(error: BaseException | None = None) -> NoReturn:
    """End a forked child that returned from its handler, or raised ``error``."""
    code = 0
    with suppress(BaseException):  # it ends even if its exception or its streams raise
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


def exit_stray_child() -> NoReturn:
    """End a forked child that was about to continue with jobs of its parent."""
    with suppress(BaseException):
        sys.stderr.write(
            "windlass: a job forked, and its child waits on the worker's event loop, where it would run other jobs again; "
            "the child is ended. Use subprocess or multiprocessing, or end the child with os._exit.\n"
        )
        sys.stderr.flush()
    os._exit(1)
