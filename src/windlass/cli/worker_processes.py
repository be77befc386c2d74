"""Several worker processes under one parent, which starts them, passes signals on, and starts anew those that die.

A job can take its process down (a segmentation fault in a C library, the kernel's memory killer). The others go on, and the place is
filled again after a pause that grows while it happens in a row.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from windlass.cli.failures import ExitCode, say
from windlass.embedded import process

QUICKLY = 5.0  # a process that dies sooner than this after its start is restarted with a growing pause
LONGEST_PAUSE = 30.0
LOOK_EVERY = 0.1


class _Place:
    """One worker process, and whoever fills its place after it."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self._command = command
        self._failures = 0
        self.start_at = 0.0
        self.child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self.is_done = False

    def start(self) -> None:
        self._started_at = time.monotonic()
        # Its words are ours; a death signal of TERM lets it give its jobs back if we are killed.
        self.child = process.start(self._command, output=sys.stderr.fileno(), death_signal=signal.SIGTERM)

    def look(self, *, is_stopping: bool) -> None:
        """Note the end of the process, and whether its place is to be filled again."""
        if self.child is None or (code := self.child.poll()) is None:
            return
        self.child = None
        if is_stopping or code == ExitCode.DONE:
            self.is_done = True
            return
        lived = time.monotonic() - self._started_at
        self._failures = self._failures + 1 if lived < QUICKLY else 1
        pause = 0.0 if self._failures == 1 else min(LONGEST_PAUSE, 0.25 * 2 ** min(self._failures - 2, 10))
        self.start_at = time.monotonic() + pause
        say(f"worker process {self.number} {_how(code)} after {lived:.1f} s; starting another in {pause:g} s")
        if code == ExitCode.USAGE:
            self.is_done = True  # it will not be better next time


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def supervise(arguments: Sequence[str], count: int, metrics: str | None) -> int:
    """Keep ``count`` worker processes running until told to stop, or until all of them are done."""
    places = []
    for number in range(1, count + 1):
        command = [sys.executable, "-m", "windlass", "worker", *arguments]
        if metrics is not None:
            host, _, port = metrics.rpartition(":")
            command += ["--metrics", f"{host or '127.0.0.1'}:{int(port) + number - 1 if int(port) else 0}"]
        places.append(_Place(number, command))
    told = threading.Event()
    signals: list[int] = []

    def hear(signum: int, _frame: object) -> None:
        signals.append(signum)
        for place in places:
            if place.child is not None and place.child.poll() is None:
                place.child.terminate()  # a second one makes it hurry
        told.set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, hear)
    try:
        while True:
            for place in places:
                place.look(is_stopping=bool(signals))
                if (
                    place.child is None
                    and not place.is_done
                    and not signals
                    and time.monotonic() >= place.start_at
                ):
                    place.start()
            if all(place.child is None and (place.is_done or signals) for place in places):
                break
            told.wait(LOOK_EVERY)
            told.clear()
    finally:
        for place in places:
            if place.child is not None:
                place.child.kill()
                place.child.wait()
    return ExitCode.INTERRUPTED if signals and signals[0] == signal.SIGINT else ExitCode.DONE
