"""The worker processes of the demonstration; one of them is killed while it holds jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

from windlass import processes as process
from windlass.cli.exit_codes import say
from windlass.errors import WindlassError

WORKERS = 3
STOP_SECONDS = 5.0
WORTH_KILLING = 3  # jobs that it holds


class Workers:
    """Three processes that end with the block, also after an error; the kernel ends them if this process is killed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._processes: list[subprocess.Popen[bytes]] = []
        self._last_lines: list[deque[str]] = []
        self._readers: list[threading.Thread] = []
        self._may_kill = threading.Event()
        self._killing = threading.Lock()
        self.killed: int | None = None

    def start(self) -> None:
        """Start them. Call it inside the block, so that a signal during the start stops the processes that run."""
        # Not an argument: it may contain a password.
        environment = {**os.environ, "WINDLASS_DATABASE_URL": self._url}
        command = [sys.executable, "-m", "windlass.examples.parcels.worker"]
        for number in range(WORKERS):
            self._last_lines.append(deque(maxlen=5))
            self._processes.append(process.start(command, env=environment, output=subprocess.PIPE))
            reader = threading.Thread(target=self._read, args=(number,), daemon=True)
            reader.start()
            self._readers.append(reader)
        say(f"workers: {', '.join(f'pid {worker.pid}' for worker in self._processes)}")

    def kill_one(self) -> None:
        """Kill the next worker that claims enough jobs, with SIGKILL."""
        self._may_kill.set()

    def check(self) -> None:
        """Raise if a worker ended unexpectedly."""
        for number, worker in enumerate(self._processes):
            code = worker.poll()
            if code is not None and worker.pid != self.killed:
                self._readers[number].join(1)
                output = " / ".join(self._last_lines[number]) or "no output"
                raise WindlassError(f"worker {number + 1} ended with {code}: {output}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            for worker in self._processes:
                worker.terminate()
            deadline = time.monotonic() + STOP_SECONDS
            for worker in self._processes:
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(max(0.0, deadline - time.monotonic()))
        finally:
            for worker in self._processes:
                worker.kill()
                worker.wait()
        for reader in self._readers:
            reader.join(1)
        for worker in self._processes:
            if worker.stdout is not None:
                worker.stdout.close()

    def _read(self, number: int) -> None:
        worker = self._processes[number]
        if worker.stdout is None:
            return
        for line in worker.stdout:
            text = line.decode(errors="replace").strip()
            if not text.startswith("claimed "):
                self._last_lines[number].append(text)
            elif self._may_kill.is_set() and int(text.split()[1]) >= WORTH_KILLING:
                with self._killing:  # only one of two that claim at the same moment
                    if self.killed is None:
                        self.killed = worker.pid
                        os.kill(worker.pid, signal.SIGKILL)
