"""The store's statements as drivers take them: one text, other placeholders."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import product
from uuid import UUID

import pytest

from windlass.store.schema.statements import PARAMETER, load
from windlass.transactions.placeholders import Style, as_rows, as_sqlite, as_text, statements_for

# What an enqueue or an end may run, whatever a job has: keys, children, outputs.
PREFIXES = ("enqueue", "record.", "settle.", "output.p", "checkpoint", "fence", "notify", "cancel.later")
NOT_FOR_CALLERS = {"enqueue.copy", "enqueue.copy_at", "enqueue.copied", "record.plain"}


def verbs(dialect: str) -> list[str]:
    return [name for name in load(dialect) if name.startswith(PREFIXES) and name not in NOT_FOR_CALLERS]


@pytest.mark.parametrize(("dialect", "style"), list(product(["postgres", "sqlite"], Style)))
def test_every_verb_can_be_spelled_for_every_driver(dialect: str, style: Style) -> None:
    for verb in verbs(dialect):
        assert statements_for(dialect, style, verb, has_clock=False)
        spelled_ones = statements_for(dialect, style, verb, has_clock=True)
        for statement, spelled in zip(load(dialect)[verb].statements, spelled_ones, strict=True):
            assert set(spelled.names) == statement.names, verb
            assert spelled.is_mapping == (style in (Style.PYFORMAT, Style.NAMED))


def test_only_the_placeholders_differ() -> None:
    """Each text, with its placeholders taken out, is the same."""
    marks = {
        Style.PYFORMAT: r"%\(\w+\)s",
        Style.FORMAT: r"%s",
        Style.QMARK: r"\?",
        Style.NAMED: r"(?<![:\w]):[a-z_]+",
        Style.DOLLAR: r"\$\d+",
    }
    for verb in verbs("postgres"):
        texts = {
            re.sub(mark, "<value>", spelled.text).replace("%%", "%")
            for style, mark in marks.items()
            for spelled in statements_for("postgres", style, verb, has_clock=False)[:1]
        }
        assert len(texts) == 1, verb


def test_an_enqueue_is_one_statement_with_one_parameter() -> None:
    for style in Style:
        (spelled,) = statements_for("postgres", style, "enqueue", has_clock=False)
        assert spelled.names == ("jobs",)
    (spelled,) = statements_for("postgres", Style.DOLLAR, "enqueue", has_clock=False)
    assert "json_to_recordset($1::text::json)" in spelled.text and "NULL::timestamptz" in spelled.text
    assert "$2" not in spelled.text


def test_a_parameter_without_a_cast_cannot_go_as_text() -> None:
    """`LIMIT $1::text` would be refused by the server; here it is refused by name."""
    with pytest.raises(ValueError, match="verb step: without a cast"):
        statements_for("postgres", Style.DOLLAR, "step", has_clock=False)


def test_a_verb_of_several_statements_answers_with_its_last() -> None:
    """asyncpg does not tell an empty answer from none, so nothing may be read from a statement in the middle."""
    for verb in verbs("postgres"):
        *first, last = [statement.text for statement in load("postgres")[verb].statements]
        assert not any(_answers(text) for text in first) or _answers(last), verb


def _answers(text: str) -> bool:
    return text.startswith("SELECT") or "RETURNING" in text or bool(re.search(r"\n\)\nSELECT", text))


def test_places_are_repeated_as_each_style_needs() -> None:
    given = {"now": 1, "jobs": "[]"}
    (first, *_) = statements_for("sqlite", Style.QMARK, "enqueue", has_clock=True)
    assert first.text.count("?") == len(first.names) == len(first.values(given)) > 3
    (first, *_) = statements_for("sqlite", Style.NAMED, "enqueue", has_clock=True)
    assert first.values(given) == given and set(PARAMETER.findall(first.text)) == {"now", "jobs"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        ("a", "a"),
        ([], "{}"),
        (["a", 'b"\\c', None, "NULL"], '{"a","b\\"\\\\c",NULL,"NULL"}'),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
    ],
)
def test_values_for_postgres_are_text(value: object, text: str | None) -> None:
    assert as_text(value) == text


def test_values_for_sqlite() -> None:
    assert as_sqlite(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000_000
    assert as_sqlite(["a"]) == '["a"]' and as_sqlite(None) is None and as_sqlite(7) == 7


def test_answers_are_as_the_stores_own_drivers_give_them() -> None:
    job_id = "01900000-0000-7000-8000-00000000000a"
    assert as_rows([[UUID(job_id), {"a": 1}, b"x", 7, None, True]]) == [
        (job_id, '{"a": 1}', "x", 7, None, True)
    ]
