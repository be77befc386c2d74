"""Texts that are no filter: each is refused with the place, what is there, what may be there, and what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import ConfigError
from windlass.control.filters import Filter
from windlass.control.filters.parser import MAX_TERMS, MAX_TEXT, MAX_VALUES
from windlass.errors import FilterError

REFUSED = [
    json.loads(line)
    for line in (Path(__file__).parent / "refused_filters.jsonl").read_text("utf-8").splitlines()
]
"""Text, offset and length of the wrong part, and the cure."""


def refused(text: str) -> FilterError:
    with pytest.raises(FilterError) as caught:
        Filter.parse(text)
    return caught.value


def test_the_table_has_more_than_two_hundred_texts() -> None:
    assert len({text for text, *_ in REFUSED}) > 300


@pytest.mark.parametrize(("text", "position", "length", "cure"), REFUSED, ids=range(len(REFUSED)))
def test_a_wrong_text_is_refused_with_its_place_and_the_cure(
    text: str, position: int, length: int, cure: str
) -> None:
    error = refused(text)
    assert (error.position, error.length, error.cure) == (position, length, cure)
    assert 0 <= position < len(text) and 1 <= length <= len(text) - position
    assert error.found and error.allowed and error.text == text
    assert all(part in str(error) for part in (f"character {position + 1}", error.found, error.allowed, cure))
    assert error.code == "filter" and isinstance(error, ConfigError)


def test_sizes_are_limited() -> None:
    too_long = "kind:" + "a" * MAX_TEXT
    assert refused(too_long).position == MAX_TEXT and len(str(refused(too_long))) < 1000
    many = "kind:" + ",".join(f"k{n}" for n in range(MAX_VALUES + 1))
    assert many[refused(many).position] == "," and refused(many).position == many.rindex(",")
    terms = " ".join(f"kind:k{n}" for n in range(MAX_TERMS + 1))
    assert terms[refused(terms).position :] == f"kind:k{MAX_TERMS}"
    assert len(Filter.parse(terms.rpartition(" ")[0]).terms) == MAX_TERMS


def test_the_pointer_marks_the_wrong_part() -> None:
    assert refused("state:failed kin\u200bd:a").pointer == "state:failed kin·d:a\n" + " " * 13 + "^" * 5
    assert refused("kind:a stat:b").pointer.endswith("\n       ^^^^")


@given(st.text())
def test_any_text_is_a_filter_or_is_refused_inside_the_text(text: str) -> None:
    try:
        Filter.parse(text)
    except FilterError as error:
        assert 0 <= error.position < len(text) and 1 <= error.length <= len(text) - error.position
        assert error.cure


WORDS = st.sampled_from(
    [
        "state",
        "kind",
        "args",
        "args.a",
        "age",
        "failed",
        "5",
        ":",
        ":",
        ",",
        "-",
        '"',
        "\\",
        "*",
        ">",
        "<=",
        " ",
        "=",
        "1h",
        ".",
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join))
def test_texts_of_the_signs_of_filters_are_read_or_refused_inside_the_text(text: str) -> None:
    test_any_text_is_a_filter_or_is_refused_inside_the_text.hypothesis.inner_test(text)  # type: ignore[attr-defined]
