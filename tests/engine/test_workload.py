"""The jobs that an instance holds: which are taken in, which gets the next processor."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.leases import lease
from windlass.engine.discovery import Discovery
from windlass.engine.running_attempt import RunningAttempt, Stop
from windlass.engine.workload import Refusal, Workload
from windlass.handlers.registry import Registry
from windlass.settings import Settings


def workload(*phases: str, **settings: Any) -> tuple[Workload, Discovery]:
    """The workload of an instance with ten processors for each phase, and what decides how much is claimed for it."""
    registry, chosen = Registry(), Settings(**settings)
    for phase in phases:
        registry.define(phase, lambda: None, injected=lambda _: False, processors=10)
    return Workload(registry.phases, chosen), Discovery(registry.phases, chosen)


def loaded(jobs: dict[str, int], **settings: Any) -> Workload:
    """A workload with so many jobs in each phase."""
    made, _ = workload(*jobs, **settings)
    made.offer([lease(phase) for phase, count in jobs.items() for _ in range(count)])
    return made


def phases_of(made: list[RunningAttempt]) -> str:
    return "".join(running.lease.phase for running in made)


def refusal(made: Workload, *which: Any, **more: Any) -> Refusal | None:
    """Why a job is not taken in."""
    refused = made.offer([lease(*which, **more)])
    return refused[0][1] if refused else None


def states(made: Workload) -> list[tuple[str, str]]:
    return [(name, state) for name, state, _, _ in made.processors()]


# ---------------------------------------------------------------------- what is taken in


def test_jobs_are_served_in_the_order_they_came() -> None:
    made, _ = workload("a", processors={"a": 2})
    jobs = [lease("a") for _ in range(5)]
    assert made.offer(jobs) == []
    served: list[Any] = []
    while running := made.assign():
        while running:
            served += [one.lease for one in running]
            _, running = made.end(running)
    assert served == jobs


def test_the_four_refusals() -> None:
    made, _ = workload("a", "b", capacity=2, processors={"a": 1})
    first = lease("a")
    made.offer([first])
    assert refusal(made, "a", first.id, token=2) is Refusal.QUEUED_HERE
    assert refusal(made, "b", first.id, token=2) is Refusal.QUEUED_ELSEWHERE
    (running,) = made.assign()
    assert refusal(made, "a", first.id, token=3) is Refusal.PROCESSING
    assert refusal(made, "b", first.id, token=3) is Refusal.PROCESSING
    assert (refusal(made, "a"), refusal(made, "a")) == (None, None)
    assert refusal(made, "a") is Refusal.FULL
    assert refusal(made, "b") is None, "each phase has a queue of its own"
    made.end([running])
    assert refusal(made, "a", first.id, token=9) is None, "a job that has ended may come again"


def test_room_counts_what_waits() -> None:
    made, _ = workload("a", capacity=3)
    made.offer([lease("a")])
    assert (made.room("a").waiting, made.room("a").left, made.waiting()) == (1, 2, {"a": 1})
    made.assign()
    assert (made.room("a").waiting, made.room("a").left, made.waiting()) == (0, 3, {"a": 0})


def test_a_waiting_job_can_be_taken_out() -> None:
    made, _ = workload("a")
    jobs = [lease("a") for _ in range(3)]
    made.offer(jobs)
    assert made.find(jobs[1].id, token=2) is None, "it is held anew"
    assert made.find(jobs[1].id, token=1) == jobs[1] and made.find(jobs[1].id, token=1) is None
    assert made.clear() == [jobs[0], jobs[2]] and made.is_empty
    assert made.offer([jobs[0]]) == []


# ---------------------------------------------------------------------- which gets the next processor


def test_three_per_phase_and_cycle_first_phase_first() -> None:
    assert phases_of(loaded({"a": 7, "b": 7, "c": 2}).assign()) == "aaabbbccaaabbbab"


def test_a_full_pool_does_not_hold_up_the_next_phase() -> None:
    made = loaded({"a": 5, "b": 5}, processors={"a": 2, "b": 4})
    assert phases_of(made.assign()) == "aabbbb"
    assert made.waiting() == {"a": 3, "b": 1} and made.assign() == []


def test_the_instances_own_limit_holds_across_pools() -> None:
    """The setting max_concurrent_calls."""
    made = loaded({"a": 9, "b": 9}, processors={"a": 5, "b": 5}, max_concurrent_calls=4)
    running = made.assign()
    assert phases_of(running) == "aaab" and made.assign() == []
    _, following = made.end(running[:1])
    assert len(following) == 1


@pytest.mark.parametrize("limit", [1, 2])
def test_phases_take_turns_where_the_instances_limit_frees_few_places_at_a_time(limit: int) -> None:
    """A cycle goes on where the limit ended it. Each place went to the first phase, and the second starved."""
    made = loaded({"a": 6, "b": 6}, max_concurrent_calls=limit)
    order, running = "", made.assign()
    while running:
        order += phases_of(running)
        _, running = made.end(running)
    assert order == "aaabbbaaabbb"


# ---------------------------------------------------------------------- processors


def test_processors_have_names_and_states() -> None:
    made = loaded({"a": 1}, processors={"a": 3})
    (running,) = made.assign()
    assert states(made) == [("a-processor-1", "busy"), ("a-processor-2", "idle"), ("a-processor-3", "idle")]
    assert running.processor.name == "a-processor-1" and running.processor.lease == running.lease
    made.end([running])
    assert [state for _, state in states(made)] == ["idle"] * 3


def test_a_processor_whose_job_does_not_stop_is_replaced() -> None:
    """Put in error, its place taken by a fresh one."""
    made = loaded({"a": 2}, processors={"a": 2})
    slow, _ = made.assign()
    assert made.stop(slow, Stop.TIME_LIMIT) and made.give_up(slow)
    name = slow.processor.name
    assert states(made) == [(name, "idle"), ("a-processor-2", "busy"), (name, "error")], "until its job ends"
    assert made.end([slow]) == ([False], []), "what it does in the end changes nothing any more"
    assert states(made) == [(name, "idle"), ("a-processor-2", "busy")]


def test_a_processor_in_error_whose_job_stops_is_idle_again() -> None:
    made = loaded({"a": 1}, processors={"a": 2})
    (slow,) = made.assign()
    made.stop(slow, Stop.TIME_LIMIT)
    (report, _) = made.report()["a"]
    assert (report.idle, report.busy, report.in_error) == (1, 0, (slow.processor.name,))
    made.end([slow])
    assert [state for _, state in states(made)] == ["idle", "idle"]


# ---------------------------------------------------------------------- settings


def test_it_takes_in_as_many_as_the_settings_say() -> None:
    """The setting capacity."""
    made, _ = workload("a", "b", capacity=2)
    jobs = [lease("a") for _ in range(3)]
    assert made.offer(jobs) == [(jobs[2], Refusal.FULL)]
    assert made.room("a").left == 0 and made.room("b").left == 2


def test_each_phase_gets_as_many_a_cycle_as_the_settings_say() -> None:
    """The setting per_cycle."""
    made, _ = workload("a", "b", per_cycle=1)
    made.offer([lease(phase) for phase in "aaabbb"])
    assert "".join(running.lease.phase for running in made.assign()) == "ababab"


def test_no_more_is_claimed_than_the_instances_limit_lets_run() -> None:
    """What it has in memory beyond that, no other instance can run."""
    made, discovery = workload("a", max_concurrent_calls=2)
    (want,) = discovery.wants(made.room)
    assert (want.limit, want.starting) == (2, 2)
    made.offer([lease("a") for _ in range(2)])
    assert len(made.assign()) == 2
    (want,) = discovery.wants(made.room)
    assert (want.limit, want.starting) == (1, 0), "one waits for the next place"


def test_where_another_phase_uses_up_the_instances_limit_one_job_waits_for_its_turn() -> None:
    """With none there would be nobody to give the next place to; with more, others could run them meanwhile."""
    made, discovery = workload("a", "b", max_concurrent_calls=1)
    made.offer([lease("a")])
    assert [running.lease.phase for running in made.assign()] == ["a"]
    assert made.room("b").starting == 0
    want = next(want for _ in "ab" for want in discovery.wants(made.room) if want.phase == "b")
    assert (want.limit, want.starting) == (1, 0)
    made.offer([lease("b")])
    room = made.room("b")
    assert (room.waiting, room.size - room.busy - room.waiting) == (1, 0)
    assert made.assign() == []
