"""Shows progress: bars on a terminal, a line a second elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from windlass_examples.running.command import say

SHOW_EVERY = 1.0


class Bars:
    """One bar for each name, on stderr."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._live = sys.stderr.isatty()
        self._progress: Any = None
        self._tasks: dict[str, Any] = {}
        self._values: dict[str, tuple[int, int]] = {}
        self._show_at = 0.0

    def show(self, name: str, done: int, total: int) -> None:
        """Show the progress of a bar."""
        self._values[name] = (done, total)
        if self._progress is not None:
            self._progress.update(self._tasks[name], completed=done, total=max(total, 1))
        elif time.monotonic() >= self._show_at and len(self._values) == len(self._names):
            self._show_at = time.monotonic() + SHOW_EVERY
            say("   ".join(f"{label} {value:,}/{of:,}" for label, (value, of) in self._values.items()))

    def __enter__(self) -> Self:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=40),
                TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
            )
            self._progress.start()
            self._tasks = {name: self._progress.add_task(name, total=1) for name in self._names}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
        elif self._values:
            self._show_at = 0.0
            say("   ".join(f"{label} {value:,}/{of:,}" for label, (value, of) in self._values.items()))
