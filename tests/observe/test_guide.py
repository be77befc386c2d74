"""The guide lists the events there are, each with its level."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from tests.observe.lines import LEVELS
from windlass.observe.report import BOUNDS_MS
from windlass.observe.safe_text import LIMIT
from windlass.store.jobs import lines

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_event_is_listed() -> None:
    page = (DOCS / "guides" / "logs-and-metrics.md").read_text("utf-8")
    listed = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| (\w+) \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(
        (name, logging.getLevelName(level).lower()) for name, level in {**LEVELS, **lines.LEVELS}.items()
    )
    assert f"{LIMIT:,} characters" in page


def test_the_bounds_are_listed() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text("utf-8")
    found = re.search(r"bounds ([\d, and]+) ms, ([\d, and]+) s\.", page)
    assert found
    small, large = ([int(number) for number in re.findall(r"\d+", part)] for part in found.groups())
    assert tuple(small + [second * 1000 for second in large]) == BOUNDS_MS
