"""Faults that a test can inject at a chosen moment of a job's run.

A point is a name and a number: ``chunk.begin`` (its block is entered), ``chunk.commit`` (its block is done, nothing is committed) and
``chunk.committed`` (its commit is there), each with the chunk's number; ``start`` and ``end`` of a handler with the attempt's number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windlass.errors import StoreUnreachableError


class Killed(BaseException):
    """The process of a job "dies" here: nothing of the attempt is recorded, and its claim stays behind."""


@dataclass(slots=True)
class _Fault:
    kind: str | None
    point: str
    number: int
    act: Callable[[], None]
    times: int


class Faults:
    """Faults that wait for their moment; each strikes ``times`` times."""

    def __init__(self, lose_lease: Callable[[], None]) -> None:
        self._lose_lease = lose_lease
        self._planned: list[_Fault] = []
        self._away = 0
        self.struck: list[str] = []

    def kill_at_chunk(
        self, number: int, *, kind: str | None = None, after_commit: bool = False, times: int = 1
    ) -> None:
        """Kill the job in chunk ``number``: after its effects and before its commit, or right after the commit."""
        self._plan(kind, "chunk.committed" if after_commit else "chunk.commit", number, _die, times)

    def kill_at_start(self, *, kind: str | None = None, attempt: int = 1, times: int = 1) -> None:
        """Kill the job when its handler is about to be called."""
        self._plan(kind, "start", attempt, _die, times)

    def kill_at_end(self, *, kind: str | None = None, attempt: int = 1, times: int = 1) -> None:
        """Kill the job when its handler has returned, and nothing of that is recorded."""
        self._plan(kind, "end", attempt, _die, times)

    def lose_lease_at_chunk(self, number: int, *, kind: str | None = None) -> None:
        """Have another instance take the job away when it begins with chunk ``number``: that chunk's commit is refused."""
        self._plan(kind, "chunk.begin", number, self._lose_lease, 1)

    def lose_lease_at_end(self, *, kind: str | None = None, attempt: int = 1) -> None:
        """Have another instance take the job away just before its end is recorded."""
        self._plan(kind, "end", attempt, self._lose_lease, 1)

    def database_away(self, calls: int = 1) -> None:
        """The next so many calls of handlers to the database fail as they do when it cannot be reached."""
        self._away = calls

    # ------------------------------------------------------------------ for the sandbox

    def reached(self, kind: str, point: str, number: int) -> None:
        """Inject the fault that is planned for this point of a job, if there is one."""
        for fault in list(self._planned):
            if fault.point == point and fault.number == number and fault.kind in (None, kind):
                fault.times -= 1
                if not fault.times:
                    self._planned.remove(fault)
                self.struck.append(f"{kind} {point} {number}")
                fault.act()

    def check_database(self) -> None:
        if self._away:
            self._away -= 1
            self.struck.append("database away")
            raise StoreUnreachableError("the database is away, because this test says so")

    def _plan(self, kind: str | None, point: str, number: int, act: Callable[[], None], times: int) -> None:
        self._planned.append(_Fault(kind, point, number, act, times))


def _die() -> None:
    raise Killed
