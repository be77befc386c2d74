"""Merges old days of history into months and reports the progress."""

from __future__ import annotations

import time
from typing import Any

from windlass.cli.exit_codes import say
from windlass.features import Store

PAUSE = 0.5
PAGE = 5_000
SPEAK_EVERY = 5.0


def merge_store(store: Store, wait: float) -> tuple[list[dict[str, Any]], str]:
    """Create every month that is due.

    Returns each month with the number of its jobs, and the reason if nothing could be done for ``wait`` seconds. After each page it
    sleeps for as long as the page took, so that claims keep their share of the database.
    """
    made: list[dict[str, Any]] = []
    copied, began = 0, time.monotonic()
    stuck_since, speak_at = began, began + SPEAK_EVERY
    while (step := store.upkeep.merge_history(always=True, page=PAGE)) is not None:
        now = time.monotonic()
        copied += step.jobs
        if step.merged is not None:
            made.append({"month": step.month.removeprefix("job_done_"), "jobs": step.merged})
        if now >= speak_at:
            speak_at = now + SPEAK_EVERY
            say(f"{len(made)} months made, {copied:,} jobs copied; {step.month} {step.what}")
        if not step.is_waiting:
            stuck_since = now
        elif now - stuck_since >= wait:
            return made, step.what
        time.sleep(min(PAUSE, wait) if step.is_waiting else now - began if step.jobs else 0.0)
        began = time.monotonic()
    return made, ""
