"""Texts that are filters: what they mean, and that every filter can be written and read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import ConfigError
from windlass.control.filters import Filter, Scalar, Term, Word
from windlass.control.filters.choices import Choice, Numbers, times
from windlass.control.filters.conditions import Conditions
from windlass.control.filters.keys import KEYS
from windlass.control.filters.terms import NUMBER
from windlass.control.filters.values import LONGEST
from windlass.model import JobFilter, State
from windlass.store.ids import new_id

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID = "0190a1b2-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("  \n ", []),
        ("state:failed", [Term("state", (State.FAILED,))]),
        ("state:failed,cancelled", [Term("state", (State.FAILED, State.CANCELLED))]),
        ("-state:failed", [Term("state", (State.FAILED,), is_negated=True)]),
        (
            "kind:report* -kind:report",
            [Term("kind", (Word("report", True),)), Term("kind", (Word("report"),), is_negated=True)],
        ),
        ('kind:"a b"*,"a*"', [Term("kind", (Word("a b", True), Word("a*")))]),
        ('key:"say \\"hi\\"\\n"', [Term("key", (Word('say "hi"\n'),))]),
        ("correlation:https://a.example/x?y=1", [Term("correlation", (Word("https://a.example/x?y=1"),))]),
        ("age:>1h30m", [Term("age", (timedelta(minutes=90),), ">")]),
        ("age:<=2w", [Term("age", (timedelta(days=14),), "<=")]),
        ("created:>=2026-01-01", [Term("created", (NOW,), ">=")]),
        ("created:<2026-01-01T02:00:00.5+02:00", [Term("created", (NOW + timedelta(seconds=0.5),), "<")]),
        ("finished:>2026-01-01T00:00Z", [Term("finished", (NOW,), ">")]),
        ("priority:>=5 attempt:1,2", [Term("priority", (5,), ">="), Term("attempt", (1, 2))]),
        ("args.user.id:7", [Term("args", (Scalar("7", False),), path=("user", "id"))]),
        ('args."a.b":"7",x', [Term("args", (Scalar("7"), Scalar("x")), path=("a.b",))]),
        ("args.n:>-1.5e3", [Term("args", (Scalar("-1.5e3", False),), ">", path=("n",))]),
        (f"id:{ID} batch:{ID}", [Term("id", (Word(ID),)), Term("batch", (Word(ID),))]),
        ("kind:a,a", [Term("kind", (Word("a"),))]),
        ("kind:-a", [Term("kind", (Word("-a"),))]),
    ],
)
def test_a_text_means(text: str, terms: list[Term]) -> None:
    assert Filter.parse(text) == Filter(tuple(terms))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  state:failed   kind:a ", "state:failed kind:a"),
        ('kind:"report"', "kind:report"),
        ('kind:"a b","c"', 'kind:"a b",c'),
        ("age:>60m", "age:>1h"),
        ("age:<90s", "age:<90s"),
        ("age:<0s", "age:<0d"),
        ("created:>2026-01-01", "created:>2026-01-01T00:00:00Z"),
        ('args."user"."a.b":"x"', 'args.user."a.b":x'),
        ('args.a:"7",7', 'args.a:"7",7'),
        ('args.a:"",null', 'args.a:"",null'),
        ('priority:"5"', "priority:5"),
        ('kind:"\u200b"', 'kind:"\\u200b"'),
    ],
)
def test_a_filter_is_written_in_one_spelling(text: str, canonical: str) -> None:
    assert str(Filter.parse(text)) == canonical


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
WORDS = st.builds(Word, TEXTS)
SEGMENTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='\0"\\'), min_size=1).filter(
    lambda text: not text.strip().lstrip("+-").isdecimal()
)
MOMENTS = st.datetimes(timezones=st.just(UTC))
AGES = st.integers(0, int(LONGEST.total_seconds())).map(lambda seconds: timedelta(seconds=seconds))
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str), st.floats(allow_nan=False, allow_infinity=False).map(str)
).filter(lambda text: NUMBER.fullmatch(text) is not None)
SCALARS = st.one_of(
    st.builds(
        lambda text: Scalar.of(text, is_quoted=True),
        st.one_of(TEXTS, NUMBERS, st.sampled_from(["", "true", "null"])),
    ),
    st.builds(
        lambda text: Scalar(text, False), st.one_of(NUMBERS, st.sampled_from(["true", "false", "null"]))
    ),
)
OPS = st.sampled_from(["<", "<=", ">", ">="])
IDS = st.builds(lambda: Word(new_id()))


def listed(key: str, values: st.SearchStrategy[object]) -> st.SearchStrategy[Term]:
    several = st.lists(values, min_size=1, max_size=4, unique=True).map(tuple)
    return st.builds(Term, st.just(key), several, st.just(""), st.booleans())


def compared(key: str, values: st.SearchStrategy[object]) -> st.SearchStrategy[Term]:
    return st.builds(Term, st.just(key), st.tuples(values), OPS, st.booleans())


PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map(tuple)
TERMS = st.one_of(
    listed("state", st.sampled_from(State)),
    *(listed(key, st.builds(Word, TEXTS, st.booleans())) for key in ("kind", "phase")),
    *(listed(key, WORDS) for key in ("correlation", "key", "principal", "tenant", "error", "exception")),
    *(listed(key, IDS) for key in ("id", "instance", "batch")),
    listed("priority", st.integers(0, 9)),
    compared("priority", st.integers(0, 9)),
    compared("attempt", st.integers(0, 32767)),
    compared("age", AGES),
    *(compared(key, MOMENTS) for key in ("created", "finished")),
    st.builds(
        Term,
        st.just("args"),
        st.lists(SCALARS, min_size=1, max_size=3, unique=True).map(tuple),
        st.just(""),
        st.booleans(),
        PATHS,
    ),
    st.builds(
        Term, st.just("args"), st.tuples(NUMBERS.map(lambda n: Scalar(n, False))), OPS, st.booleans(), PATHS
    ),
)


@given(st.lists(TERMS, max_size=6))
def test_every_filter_can_be_written_and_read_again(terms: list[Term]) -> None:
    only = Filter(tuple(terms))
    assert Filter.parse(str(only)) == only
    assert str(Filter.parse(str(only))) == str(only)
    Conditions.of(only, NOW)


def test_the_examples_of_the_keys_are_filters_of_them() -> None:
    for name, key in KEYS.items():
        (term,) = Filter.parse(key.example).terms
        assert term.key == name


def test_filters_are_joined_and_made_of_fields() -> None:
    both = Filter.parse("state:failed") & Filter.parse("kind:a")
    assert str(both) == "state:failed kind:a" and not both.is_empty and Filter().is_empty
    made = Filter.of(JobFilter(state=State.FAILED, kind="a b", phase="p*", correlation_id="c"))
    assert str(made) == 'state:failed kind:"a b" phase:"p*" correlation:c'
    assert Filter.of(None) == Filter.of("") == Filter.of(JobFilter()) == Filter()
    assert Filter.of(both) is both
    with pytest.raises(ConfigError, match="JobFilter"):
        Filter.of(7)  # type: ignore[arg-type]


LETTERS = st.text("ab", min_size=1, max_size=3)
CHOICES = st.lists(listed("kind", st.builds(Word, LETTERS, st.booleans())), max_size=4)


@given(CHOICES, LETTERS)
def test_terms_of_one_key_all_have_to_hold(terms: list[Term], text: str) -> None:
    expected = all(
        any(isinstance(word, Word) and word.covers(text) for word in term.values) != term.is_negated
        for term in terms
    )
    choice = Choice.of(terms)
    assert choice.covers(text) == expected
    assert not (choice.is_nothing and expected)
    exact = choice.exact
    assert exact is None or (text in exact) == expected


@given(
    st.lists(
        st.one_of(listed("priority", st.integers(0, 9)), compared("priority", st.integers(0, 9))), max_size=4
    ),
    st.integers(0, 9),
)
def test_numbers_that_meet_all_terms(terms: list[Term], number: int) -> None:
    compare: Any = {"<": number.__lt__, "<=": number.__le__, ">": number.__gt__, ">=": number.__ge__}
    expected = all(
        (compare[term.op](term.values[0]) if term.op else number in term.values) != term.is_negated
        for term in terms
    )
    assert Numbers.of(terms, 9).holds(number) == expected


SOON = st.integers(-3, 3).map(lambda n: NOW + timedelta(microseconds=n))


@given(st.lists(compared("created", SOON), max_size=4), SOON)
def test_times_that_meet_all_terms(terms: list[Term], at: datetime) -> None:
    compare: Any = {"<": at.__lt__, "<=": at.__le__, ">": at.__gt__, ">=": at.__ge__}
    expected = all(compare[term.op](term.values[0]) != term.is_negated for term in terms)
    found = times(terms, NOW)
    assert ((found.low is None or at >= found.low) and (found.high is None or at < found.high)) == expected


def test_an_age_is_a_time_before_now() -> None:
    older = times(Filter.parse("age:>1h").terms, NOW)
    assert older.high == NOW - timedelta(hours=1) and older.low is None
    younger = times(Filter.parse("-age:>1h").terms, NOW)
    assert younger.low == NOW - timedelta(hours=1) and younger.high is None


@pytest.mark.parametrize(
    "text",
    [
        "state:failed state:queued",
        "-state:waiting,scheduled,queued,processing,completed,failed,cancelled",
        "priority:>5 priority:<3",
        "attempt:>5 attempt:<3",
        "kind:a kind:b",
        "kind:a -kind:a*",
        "created:>2026-01-02 created:<2026-01-01",
        "finished:>2026-01-02 finished:<2026-01-01",
        "finished:>2026-01-01 state:queued",
    ],
)
def test_terms_that_exclude_each_other_need_no_search(text: str) -> None:
    assert Conditions.of(Filter.parse(text), NOW).is_nothing
