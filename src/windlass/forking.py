"""Keeps forked children from sharing locks that a thread of the parent holds, and connections.

A forked child has one thread and a copy of everything else. Objects that are used in both register here and are called at each fork; in
the child they begin anew, and never use the parent's again.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any
from weakref import WeakSet

_watched: WeakSet[Any] = WeakSet()


class Process:
    """This process, known without asking the kernel."""

    pid = os.getpid()


def watch(thing: Any) -> None:
    """Call ``thing`` at every fork: those of its methods ``before_fork``, ``after_fork_in_parent`` and ``after_fork_in_child`` that
    it has."""
    with _Forks.lock:
        _watched.add(thing)


def abandon(thing: object) -> None:
    """Keep what is the parent's until this child is gone, and do not even close it: closing is an act on something shared."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class _Forks:
    """One fork at a time: what was closed and locked for one must not be taken for another's."""

    lock = threading.RLock()

    @classmethod
    def before(cls) -> None:
        cls.lock.acquire()
        _call_all("before_fork")

    @classmethod
    def after_in_parent(cls) -> None:
        try:
            _call_all("after_fork_in_parent")
        finally:
            cls.lock.release()

    @classmethod
    def after_in_child(cls) -> None:
        Process.pid = os.getpid()
        cls.lock = threading.RLock()
        _call_all("after_fork_in_child")


def _call_all(name: str) -> None:
    """Call this method of all watched objects; an exception is raised after the last, and shown by Python."""
    errors: list[Exception] = []
    for thing in list(_watched):
        method = getattr(thing, name, None)
        if method is not None:
            try:
                method()
            except Exception as error:  # noqa: BLE001  the others must be called
                errors.append(error)
    if errors:
        raise errors[0]


os.register_at_fork(
    before=_Forks.before, after_in_parent=_Forks.after_in_parent, after_in_child=_Forks.after_in_child
)
