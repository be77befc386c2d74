"""Backoff policies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError
from windlass.model.retry import LONGEST, SHORTEST, custom, exponential, fixed, linear


def seconds(policy, n: int) -> list[float]:
    return [policy.delay(attempt).total_seconds() for attempt in range(1, n + 1)]


def test_exponential_doubles_up_to_its_longest() -> None:
    policy = replace(exponential(base=1, longest=10, jitter=0.5), random=lambda: 0.5)
    assert seconds(policy, 6) == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_by_its_ratio_and_no_more() -> None:
    """Attempts, base delay, max delay, jitter ratio."""
    policy = exponential(base=4, longest=100, jitter=0.25)
    lowest, highest = replace(policy, random=lambda: 0.0), replace(policy, random=lambda: 1.0)
    assert (lowest.delay(1).total_seconds(), highest.delay(1).total_seconds()) == (3, 5)
    waits = {policy.delay(1) for _ in range(200)}
    assert len(waits) > 100 and all(3 <= wait.total_seconds() <= 5 for wait in waits)


def test_jitter_does_not_shift_a_wait_beyond_the_longest() -> None:
    """The max delay is one, also for a policy of which every wait has grown to it."""
    policy = replace(exponential(base=1, longest=10, jitter=0.5), random=lambda: 1.0)
    assert seconds(policy, 6) == [1.5, 3, 6, 10, 10, 10]


def test_linear_is_one_two_three_seconds_by_default() -> None:
    assert seconds(linear(), 3) == [1, 2, 3]


def test_fixed_is_the_same_every_time() -> None:
    assert seconds(fixed(wait=7), 3) == [7, 7, 7]


def test_your_own_function_sees_attempt_and_error() -> None:
    policy = custom(
        5, lambda attempt, error: timedelta(minutes=attempt) if isinstance(error, KeyError) else 9
    )
    assert policy.delay(2, KeyError()) == timedelta(minutes=2) and policy.delay(2) == timedelta(seconds=9)


@given(
    st.integers(1, 100_000),
    st.sampled_from([exponential(jitter=1.0), linear(), fixed(wait=0.001), custom(3, lambda *_: -5)]),
)
def test_a_wait_is_never_nothing_and_never_endless(attempt: int, policy) -> None:
    assert SHORTEST <= policy.delay(attempt) <= LONGEST


@pytest.mark.parametrize(
    "make",
    [
        lambda: exponential(0),
        lambda: exponential(base=0),
        lambda: exponential(base=10, longest=1),
        lambda: exponential(jitter=1.5),
        lambda: exponential(jitter=float("nan")),
        lambda: linear(step=-1),
        lambda: fixed(wait="1"),  # type: ignore[arg-type]
        lambda: custom(3, None),  # type: ignore[arg-type]
        lambda: linear(True),
    ],
)
def test_senseless_policies_are_refused(make) -> None:
    with pytest.raises(ConfigError, match=r"retry|function"):
        make()
