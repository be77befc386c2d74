"""Kills processes while jobs run, and counts what that led to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from windlass import App
from windlass_examples.running.processes import Processes

CHECK_EVERY = 0.05


def wait_for(
    is_done: Callable[[], bool],
    progress: Callable[[], float],
    processes: Processes,
    *,
    kills: int = 0,
    say: Callable[[str], None] = lambda text: None,
    patience: float = 600.0,
) -> None:
    """Wait until the work is done. Meanwhile kill ``kills`` processes, evenly over the progress (0 to 1), and start another for each."""
    began = time.monotonic()
    while not is_done():
        if time.monotonic() - began > patience:
            raise TimeoutError(f"not done within {patience:g} s:\n{processes.logs()}")
        processes.check()
        if processes.killed < kills and progress() >= (processes.killed + 1) / (kills + 2):
            say(f"killed process {processes.kill_one()}; its jobs run again when its lease is over")
            processes.start()
        time.sleep(CHECK_EVERY)


def interrupted(app: App, jobs: Iterable[str]) -> int:
    """How many of the jobs were running in a process that died."""
    return sum(
        any(span.error and span.error.get("code") == "instance_died" for span in app.jobs.timeline(job))
        for job in jobs
    )
