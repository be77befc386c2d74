"""Numbers that callers and settings give."""

from __future__ import annotations

from math import inf, nan

import pytest

from windlass.errors import ConfigError
from windlass.ranges import Range, is_number, is_whole

SECONDS = Range(0.5, 60, "seconds")
COUNT = Range(1, 10_000, is_whole=True, or_none="no limit")


@pytest.mark.parametrize("value", [True, False, "1", None, nan, 1.0, 0, 11])
def test_what_is_no_whole_number_from_1_to_10(value: object) -> None:
    assert not is_whole(value, 1, 10)


@pytest.mark.parametrize("value", [True, False, "1", None, nan, inf, 0.9, 10.1])
def test_what_is_no_number_from_1_to_10(value: object) -> None:
    assert not is_number(value, 1, 10)


def test_both_ends_of_a_range_are_allowed() -> None:
    assert is_whole(1, 1, 10) and is_whole(10, 1, 10) and is_number(1, 1, 10) and is_number(10.0, 1, 10)


@pytest.mark.parametrize(("name", "allowed", "value"), [("wait", SECONDS, 0.4), ("calls", COUNT, 2.5), ("wait", SECONDS, None), ("calls", COUNT, True)])  # fmt: skip
def test_a_value_outside_is_refused_under_its_name(name: str, allowed: Range, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        allowed.check(name, value)
    assert (caught.value.key, caught.value.value, caught.value.allowed) == (name, value, allowed.allowed)


def test_what_is_allowed_is_said_in_words() -> None:
    assert SECONDS.allowed == "a number of seconds from 0.5 to 60"
    assert COUNT.allowed == "a whole number from 1 to 10,000, or None for no limit"


@pytest.mark.parametrize(
    ("allowed", "given", "read"),
    [(SECONDS, "2", 2.0), (SECONDS, 3, 3.0), (COUNT, "7", 7), (COUNT, 7.0, 7), (COUNT, "None", None), (COUNT, "", None)],
)  # fmt: skip
def test_a_text_of_a_file_or_a_variable_is_read(allowed: Range, given: object, read: object) -> None:
    assert allowed.read(given) == read


@pytest.mark.parametrize(
    ("allowed", "given"),
    [(SECONDS, "soon"), (SECONDS, True), (SECONDS, None), (SECONDS, "nan"), (COUNT, 7.5), (COUNT, "inf"), (COUNT, 0), (COUNT, inf)],
)  # fmt: skip
def test_a_text_that_is_no_number_of_the_range_is_not(allowed: Range, given: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        allowed.read(given)
