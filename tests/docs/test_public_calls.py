"""Guides, errors and log lines advise public calls: the store of an app is the storage layer, and no part of the public API."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORE = re.compile(r"\b(?:app|box|jobs\.app|sandbox)\.store\b")
GUIDES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_uses_the_store_of_an_app(page: Path) -> None:
    found = [line for line in page.read_text().splitlines() if STORE.search(line)]
    assert not found


def test_no_text_of_the_code_names_the_store_of_an_app() -> None:
    """Messages of errors and log lines, texts of commands, and docstrings."""
    said = [(place, text) for place, text in texts() if STORE.search(text)]
    assert not said


def test_the_texts_of_the_code_are_found() -> None:
    found = [text for _, text in texts()]
    assert any("there is no living instance" in text for text in found)
    assert STORE.search("call app.store.jobs.get(id)") and not STORE.search("windlass.store.postgres")


def texts() -> Iterator[tuple[str, str]]:
    for file in sorted((ROOT / "src" / "windlass").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value
