"""The in-memory queue and its four refusals."""

from __future__ import annotations

from tests.engine.leases import lease
from windlass.engine.workload.queue import Queue, Refusal


def test_jobs_are_served_in_the_order_they_came() -> None:
    queue = Queue(["a", "b"])
    jobs = [lease("a") for _ in range(5)]
    assert [queue.offer(job) for job in jobs] == [None] * 5
    assert [queue.take_many("a", n) for n in (1, 3, 9, 1)] == [jobs[:1], jobs[1:4], jobs[4:], []]
    assert queue.take_many("b", 1) == [] and queue.take_many("unknown", 1) == []


def test_the_four_refusals() -> None:
    queue = Queue(["a", "b"], capacity=2)
    first = lease("a")
    queue.offer(first)
    assert queue.offer(lease("a", first.id, token=2)) is Refusal.QUEUED_HERE
    assert queue.offer(lease("b", first.id, token=2)) is Refusal.QUEUED_ELSEWHERE
    queue.take_many("a", 1)
    assert queue.offer(lease("a", first.id, token=3)) is Refusal.PROCESSING
    assert queue.offer(lease("b", first.id, token=3)) is Refusal.PROCESSING
    queue.offer(lease("a"))
    queue.offer(lease("a"))
    assert queue.offer(lease("a")) is Refusal.FULL
    assert queue.offer(lease("b")) is None, "each phase has a queue of its own"


def test_a_job_that_is_done_may_come_again() -> None:
    queue = Queue(["a"])
    first = lease("a")
    queue.offer(first)
    queue.take_many("a", 1)
    queue.done(first.id)
    assert queue.offer(lease("a", first.id, token=9)) is None


def test_room_and_size_count_what_waits() -> None:
    queue = Queue(["a"], capacity=3)
    queue.offer(lease("a"))
    assert (queue.size("a"), queue.room("a"), len(queue)) == (1, 2, 1)
    queue.take_many("a", 1)
    assert (queue.size("a"), queue.room("a"), len(queue)) == (0, 3, 0)


def test_a_waiting_job_can_be_taken_out() -> None:
    queue = Queue(["a"])
    jobs = [lease("a") for _ in range(3)]
    for job in jobs:
        queue.offer(job)
    assert queue.drop(jobs[1].id, token=2) is None, "it is held anew"
    assert queue.drop(jobs[1].id, token=1) == jobs[1] and queue.drop(jobs[1].id, token=1) is None
    assert queue.drain() == [jobs[0], jobs[2]] and len(queue) == 0
    assert queue.offer(jobs[0]) is None
