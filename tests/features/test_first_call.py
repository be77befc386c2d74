"""The first call of a process finds all features: each of these programs submits before anything else opened the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

APP = """
import windlass
app = windlass.App("sqlite:///{folder}/jobs.db")
@app.job
def part(n: int) -> int: return n
@app.job
def whole(ctx: windlass.Context) -> None: ...
"""


@pytest.mark.parametrize(
    "call",
    [
        "app.batch([part.request(n=1)], then=whole.request()).then",
        "app.chain(part.request(n=1), whole.request()).last",
        "whole.options(after=[part.options(id='0190a000-0000-7000-8000-000000000000').enqueue(n=1)]).enqueue()",
    ],
    ids=["batch", "chain", "after"],
)
def test_the_first_call_of_a_process_knows_dependencies(tmp_path: Path, call: str) -> None:
    code = f"{APP.format(folder=tmp_path)}\nprint(({call}).state())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout == "waiting\n", found.stderr


def test_the_first_statement_on_a_connection_of_the_caller_has_the_parts_of_the_features(
    tmp_path: Path,
) -> None:
    """A plain job through asyncpg or psycopg's AsyncConnection: the statement flags jobs of kinds that rules have for parents."""
    code = f"""{APP.format(folder=tmp_path)}
app.parts.transaction_submitter
from windlass.transactions.placeholders import Style, statements_for
(first, *_) = statements_for("postgres", Style.DOLLAR, "enqueue", has_clock=False)
print("rule_kind" in str(first))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout == "True\n", found.stderr
