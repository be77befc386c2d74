"""The table of results. It has no unique key on purpose: a result that is written twice would be counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from windlass_examples.running.database import connected, execute
from windlass_examples.web.model import SLOTS

RESULTS = (
    "CREATE TABLE IF NOT EXISTS visibility_result "
    "(job TEXT, url TEXT, title TEXT, language TEXT, topics TEXT, score INTEGER, rank_place REAL, advice TEXT)"
)


def create(url: str) -> None:
    """Make the tables."""
    with connected(url) as connection:
        for table in (RESULTS, SLOTS):
            execute(connection, table)


def write(connection: Any, job: str, language: str, topics: list[str], verdict: Mapping[str, Any]) -> None:
    """Write a result, in the transaction that ends its job."""
    values = [verdict[name] for name in ("url", "title", "score", "rank")]
    execute(
        connection,
        "INSERT INTO visibility_result (url, title, score, rank_place, job, language, topics, advice) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [*values, job, language, json.dumps(topics), json.dumps(verdict["advice"])],
    )


def read(url: str) -> list[dict[str, Any]]:
    """All results, the best first."""
    with connected(url) as connection:
        rows = execute(
            connection,
            "SELECT job, url, title, language, topics, score, rank_place, advice FROM visibility_result "
            "ORDER BY score DESC, rank_place, url",
        ).fetchall()
    names = ("job", "url", "title", "language", "topics", "score", "rank", "advice")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    for one in found:
        one["topics"], one["advice"] = json.loads(one["topics"]), json.loads(one["advice"])
    return found
