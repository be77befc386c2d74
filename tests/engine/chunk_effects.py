"""The effects of chunks: what a chunk inserts, and what was inserted."""

from __future__ import annotations

from typing import Any

from tests.engine.shop import Shop


def effects(shop: Shop) -> list[tuple[int, int, int]]:
    return [tuple(row) for row in shop.run("SELECT chunk, first, last FROM effect ORDER BY chunk, first")]


def insert(chunk: Any) -> str:
    return f"INSERT INTO effect VALUES ({chunk.number}, {chunk.offset}, {chunk.offset + chunk.limit})"
