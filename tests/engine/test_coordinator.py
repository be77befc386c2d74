"""Pools and the coordinator: who gets the next job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.leases import lease
from windlass.engine.discovery import Discovery
from windlass.engine.running_attempt import ProcessorState
from windlass.engine.workload import Workload
from windlass.engine.workload.coordinator import Coordinator
from windlass.engine.workload.pool import Pool
from windlass.engine.workload.queue import Queue, Refusal
from windlass.handlers.registry import Registry
from windlass.settings import Settings


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
    coordinator, _, pools = build({"a": 1}, {"a": 3})
    ((processor, job),) = coordinator.assign()
    assert [processor.name for processor in pools["a"]] == ["a-processor-1", "a-processor-2", "a-processor-3"]
    assert processor.state is ProcessorState.BUSY and processor.lease == job
    assert (pools["a"].report().idle, pools["a"].report().busy) == (2, 1)
    pools["a"].release(processor)
    assert [processor.state for processor in pools["a"]] == [ProcessorState.IDLE] * 3 and pools["a"].free == 3


def test_the_instances_own_limit_holds_across_pools() -> None:
    """The setting max_concurrent_calls."""
    coordinator, _, pools = build({"a": 9, "b": 9}, {"a": 5, "b": 5}, limit=4)
    made = coordinator.assign()
    assert [lease.phase for _, lease in made] == ["a", "a", "a", "b"]
    assert coordinator.assign() == []
    pools["a"].release(made[0][0])
    assert len(coordinator.assign()) == 1


def test_a_processor_that_outran_its_limit_is_replaced() -> None:
    """Put in error, its place taken by a fresh one."""
    pool = Pool("a", 2)
    slow, _ = pool.assign(lease("a")), pool.assign(lease("a"))
    fresh = pool.replace(slow)
    assert slow.state is ProcessorState.ERROR and fresh.name == slow.name and pool.free == 1
    pool.release(slow)
    assert pool.free == 1, "what it does in the end changes nothing any more"
    assert (pool.report().idle, pool.report().busy) == (1, 1)
    assert pool.report().in_error == (slow.name,) and list(pool)[-1] is slow, "named until its job ends"
    pool.forget(slow)
    assert pool.report().in_error == () and slow not in list(pool)


def test_a_processor_in_error_whose_job_stops_is_idle_again() -> None:
    pool = Pool("a", 2)
    slow = pool.assign(lease("a"))
    pool.fail(slow)
    assert (pool.report().idle, pool.report().busy, pool.report().in_error) == (1, 0, (slow.name,))
    pool.release(slow)
    assert (pool.free, slow.state, pool.report().in_error) == (2, ProcessorState.IDLE, ())
    pool.release(slow)
    assert pool.free == 2


@pytest.mark.parametrize("limit", [1, 2])
def test_phases_take_turns_where_the_instances_limit_frees_few_places_at_a_time(limit: int) -> None:
    """A cycle goes on where the limit ended it. Each place went to the first phase, and the second starved."""
    coordinator, _, pools = build({"a": 6, "b": 6}, {"a": 5, "b": 5}, limit=limit)
    order = ""
    while made := coordinator.assign():
        order += "".join(job.phase for _, job in made)
        for processor, job in made:
            pools[job.phase].release(processor)
    assert order == "aaabbbaaabbb"


def workload(*phases: str, **settings: Any) -> tuple[Workload, Discovery]:
    """The floor of an instance with ten processors for each phase, and what decides how much is claimed for it."""
    registry, chosen = Registry(), Settings(**settings)
    for phase in phases:
        registry.define(phase, lambda: None, injected=lambda _: False, processors=10)
    return Workload(registry.phases, chosen), Discovery(registry.phases, chosen)


def test_the_floor_takes_in_as_many_as_the_settings_say() -> None:
    """The setting capacity."""
    made, _ = workload("a", "b", capacity=2)
    jobs = [lease("a") for _ in range(3)]
    assert made.offer(jobs) == [(jobs[2], Refusal.FULL)]
    assert made.room("a").left == 0 and made.room("b").left == 2


def test_the_floor_gives_each_phase_as_many_a_cycle_as_the_settings_say() -> None:
    """The setting per_cycle."""
    made, _ = workload("a", "b", per_cycle=1)
    made.offer([lease(phase) for phase in "aaabbb"])
    assert "".join(running.lease.phase for running in made.assign()) == "ababab"


def test_no_more_is_claimed_than_the_instances_limit_lets_run() -> None:
    """What it has in memory beyond that, no other instance can run."""
    made, discovery = workload("a", max_concurrent_calls=2)
    want = discovery.next(made.room)
    assert want is not None and (want.limit, want.starting) == (2, 2)
    made.offer([lease("a") for _ in range(2)])
    assert len(made.assign()) == 2
    want = discovery.next(made.room)
    assert want is not None and (want.limit, want.starting) == (1, 0), "one waits for the next place"


def test_where_another_phase_uses_up_the_instances_limit_one_job_waits_for_its_turn() -> None:
    """With none there would be nobody to give the next place to; with more, others could run them meanwhile."""
    made, discovery = workload("a", "b", max_concurrent_calls=1)
    made.offer([lease("a")])
    assert [running.lease.phase for running in made.assign()] == ["a"]
    assert made.room("b").starting == 0
    want = next(want for _ in "ab" if (want := discovery.next(made.room)) is not None and want.phase == "b")
    assert (want.limit, want.starting) == (1, 0)
    made.offer([lease("b")])
    room = made.room("b")
    assert (room.waiting, room.size - room.busy - room.waiting) == (1, 0)
    assert made.assign() == []
