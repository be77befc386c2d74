"""Discovery: which phase is claimed from next, and how much. Pure: the clock is a number."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from windlass.engine.discovery import AGAIN, MOST_PHASES, Discovery
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


def one(wants: Sequence[Want]) -> Want:
    (want,) = wants
    return want


TURNS = ("abcabc", "bcabca", "cabcab")


@pytest.mark.parametrize("limit", [None, 40])
def test_phases_that_are_claimed_from_one_by_one_take_turns(clock: Clock, limit: int | None) -> None:
    """As where the database refuses some claims, and where all phases share a limit of concurrent calls."""
    found = discovery(clock, "a", "b", "c", max_concurrent_calls=limit)
    order = ""
    for _ in range(6):
        want = one(found.wants(roomy) if limit else found.wants(roomy, 1))
        order += want.phase
        found.claimed(want, want.limit)
    assert order in TURNS


def test_a_step_claims_from_all_phases_that_are_due_and_have_room(clock: Clock) -> None:
    found = discovery(clock, "a", "b", "c", "d", scan=5.0)
    for want in found.wants(lambda phase: full(phase) if phase == "d" else roomy(phase)):
        found.claimed(want, 0 if want.phase == "b" else want.limit)
    wants = found.wants(roomy)
    assert sorted((want.phase, want.limit, want.starting) for want in wants) == [
        ("a", 10, 10), ("c", 10, 10), ("d", 10, 10),
    ]  # fmt: skip


def test_each_phase_is_the_first_of_a_step_in_turn(clock: Clock) -> None:
    found = discovery(clock, "a", "b", "c")
    assert "".join(found.wants(roomy)[0].phase for _ in range(6)) in TURNS


def test_a_page_is_shared_and_a_phase_that_got_a_rest_of_it_is_the_first_of_the_next(clock: Clock) -> None:
    """No step claims more than a page, and no phase waits for ever behind others that fill it."""
    found = discovery(clock, "a", "b", "c", page=25)
    turns = [[(want.phase, want.limit, want.starting) for want in found.wants(roomy)] for _ in range(3)]
    assert all([limit for _, limit, _ in turn] == [10, 10, 5] == [n for _, _, n in turn] for turn in turns)
    for turn, following in itertools.pairwise(turns):
        assert turn[-1][0] == following[0][0]
    found = discovery(clock, "a", "b", "c", page=20)
    assert "".join(want.phase for _ in range(3) for want in found.wants(roomy)) in TURNS


def test_a_step_claims_from_a_bounded_number_of_phases(clock: Clock) -> None:
    names = [f"phase-{number}" for number in range(2 * MOST_PHASES)]
    found = discovery(clock, *names, page=10_000)
    served = [want.phase for _ in range(2) for want in found.wants(roomy)]
    assert len(served) == len(names) and set(served) == set(names)


def test_a_phase_that_jobs_go_on_to_is_claimed_from_in_the_same_step(clock: Clock) -> None:
    found = discovery(clock, "a", "b", scan=5.0)
    for want in found.wants(roomy):
        found.claimed(want, 0)
    assert not found.wants(roomy)
    found.goes_on(["b", "unknown"])
    want = one(found.wants(roomy))
    assert want.phase == "b"
    found.claimed(want, 0)
    assert not found.wants(roomy) and found.wait() == pytest.approx(5.0), "no second scan: the claim saw them"
    found.postpone("b", 1.0)
    found.goes_on(["b"])
    assert not found.wants(roomy)


def test_the_first_turn_is_anybodys(clock: Clock) -> None:
    """Of workers that were killed after a second each, all began with the same phases: those of a pipeline had no turn for 34 s."""
    firsts = {discovery(clock, "a", "b", "c").wants(roomy)[0].phase for _ in range(200)}
    assert firsts == {"a", "b", "c"}


def test_an_empty_phase_is_left_alone_until_the_scan_or_a_hint(clock: Clock) -> None:
    found = discovery(clock, scan=5.0)
    found.claimed(one(found.wants(roomy)), 0)
    assert not found.wants(roomy) and found.wait() == pytest.approx(5.0)
    clock.now += 4.9
    assert not found.wants(roomy)
    clock.now += 0.2
    found.claimed(one(found.wants(roomy)), 0)
    assert found.hint("a") and one(found.wants(roomy)).phase == "a"
    assert not found.hint("unknown")


def test_after_a_hint_it_is_looked_again_once_because_a_commit_may_come_late(clock: Clock) -> None:
    found = discovery(clock)
    found.claimed(one(found.wants(roomy)), 0)
    found.hint("a")
    found.claimed(one(found.wants(roomy)), 0)
    assert not found.wants(roomy) and found.wait() == pytest.approx(AGAIN)
    clock.now += AGAIN * 1.01
    found.claimed(one(found.wants(roomy)), 0)
    assert not found.wants(roomy) and found.wait() > 1


def test_a_full_claim_is_followed_by_the_next_at_once_and_no_room_means_no_claim(clock: Clock) -> None:
    found = discovery(clock)
    found.claimed(one(found.wants(roomy)), 10)
    assert not found.wants(full)
    assert one(found.wants(roomy)).limit == 10


def test_claims_are_sized_to_free_processors_and_what_is_finished_in_a_tenth_of_a_second(
    clock: Clock,
) -> None:
    found = discovery(clock, prefetch=0.1, page=500)
    assert (one(found.wants(roomy)).limit, one(found.wants(roomy)).starting) == (10, 10)
    clock.now += 0.25
    found.finished({"a": 500})  # 2,000 a second
    want = one(found.wants(roomy))
    assert (want.limit, want.starting) == (210, 10)
    clock.now += 0.2
    found.finished({"a": 40_000})
    assert one(found.wants(roomy)).limit == 500


def test_without_prefetch_only_free_processors_are_filled(clock: Clock) -> None:
    found = discovery(clock, prefetch=0.0)
    clock.now += 0.2
    found.finished({"a": 10_000})
    assert one(found.wants(lambda phase: Room(3, 7, 0, 10, 1000))).limit == 3


def ended(clock: Clock, found: Discovery, *, claim: float, rate: int) -> None:
    """Claims of the phase take so long, and so many of its jobs end in a second."""
    for _ in range(30):
        want = one(found.wants(roomy))
        clock.now += claim
        found.claimed_all([want], [], clock.now - claim)
        found.hint("a")
    found.finished({"a": 0})  # a new window
    clock.now += 0.2
    found.finished({"a": rate // 5})


def test_of_jobs_that_take_longer_than_a_claim_as_many_are_claimed_ahead_as_end_meanwhile(
    clock: Clock,
) -> None:
    """Ten processors and jobs of 20 ms: a job in memory could run in an idle instance."""
    found = discovery(clock)
    ended(clock, found, claim=0.0015, rate=500)
    assert one(found.wants(roomy)).limit == 10 and not found.wants(full)
    ended(clock, found, claim=0.005, rate=500)
    assert one(found.wants(full)).limit == 2


def test_of_jobs_that_are_shorter_than_a_claim_more_are_claimed_ahead(clock: Clock) -> None:
    found = discovery(clock)
    ended(clock, found, claim=0.005, rate=4_000)
    assert one(found.wants(roomy)).limit == pytest.approx(10 + 4_000 * 0.02, abs=1)


def test_a_slow_database_does_not_make_an_instance_hold_more_than_a_tenth_of_a_second(clock: Clock) -> None:
    found = discovery(clock)
    ended(clock, found, claim=2.0, rate=1_000)
    assert one(found.wants(roomy)).limit == pytest.approx(110, abs=1)


def test_a_burst_is_not_served_in_tens(clock: Clock) -> None:
    """The rate is known before its window of a tenth of a second is over."""
    found = discovery(clock)
    ended(clock, found, claim=0.002, rate=0)
    for _ in range(6):
        clock.now += 0.002
        found.finished({"a": 10})
    assert one(found.wants(roomy)).limit > 30


def test_a_slow_phase_forgets_that_it_was_fast(clock: Clock) -> None:
    found = discovery(clock, prefetch=0.1)
    clock.now += 0.2
    found.finished({"a": 2_000})
    clock.now += 60
    found.finished({"a": 6})
    assert one(found.wants(roomy)).limit == 10


def test_the_room_in_memory_bounds_a_claim(clock: Clock) -> None:
    found = discovery(clock)
    clock.now += 0.2
    found.finished({"a": 100_000})
    assert one(found.wants(lambda phase: Room(10, 0, 0, 10, 4))).limit == 4


def test_without_notifications_the_scan_is_more_frequent(clock: Clock) -> None:
    found = discovery(clock, scan=5.0, scan_unheard=1.0)
    found.set_listening(False)
    found.claimed(one(found.wants(roomy)), 0)
    assert found.wait() == pytest.approx(1.0)


def test_what_could_not_be_used_is_left_alone_for_a_while(clock: Clock) -> None:
    found = discovery(clock)
    found.postpone("a", 1.0)
    assert not found.wants(roomy)
    clock.now += 1.1
    assert found.wants(roomy)


def test_what_could_not_be_used_is_left_alone_whatever_hints_come(clock: Clock) -> None:
    """Giving it back is a hint itself: claims and refusals chased each other."""
    found = discovery(clock)
    found.postpone("a", 1.0)
    clock.now += 0.1
    assert found.hint("a") and found.hint()
    assert not found.wants(roomy) and found.wait() == pytest.approx(0.9)
    clock.now += 0.95
    assert one(found.wants(roomy)).phase == "a"


def test_after_a_claim_that_found_less_than_it_asked_for_it_is_looked_again_once(clock: Clock) -> None:
    """Where some jobs were just enqueued, more are on their way, and their hints may have been held back."""
    found = discovery(clock, scan=5.0)
    found.claimed(one(found.wants(roomy)), 3)
    assert not found.wants(roomy) and found.wait() == pytest.approx(AGAIN)
    clock.now += AGAIN * 1.01
    found.claimed(one(found.wants(roomy)), 0)
    assert not found.wants(roomy) and found.wait() == pytest.approx(5.0)


def test_a_hint_that_comes_while_a_claim_is_under_way_is_not_lost_with_its_answer(clock: Clock) -> None:
    found = discovery(clock, scan=5.0)
    want, began = one(found.wants(roomy)), clock.now
    clock.now += 0.05
    found.hint("a")
    clock.now += AGAIN * 4  # the answer takes longer than the second look waits
    found.claimed(want, 0, began)
    assert one(found.wants(roomy)).phase == "a", "the claim has not seen what the hint was about"
    want, began = one(found.wants(roomy)), clock.now + 0.001
    clock.now += 0.01
    found.claimed(want, 0, began)
    assert not found.wants(roomy)
    clock.now += 6
    began = clock.now
    found.hint("a")
    clock.now += AGAIN * 4
    found.found_empty(["a"], began)
    assert one(found.wants(roomy)).phase == "a"
