"""The check of words: what it finds, and what it leaves alone. `./dev check` runs it."""

from pathlib import Path

import pytest

from tools.dev import words
from tools.dev.steps import ROOT


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("it answers the ids", ["answers"]),
        ("is told\nby whoever waits", ["told", "whoever"]),
        ("a step under\nway", ["under way"]),
        ("takes everything back", ["takes everything back"]),
        ("Nobody lets the\nchildren know", ["Nobody", "lets the children know"]),
        ("one look at it", ["look"]),
    ],
)
def test_words_that_are_replaced_are_found_across_lines(text: str, wanted: list[str]) -> None:
    assert [word for _, word, _ in words.find(text)] == wanted


def test_pages_are_checked_for_more_than_docstrings() -> None:
    text = "the limits, those\nof each phase, and those that were"
    assert [word for _, word, _ in words.find(text, is_page=True)] == ["those of", "those that"]
    assert list(words.find(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "a look-up by id",
        "the database does not\nanswer",
        "holds a lock",
        "``tell=False`` and `look`",
        "in terminal colours",
        "a foretold end",
    ],
)
def test_right_uses_and_names_in_backquotes_are_left_alone(text: str) -> None:
    assert list(words.find(text)) == []


def test_comments_docstrings_and_pages_are_read_and_code_is_not(tmp_path: Path) -> None:
    python = tmp_path / "a.py"
    python.write_text('"""One\nlooks."""\ntell = "told"  # in vain\nx = 1\n"""Somebody."""\n')
    sql = tmp_path / "a.sql"
    sql.write_text("-- name: look\n-- Tells it.\nSELECT looks; -- whoever\n")
    page = tmp_path / "a.md"
    page.write_text("# Page\n```python\nlook()\n```\nit is told\n")
    found = {
        path.suffix: sorted(
            (first + line, word) for first, text in words.prose_of(path) for line, word, _ in words.find(text)
        )
        for path in (python, sql, page)
    }
    assert found == {
        ".py": [(2, "looks"), (3, "in vain"), (5, "Somebody")],
        ".sql": [(2, "Tells"), (3, "whoever")],
        ".md": [(5, "told")],
    }


def test_texts_of_the_package_are_read_and_short_strings_are_not() -> None:
    code = '"""Doc of it."""\nraise Error(\n    f"{name} is told of {other}"\n)\nname = "told"\nlog.info("whoever reads it")\n'
    assert sorted(words._texts(code)) == [(3, "`x` is told of `x`"), (6, "whoever reads it")]


def test_the_clean_folders_exist() -> None:
    assert all((ROOT / name).exists() for name in (*words.CLEAN, *words.LEFT_OUT))
