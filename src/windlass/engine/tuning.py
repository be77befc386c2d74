"""Interpreter settings for a process that only runs jobs. An application that contains an engine makes its own settings."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.0003
"""Seconds that a thread may run Python code before others get a turn. With Python's default of 5 ms the step thread, which needs the
interpreter often but briefly, waits so long for busy handlers that a drain falls from 25k to 14k jobs/s."""

YOUNG = 50_000
"""New objects before the collector scans the young generation. With Python's default of 700 it scans each batch of jobs several times
while they run: 20 instead of 16 µs a job."""


def tune_process() -> None:
    """Apply the settings; call this once, after all imports."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
