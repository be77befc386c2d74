"""The locks on an instance's jobs: none is left behind when the instance stops, and guards may fail as late as in their block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.engine.leases import lease
from windlass.engine.job_locks import JobLocks
from windlass.errors import LockUnavailableError
from windlass.model import Lease


class Guard:
    """A guard of an application's own: ``before`` and ``after`` are called when a lock is acquired and when it is released."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.is_free = True
        self.before: Callable[[], object] = lambda: None
        self.after: Callable[[], object] = lambda: None

    @contextmanager
    def acquire(self, request_id: str) -> Iterator[bool]:
        self.before()
        if not self.is_free:
            yield False
            self.after()
            return
        self.held.append(request_id)
        yield True
        self.held.remove(request_id)
        self.after()


@pytest.fixture
def guard() -> Guard:
    return Guard()


@pytest.fixture
def locks(guard: Guard) -> JobLocks:
    made = JobLocks(lambda instance: guard)
    made.open("w-1")
    return made


def acquired(locks: JobLocks, job: Lease | None = None) -> bool:
    return locks.acquire(job or lease(), "w-1") is None


def test_a_lock_that_is_acquired_while_the_locks_are_closed_is_released(
    guard: Guard, locks: JobLocks
) -> None:
    """The instance does not wait for ever for a step that hangs, and the job of the step must not stay locked."""
    guard.before = locks.close
    assert not acquired(locks) and guard.held == []
    assert not acquired(locks) and not locks.is_away


def test_closing_goes_on_when_another_thread_wants_a_lock_meanwhile(guard: Guard, locks: JobLocks) -> None:
    assert acquired(locks) and acquired(locks)
    guard.after = lambda: acquired(locks)
    locks.close()
    assert guard.held == []


def test_a_guard_that_fails_in_its_block_is_a_fault(guard: Guard, locks: JobLocks) -> None:
    def fail() -> None:
        raise LockUnavailableError("request x", "no reply")

    guard.before = fail
    assert not acquired(locks) and locks.fault == "no reply"
    guard.before = lambda: None
    assert locks.check() is None and not locks.is_away and guard.held == []


def test_the_block_of_a_lock_that_another_holds_is_left(guard: Guard, locks: JobLocks) -> None:
    left: list[bool] = []
    guard.is_free, guard.after = False, lambda: left.append(True)
    assert not acquired(locks) and left == [True] and not locks.is_away


def test_the_lock_of_an_attempt_is_released_once_it_ended(guard: Guard, locks: JobLocks) -> None:
    one, other = lease(), lease()
    assert acquired(locks, one) and acquired(locks, one) and acquired(locks, other)
    assert guard.held == [one.id, other.id], "asked for twice, as after a start that could not be stored"
    locks.ended([one])
    locks.release()
    assert guard.held == [other.id]
