"""Fan-ins whose last parents end at the same instant in different processes; the long form is fan_ins.py itself."""

from __future__ import annotations

import pytest

from tests.acceptance import fan_ins

pytestmark = pytest.mark.timing


@pytest.mark.slow
def test_each_child_is_made_once_and_none_is_stranded(url: str) -> None:
    """Direct dependencies and rules, 2 to 50 wide, with parents that complete, fail, are cancelled, are retried, or have ended already
    when the child comes to know them: the children are exactly those that should be, each ran once, and what waits is to be
    seen."""
    report = fan_ins.show(url, groups=60, count=3, slot=0.02)
    assert report.problems == []
    assert report.made > 30
