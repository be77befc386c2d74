"""A ``windlass`` command that ``windlass dev`` keeps running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from windlass import processes
from windlass.cli.exit_codes import ExitCode, say

TRY_AGAIN = 5.0
"""Seconds after which a program that ended by itself is started again, unless its app or its settings were unusable."""
BEYOND = 5.0
"""Seconds after the grace period after which a program is killed."""


class Program:
    """One command with its process, if it runs; main thread only."""

    def __init__(
        self, name: str, arguments: Sequence[str], grace: float, *, env: Mapping[str, str] | None = None
    ) -> None:
        self._name = name
        self._arguments = arguments
        self._grace = grace
        self._env = None if env is None else {**os.environ, **env}
        self._process: subprocess.Popen[bytes] | None = None
        self._ends_at = 0.0
        self.start_at = 0.0
        """When the program is started if it does not run: 0 is at once, infinity not before the next change."""

    def keep_running(self, now: float) -> None:
        """Notice a program that ended by itself, and start one that does not run if it is time."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._process = None
            self.start_at = float("inf") if code == ExitCode.USAGE else now + TRY_AGAIN
            again = "" if code == ExitCode.USAGE else f", or starts again in {TRY_AGAIN:g} s"
            say(f"dev: the {self._name} ended with exit code {code}; it waits for a change{again}")
        if self._process is None and now >= self.start_at:
            self._process = processes.start(
                [sys.executable, "-m", "windlass", *self._arguments],
                env=self._env,
                output=subprocess.DEVNULL if sys.stderr is None else sys.stderr.fileno(),
                death_signal=signal.SIGTERM,
            )

    def ask_to_stop(self) -> None:
        """Ask the program to end gracefully."""
        self._ends_at = time.monotonic() + self._grace + BEYOND
        self._send(signal.SIGTERM)

    def hurry(self) -> None:
        """End the grace period of the program."""
        self._send(signal.SIGINT)

    def is_stopping(self) -> bool:
        """Whether the program runs, and may run on for a while."""
        return self._runs() and time.monotonic() < self._ends_at

    def kill(self) -> None:
        """End what is left of the program, at once."""
        if self._process is None:
            return
        if self._runs():
            self._process.kill()
        self._process.wait()
        self._process = None

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._runs():
            self._process.send_signal(number)
