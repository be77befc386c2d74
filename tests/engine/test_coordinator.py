"""Pools and the coordinator: who gets the next job."""

from __future__ import annotations

from tests.engine.leases import lease
from windlass.engine.coordinator import Coordinator
from windlass.engine.pool import Pool, ProcessorState
from windlass.engine.queue import Queue


def build(
    jobs: dict[str, int], sizes: dict[str, int], **options
) -> tuple[Coordinator, Queue, dict[str, Pool]]:
    queue = Queue(jobs)
    for phase, n in jobs.items():
        for _ in range(n):
            queue.offer(lease(phase))
    pools = {phase: Pool(phase, size) for phase, size in sizes.items()}
    return Coordinator(queue, pools, list(sizes), **options), queue, pools


def test_three_per_phase_and_cycle_first_phase_first() -> None:
    """C4."""
    coordinator, _, _ = build({"a": 7, "b": 7, "c": 2}, {"a": 10, "b": 10, "c": 10})
    phases = "".join(lease.phase for _, lease in coordinator.assign())
    assert phases == "aaabbbccaaabbbab"


def test_a_full_pool_does_not_hold_up_the_next_phase() -> None:
    coordinator, queue, pools = build({"a": 5, "b": 5}, {"a": 2, "b": 4})
    phases = [lease.phase for _, lease in coordinator.assign()]
    assert phases == ["a", "a", "b", "b", "b", "b"]
    assert queue.size("a") == 3 and pools["a"].free == 0
    assert coordinator.assign() == []


def test_processors_have_names_and_states() -> None:
    """C3."""
    coordinator, _, pools = build({"a": 1}, {"a": 3})
    ((processor, job),) = coordinator.assign()
    assert [processor.name for processor in pools["a"]] == ["a-processor-1", "a-processor-2", "a-processor-3"]
    assert processor.state is ProcessorState.BUSY and processor.lease == job
    assert (pools["a"].report().idle, pools["a"].report().busy) == (2, 1)
    pools["a"].release(processor)
    assert [processor.state for processor in pools["a"]] == [ProcessorState.IDLE] * 3 and pools["a"].free == 3


def test_the_instances_own_limit_holds_across_pools() -> None:
    """C8: max_concurrent_calls."""
    coordinator, _, pools = build({"a": 9, "b": 9}, {"a": 5, "b": 5}, limit=4)
    made = coordinator.assign()
    assert [lease.phase for _, lease in made] == ["a", "a", "a", "b"]
    assert coordinator.assign() == []
    pools["a"].release(made[0][0])
    assert len(coordinator.assign()) == 1


def test_a_processor_that_outran_its_limit_is_replaced() -> None:
    """C5: put in error, its place taken by a fresh one."""
    now = [100.0]
    pool = Pool("a", 2, monotonic=lambda: now[0])
    slow, lively = pool.assign(lease("a")), pool.assign(lease("a"))
    now[0] += 299
    lively.touch(now[0])
    now[0] += 2
    assert list(pool.overdue(300)) == [slow]
    fresh = pool.replace(slow)
    assert slow.state is ProcessorState.ERROR and fresh.name == slow.name and pool.free == 1
    pool.release(slow)
    assert pool.free == 1, "what it does in the end changes nothing any more"
    assert (pool.report().idle, pool.report().busy) == (1, 1)
