"""The counts of a plain job in this checkout beside those of another one: what got dearer.

Each checkout counts with its own script and its own Python, in turns. The least of the rounds counts: work of the server beside the measurement
only adds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report import Row, say, show
from bench.versions import NotSetUpError

ROOT = Path(__file__).parents[1]

Counts = Mapping[tuple[str, str], float]
"""By what was done, and what was counted."""

ROWS = 1.0
ERRORS: Mapping[str, tuple[float, float]] = {
    "statements/job": (0.01, 0.0),
    "WAL B/job": (0.02, 0.0),
    "rows visited/job": (0.02, ROWS),
    "index entries/job": (0.02, ROWS),
    "rows written/job": (0.02, ROWS),
    "Python calls/job": (0.01, 0.0),
}
"""How far the counts of one version differ from run to run: a share of the count, and an amount. Rows are those that sessions reported in
time, also of the server's own work."""
ENGINE = (0.03, 0.0)
"""The error of the calls of a whole engine: how many jobs a step has depends on the machine."""


def run(other: Path, *, jobs: int, rounds: int, output: Path | None) -> bool:
    """Count in both checkouts; returns whether no count of this one is higher by more than its error."""
    python = other / ".venv" / "bin" / "python"
    if not python.exists() or not (other / "bench" / "counted.py").exists():
        raise NotSetUpError(f"{other} is no checkout of Windlass with a .venv; run ./dev setup there")
    before: list[Counts] = []
    after: list[Counts] = []
    for number in range(rounds):
        say(f"round {number + 1}")
        before.append(_counts(python, other, jobs))
        after.append(_counts(Path(sys.executable), ROOT, jobs))
    rows = compared(before, after)
    show(f"A plain job, counted: {other} before, this checkout after", rows, output)
    higher = [f"{row['what']}, {row['count']}" for row in rows if row["higher"]]
    print(f"\nhigher by more than the error: {'; '.join(higher) or 'none'}")
    return not higher


def compared(before: Sequence[Counts], after: Sequence[Counts]) -> list[Row]:
    """The counts that both versions have, the least of each."""
    rows: list[Row] = []
    for what, count in [key for key in after[0] if key in before[0]]:
        old = min(counts[what, count] for counts in before)
        new = min(counts[what, count] for counts in after)
        share, amount = ENGINE if "engine" in what else ERRORS[count]
        error = old * share + amount
        rows.append(
            {
                "what": what,
                "count": count,
                "before": old,
                "after": new,
                "difference": new - old,
                "error": error,
                "higher": "HIGHER" if new - old > error else "",
            }
        )
    return rows


def _counts(python: Path, checkout: Path, jobs: int) -> Counts:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.json"
        command = [str(python), "-m", "bench", "counted", "--jobs", str(jobs), "--json", str(path)]
        subprocess.run(command, cwd=checkout, stdout=subprocess.DEVNULL, check=True)
        rows = json.loads(path.read_text("utf-8"))["rows"]
    return {(row["what"], count): row[count] for row in rows for count in ERRORS if count in row}
