"""Runs several worker processes under one parent, which starts them, passes signals on, and replaces processes that die.

A job can take its process down (a segmentation fault in a C library, the kernel's out-of-memory killer). The other processes continue,
and the process is replaced after a pause that grows while deaths follow each other quickly. The exit code says little, because a job may
end its process with any code. A process therefore reports over a pipe that it serves jobs, and that no job is left (``--drain``). An end
without that report is a death, unless the processes were asked to stop. If no process ever served, and all of them found their command
line, app or settings unusable, the parent ends with the same exit code.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from windlass import processes as process
from windlass.cli.exit_codes import ExitCode
from windlass.cli.exit_deadline import BEYOND_ALL
from windlass.cli.stop_signals import StopSignals
from windlass.errors import ConfigError
from windlass.observe import events
from windlass.observe.emit import emit

QUICKLY = 5.0  # seconds: a process that dies sooner after its start is replaced with a growing pause
LONGEST_PAUSE = 30.0
UNUSABLE_PAUSE = 1.0  # seconds after an exit code of 2, to see whether all processes end with 2
CHECK_EVERY = 0.1
SERVES, DRAINED = b"s", b"d"


class Word:
    """A process's end of the pipe to its parent; does nothing without a parent."""

    def __init__(self, end: int | None) -> None:
        self._end = end
        if end is not None:
            os.set_inheritable(end, False)

    def serves(self) -> None:
        self._say(SERVES)

    def drained(self) -> None:
        self._say(DRAINED)

    def _say(self, word: bytes) -> None:
        if self._end is not None:
            with suppress(OSError):  # the parent is gone, or a job closed the pipe: a death
                os.write(self._end, word)


class _Place:
    """One worker process and its replacements."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self._command = command
        self._failures = 0
        self.start_at = 0.0
        self.child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._pipe = -1
        self._received = b""
        self.is_done = False
        self._has_served = False
        self._ends: set[int] = set()
        self._unsaid: Callable[[], None] | None = None

    @property
    def is_unusable(self) -> bool:
        """Whether every process of this place found its command line, app or settings unusable."""
        return self._ends == {ExitCode.USAGE} and not self._has_served

    def start(self) -> None:
        if self._unsaid is not None:
            self._unsaid()
            self._unsaid = None
        self._started_at = time.monotonic()
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            # Its output is ours; a death signal of TERM lets it give its jobs back if we are killed.
            self.child = process.start(
                [*self._command, "--parent", str(theirs)],
                output=subprocess.DEVNULL if sys.stderr is None else sys.stderr.fileno(),
                death_signal=signal.SIGTERM,
                keep=[theirs],
            )
        finally:
            os.close(theirs)

    def send_signal(self, number: signal.Signals) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(number)

    def check(self, *, is_stopping: bool) -> None:
        """Read the reports of the process, detect its end, and decide whether it is replaced."""
        if self.child is None:
            return
        code = self.child.poll()
        self._listen()
        if code is None:
            return
        is_drained = DRAINED in self._received
        self.child, self._received = None, b""
        os.close(self._pipe)
        if is_stopping or (is_drained and code == ExitCode.DONE):
            self.is_done = True
            return
        lived = time.monotonic() - self._started_at
        self._failures = self._failures + 1 if lived < QUICKLY else 1
        pause = 0.0 if self._failures == 1 else min(LONGEST_PAUSE, 0.25 * 2 ** min(self._failures - 2, 10))
        self._ends.add(code)
        if self.is_unusable:
            pause = max(pause, UNUSABLE_PAUSE)
        self.start_at = time.monotonic() + pause
        report = partial(
            emit,
            events.PROCESS_ENDED,
            place=self.number,
            reason=_how(code),
            seconds=round(lived, 1),
            pause_seconds=pause,
        )
        if self.is_unusable:
            self._unsaid = report  # the process printed the reason itself, and perhaps it is not replaced
        else:
            report()

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            while word := os.read(self._pipe, 16):
                self._received += word
        self._has_served = self._has_served or SERVES in self._received

    def end(self) -> None:
        """Kill the process if it still runs."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by {_name(-code)}"
    return f"ended with exit code {code}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals
        return f"signal {number}"


def _addresses(count: int, first: tuple[str, int]) -> list[tuple[str, int]]:
    """Choose an address for each process: consecutive or free ports; each is tried, so that the error names a port in use."""
    host, port = first
    if port == 0:
        return [first] * count
    if port + count - 1 > 65535:
        raise ConfigError("metrics", f"{host}:{port}", f"a port that leaves room for {count} processes")
    made = [(host, port + number) for number in range(count)]
    for address in made:
        try:
            socket.create_server(address, family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
        except OSError as error:
            where = f"{host}:{address[1]}"
            ports = f"ports {port} to {port + count - 1} are needed for {count} processes"
            raise ConfigError(
                "metrics address", where, f"an address this process may listen on ({error.strerror}); {ports}"
            ) from error
    return made


def supervise(arguments: Sequence[str], count: int, first: tuple[str, int] | None, *, grace: float) -> int:
    """Keep ``count`` worker processes running until they are stopped, or until all of them have drained.

    With ``first`` they serve their metrics there and on the ports after it. A process that still runs some seconds after ``grace``
    (frozen, or a job holds its interpreter) is killed.
    """
    addresses = None if first is None else _addresses(count, first)
    places = []
    for number in range(1, count + 1):
        command = [sys.executable, "-m", "windlass", "worker", *arguments]
        if addresses is not None:
            host, port = addresses[number - 1]
            command += ["--metrics", f"{host}:{port}"]
        places.append(_Place(number, command))
    signals = StopSignals()
    signals.install()
    deadline = float("inf")
    try:
        while True:
            for place in places:
                place.check(is_stopping=signals.is_stopping)
            if all(place.is_unusable for place in places):
                return ExitCode.USAGE  # each has printed the reason
            for place in places:
                if (
                    place.child is None
                    and not place.is_done
                    and not signals.is_stopping
                    and time.monotonic() >= place.start_at
                ):
                    place.start()
            if all(place.child is None and (place.is_done or signals.is_stopping) for place in places):
                break
            if time.monotonic() >= deadline:
                for place in places:
                    place.end()
                continue
            was_stopping = signals.is_stopping
            if signals.wait(CHECK_EVERY):
                deadline = min(deadline, time.monotonic() + (0.0 if was_stopping else grace) + BEYOND_ALL)
                for place in places:
                    place.send_signal(
                        signal.SIGINT if was_stopping else signal.SIGTERM
                    )  # a SIGINT counts at once
    finally:
        for place in places:
            place.end()
    return ExitCode.INTERRUPTED if signals.is_interrupted else ExitCode.DONE
