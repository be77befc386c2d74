"""Backoff policies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError, LeaseLost, StoreUnreachableError
from windlass.model.retry import (
    LONGEST,
    SHORTEST,
    custom,
    exponential,
    fixed,
    linear,
    next_delay,
    why_stopped,
)
from windlass.model.signals import Cancel, Retry


def seconds(policy, n: int) -> list[float]:
    return [policy.delay(attempt).total_seconds() for attempt in range(1, n + 1)]


def test_exponential_doubles_up_to_its_longest() -> None:
    policy = replace(exponential(base=1, longest=10, jitter=0.5), random=lambda: 0.5)
    assert seconds(policy, 6) == [1, 2, 4, 8, 10, 10]


def test_jitter_spreads_by_its_ratio_and_no_more() -> None:
    """Attempts, base delay, max delay, jitter ratio."""
    policy = exponential(base=4, longest=100, jitter=0.25)
    lowest, highest = replace(policy, random=lambda: 0.0), replace(policy, random=lambda: 1.0)
    assert seconds(lowest, 1) + seconds(highest, 1) == [3, 5]
    waits = {seconds(policy, 1)[0] for _ in range(200)}
    assert len(waits) > 100 and all(3 <= wait <= 5 for wait in waits)


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


MAKERS = [exponential, linear, fixed, lambda **options: custom(3, lambda *_: 1, **options)]


@pytest.mark.parametrize("make", MAKERS)
def test_only_chosen_exceptions_are_retried(make) -> None:
    chosen = make(on=(OSError, KeyError))
    assert chosen.delay(1, KeyError()) and chosen.delay(1, ConnectionError()), "a subclass, too"
    assert chosen.delay(1, ValueError()) is None
    assert why_stopped(chosen, ValueError()) == "not retried: ValueError is not in on (OSError, KeyError)"
    spared = make(give_up_on=ValueError)
    assert spared.delay(1, KeyError()) and spared.delay(1, ValueError()) is None
    assert why_stopped(spared, ValueError()) == "not retried: ValueError is in give_up_on"
    both = make(on=(OSError,), give_up_on=(FileNotFoundError,))
    assert (
        both.delay(1, OSError())
        and both.delay(1, FileNotFoundError()) is None
        and both.delay(1, KeyError()) is None
    )
    assert make().delay(1, ValueError())


def test_a_subclass_is_named_with_the_type_that_was_given() -> None:
    reason = why_stopped(fixed(give_up_on=[LookupError]), KeyError())
    assert reason == "not retried: KeyError is a LookupError, which is in give_up_on"


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_no_exception_of_the_handler_is_not_chosen(make) -> None:
    """A time limit has no exception; the database of Windlass may be away; and Retry is an order."""
    policy = make(on=KeyError, give_up_on=ValueError)
    for error in (None, Retry(), StoreUnreachableError("away"), LeaseLost("x")):
        assert policy.delay(1, error) is not None
    assert make(give_up_on=Exception).delay(1, Retry()) is not None
    assert make(give_up_on=Exception).delay(1, StoreUnreachableError("away")) is None, "if it is asked for"


@pytest.mark.parametrize(
    "wrong", ["ValueError", ValueError("x"), (ValueError, 3), int, KeyboardInterrupt, 7, Cancel]
)
@pytest.mark.parametrize("option", ["on", "give_up_on"])
@pytest.mark.parametrize("make", MAKERS)
def test_what_is_no_exception_type_is_refused(make, option: str, wrong) -> None:
    with pytest.raises(ConfigError, match=rf"^retry {option} = "):
        make(**{option: wrong})


def test_no_type_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="one or more exception types"):
        fixed(on=())


def test_none_is_no_further_attempt() -> None:
    class Own:
        attempts = 3

        def delay(self, attempt: int, error: BaseException | None = None) -> float | None:
            return 2 if attempt == 1 else None

    for policy in (Own(), custom(3, lambda attempt, error: 2 if attempt == 1 else None)):
        assert next_delay(policy, 1, None) == timedelta(seconds=2) and next_delay(policy, 2, None) is None
        assert why_stopped(policy, None) == "not retried: its retry policy returned None"
