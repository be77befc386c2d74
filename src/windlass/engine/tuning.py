"""What a process that does nothing but work should set for the whole interpreter; an application that hosts an engine decides itself."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.0003
"""How long a thread may keep the interpreter from the others. With Python's own 5 ms the step thread, which needs it for moments only
but often, waits so long for busy handlers that a drain falls from 25k to 14k jobs/s."""

YOUNG = 50_000
"""How many objects may come to be before the collector looks at the young ones. With Python's own 700 it looks at each batch of jobs
several times while they are under way: 20 against 16 µs a job."""


def tune_process() -> None:
    """Call it once, when everything is imported."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
