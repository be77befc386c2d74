"""``--processes``: a number, or ``auto`` for the cores that the worker may use."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from windlass.cli.process_count import ProcessCount, cores

PRINTS = "import sys; from windlass.cli.process_count import cores; print(cores())"


@pytest.mark.parametrize(("given", "count"), [("3", 3), (1, 1), ("auto", None)])
def test_a_number_or_the_cores(given: object, count: int | None) -> None:
    assert ProcessCount().convert(given, None, None) == (cores() if count is None else count)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity of processes on this system")
def test_the_cores_are_those_that_the_process_may_use() -> None:
    first = min(os.sched_getaffinity(0))
    child = f"import os; os.sched_setaffinity(0, {{{first}}}); {PRINTS}"
    told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "1"


@pytest.mark.parametrize("given", ["0", "257", "many", ""])
def test_anything_else_is_refused_with_what_is_allowed(given: str) -> None:
    with pytest.raises(click.BadParameter, match="auto for one process a core"):
        ProcessCount().convert(given, None, None)
