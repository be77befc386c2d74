"""What must not be shared with the children that a process forks: locks that a thread of the parent holds, and connections.

A forked child has one thread and a copy of everything else. Objects that are used in both register here and are told of each fork; in
the child they begin anew, and leave alone for good what is still the parent's.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import WeakSet

_watched: WeakSet[Any] = WeakSet()


class Process:
    """This process, known without asking the kernel."""

    pid = os.getpid()


def watch(thing: Any) -> None:
    """Tell ``thing`` of every fork, by those of its methods ``before_fork``, ``after_fork_in_parent`` and ``after_fork_in_child`` that
    it has."""
    _watched.add(thing)


def abandon(thing: object) -> None:
    """Keep what is the parent's until this child is gone, and do not even close it: closing is an act on something shared."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _tell(what: str) -> None:
    for thing in list(_watched):
        method = getattr(thing, what, None)
        if method is not None:
            method()


def _begin_child() -> None:
    Process.pid = os.getpid()
    _tell("after_fork_in_child")


os.register_at_fork(
    before=lambda: _tell("before_fork"),
    after_in_parent=lambda: _tell("after_fork_in_parent"),
    after_in_child=_begin_child,
)
