"""Examples in the documentation are run, each page in a folder of its own.

Every Python block of README.md, and in docs/ those below a line ``<!-- runnable -->``. The blocks of a page run in one
process, in order. Where a block of text follows, it is what they print.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.plugin import FreshPostgres

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(
    r"(?P<mark><!-- runnable -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


class Example(NamedTuple):
    code: str
    printed: str


def _example(page: Path) -> Example:
    code, printed, is_after_code = [], [], False
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        if block["language"] == "python" and (block["mark"] or page.name == "README.md"):
            code.append(block["text"])
            is_after_code = True
        elif block["language"] == "text" and is_after_code:
            printed.append(block["text"])
            is_after_code = False
        else:
            is_after_code = False
    return Example("\n".join(code), "".join(printed))


PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if _example(page).code]


def test_there_are_examples() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "leases.md", "sqlite.md", "postgresql.md"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, fresh_postgres: FreshPostgres) -> None:
    example = _example(page)
    file = tmp_path / "example.py"
    file.write_text(example.code, "utf-8")
    environment = dict(os.environ)
    if "WINDLASS_DATABASE_URL" in example.code:
        environment["WINDLASS_DATABASE_URL"] = fresh_postgres()
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    if example.printed:
        assert answer.stdout == example.printed
