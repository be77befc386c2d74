"""Interpreter settings for a process that only runs jobs. An application that contains an engine makes its own settings."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.0003
"""Seconds that a thread may run Python code before others get a turn. With Python's default of 5 ms the step thread, which needs the
interpreter often but briefly, waits so long for busy handlers that a drain falls from 25k to 14k jobs/s."""

PER_THREAD, LONGEST = 0.0005, 0.002
"""The interval while plain handlers run, for each of them, and the longest. Each thread that waits for the interpreter wakes once per
interval: ten handlers that compute for 5 ms each need 6.4 ms of CPU time a job with an interval of 0.3 ms, 5.8 with 1 ms, and 5.7 with 2 ms or
5 ms. A thread waits for the turns of all others, so the event loop waits 20 ms beside ten such handlers; with 5 ms it would wait 50."""

MEASURED_OVER = 0.2
"""Seconds over which the rate of jobs is measured."""

YOUNG = 50_000
"""New objects before the collector scans the young generation. With Python's default of 700 it scans each batch of jobs several times
while they run: 20 instead of 16 µs a job."""

_is_tuned = False


def tune_process() -> None:
    """Apply the settings; call this once, after all imports. The engines of the process adapt the switch interval from then on."""
    global _is_tuned
    _is_tuned = True
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)


def switch_interval(threads: int, seconds_a_job: float) -> float:
    """The interval for so many plain handlers at once and so many seconds between two ends of jobs: no longer than a job takes, so that the
    step thread gets its turn where jobs are short."""
    return max(SWITCH_INTERVAL, min(LONGEST, PER_THREAD * threads, seconds_a_job))


class SwitchInterval:
    """Makes the switch interval follow what runs in a tuned process; the watchdog calls ``follow`` several times a second."""

    def __init__(self, ended: int, now: float) -> None:
        self._ended, self._since = ended, now

    def follow(self, threads: int, ended: int, now: float) -> None:
        """Set the interval: ``threads`` run plain handlers now, and ``ended`` jobs have ended since the start."""
        if not _is_tuned or now - self._since < MEASURED_OVER:
            return
        wanted = switch_interval(threads, (now - self._since) / max(1, ended - self._ended))
        self._ended, self._since = ended, now
        if abs(sys.getswitchinterval() - wanted) > 1e-6:
            sys.setswitchinterval(wanted)
