"""Discovery: which phase is claimed from next, and how much. Pure: the clock is a number."""

from __future__ import annotations

import pytest

from windlass.engine.discovery import AGAIN, Discovery
from windlass.engine.workload import Room
from windlass.model import Want
from windlass.settings import Settings


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def discovery(clock: Clock, *phases: str, **changes: object) -> Discovery:
    made = Discovery(phases or ("a",), Settings().changed(**changes), clock)
    made.set_listening(True)
    return made


def roomy(phase: str) -> Room:
    return Room(starting=10, busy=0, waiting=0, size=10, left=1000)


def full(phase: str) -> Room:
    return Room(starting=0, busy=10, waiting=0, size=10, left=1000)


def must(want: Want | None) -> Want:
    assert want is not None
    return want


def test_every_phase_is_looked_at_at_the_start_and_they_take_turns(clock: Clock) -> None:
    found = discovery(clock, "a", "b", "c")
    order = []
    for _ in range(6):
        want = must(found.next(roomy))
        order.append(want.phase)
        found.claimed(want, want.limit)
    assert order in (list("abcabc"), list("bcabca"), list("cabcab"))


def test_the_first_turn_is_anybodys(clock: Clock) -> None:
    """Of workers that were killed after a second each, all began with the same phases: those of a pipeline had no turn for 34 s."""
    firsts = {must(discovery(clock, "a", "b", "c").next(roomy)).phase for _ in range(200)}
    assert firsts == {"a", "b", "c"}


def test_an_empty_phase_is_left_alone_until_the_scan_or_a_hint(clock: Clock) -> None:
    found = discovery(clock, scan=5.0)
    found.claimed(must(found.next(roomy)), 0)
    assert found.next(roomy) is None and found.wait() == pytest.approx(5.0)
    clock.now += 4.9
    assert found.next(roomy) is None
    clock.now += 0.2
    found.claimed(must(found.next(roomy)), 0)
    assert found.hint("a") and must(found.next(roomy)).phase == "a"
    assert not found.hint("unknown")


def test_after_a_hint_it_is_looked_again_once_because_a_commit_may_come_late(clock: Clock) -> None:
    found = discovery(clock)
    found.claimed(must(found.next(roomy)), 0)
    found.hint("a")
    found.claimed(must(found.next(roomy)), 0)
    assert found.next(roomy) is None and found.wait() == pytest.approx(AGAIN)
    clock.now += AGAIN * 1.01
    found.claimed(must(found.next(roomy)), 0)
    assert found.next(roomy) is None and found.wait() > 1


def test_a_full_claim_is_followed_by_the_next_at_once_and_no_room_means_no_claim(clock: Clock) -> None:
    found = discovery(clock)
    found.claimed(must(found.next(roomy)), 10)
    assert found.next(full) is None
    assert must(found.next(roomy)).limit == 10


def test_claims_are_sized_to_free_processors_and_what_is_finished_in_a_tenth_of_a_second(
    clock: Clock,
) -> None:
    found = discovery(clock, prefetch=0.1, batch=500)
    assert (must(found.next(roomy)).limit, must(found.next(roomy)).starting) == (10, 10)
    clock.now += 0.25
    found.finished({"a": 500})  # 2,000 a second
    want = must(found.next(roomy))
    assert (want.limit, want.starting) == (210, 10)
    clock.now += 0.2
    found.finished({"a": 40_000})
    assert must(found.next(roomy)).limit == 500


def test_without_prefetch_only_free_processors_are_filled(clock: Clock) -> None:
    found = discovery(clock, prefetch=0.0)
    clock.now += 0.2
    found.finished({"a": 10_000})
    assert must(found.next(lambda phase: Room(3, 7, 0, 10, 1000))).limit == 3


def test_a_slow_phase_forgets_that_it_was_fast(clock: Clock) -> None:
    found = discovery(clock, prefetch=0.1)
    clock.now += 0.2
    found.finished({"a": 2_000})
    clock.now += 60
    found.finished({"a": 6})
    assert must(found.next(roomy)).limit == 10


def test_the_room_in_memory_bounds_a_claim(clock: Clock) -> None:
    found = discovery(clock)
    clock.now += 0.2
    found.finished({"a": 100_000})
    assert must(found.next(lambda phase: Room(10, 0, 0, 10, 4))).limit == 4


def test_without_notifications_the_scan_is_more_frequent(clock: Clock) -> None:
    found = discovery(clock, scan=5.0, scan_unheard=1.0)
    found.set_listening(False)
    found.claimed(must(found.next(roomy)), 0)
    assert found.wait() == pytest.approx(1.0)


def test_what_could_not_be_used_is_left_alone_for_a_while(clock: Clock) -> None:
    found = discovery(clock)
    found.postpone("a", 1.0)
    assert found.next(roomy) is None
    clock.now += 1.1
    assert found.next(roomy) is not None


def test_what_could_not_be_used_is_left_alone_whatever_hints_come(clock: Clock) -> None:
    """Giving it back is a hint itself: claims and refusals chased each other."""
    found = discovery(clock)
    found.postpone("a", 1.0)
    clock.now += 0.1
    assert found.hint("a") and found.hint()
    assert found.next(roomy) is None and found.wait() == pytest.approx(0.9)
    clock.now += 0.95
    assert must(found.next(roomy)).phase == "a"


def test_after_a_claim_that_found_less_than_it_asked_for_it_is_looked_again_once(clock: Clock) -> None:
    """Where some jobs were just enqueued, more are on their way, and their hints may have been held back."""
    found = discovery(clock, scan=5.0)
    found.claimed(must(found.next(roomy)), 3)
    assert found.next(roomy) is None and found.wait() == pytest.approx(AGAIN)
    clock.now += AGAIN * 1.01
    found.claimed(must(found.next(roomy)), 0)
    assert found.next(roomy) is None and found.wait() == pytest.approx(5.0)


def test_a_hint_that_comes_while_a_claim_is_under_way_is_not_lost_with_its_answer(clock: Clock) -> None:
    found = discovery(clock, scan=5.0)
    want, began = must(found.next(roomy)), clock.now
    clock.now += 0.05
    found.hint("a")
    clock.now += AGAIN * 4  # the answer takes longer than the second look waits
    found.claimed(want, 0, began)
    assert must(found.next(roomy)).phase == "a", "the claim has not seen what the hint was about"
    want, began = must(found.next(roomy)), clock.now + 0.001
    clock.now += 0.01
    found.claimed(want, 0, began)
    assert found.next(roomy) is None
    clock.now += 6
    began = clock.now
    found.hint("a")
    clock.now += AGAIN * 4
    found.found_empty(["a"], began)
    assert must(found.next(roomy)).phase == "a"
