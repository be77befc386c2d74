"""A program in a pseudo-terminal, and the screen that a person would see, kept by a terminal emulator."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

from tests.waiting import PATIENCE, eventually


class Terminal:
    """Runs ``windlass ARGUMENTS`` in a terminal of 100 columns and 30 lines."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        columns: int = 100,
        lines: int = 30,
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, lines, history=2000)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self.raw = b""
        """Everything that the program wrote."""
        self._master, end = pty.openpty()
        self.resize(columns, lines, tell=False)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "windlass", *arguments],
            cwd=cwd,
            env={
                **{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
                "TERM": "xterm-256color",
                **(env or {}),
            },
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(end)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE / 3)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        os.close(self._master)

    def resize(self, columns: int, lines: int, *, tell: bool = True) -> None:
        """Give the terminal another size."""
        with self._lock:
            self._screen.resize(lines, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def _read(self) -> None:
        with suppress(OSError):  # the last process with this terminal has ended
            while data := os.read(self._master, 65536):
                with self._lock:
                    self.raw += data
                    self._stream.feed(data)

    @property
    def text(self) -> str:
        """The screen as it is now."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def written(self) -> str:
        """Everything that was written, as text."""
        with self._lock:
            return self.raw.decode(errors="replace")

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def until(self, holds: str | Callable[[str], object]) -> str:
        """Wait until the screen has a text, or until it holds; returns the screen."""

        def check() -> str | None:
            text = self.text
            return text if (holds in text if isinstance(holds, str) else holds(text)) else None

        found: str = eventually(check, lambda: f"the screen was:\n{self.text}")
        return found

    def until_written(self, word: str, times: int = 1) -> str:
        """Wait until a word was written so often."""
        eventually(
            lambda: self.written.count(word) >= times,
            lambda: f"{word!r} in what was written:\n{self.written}",
        )
        return self.written

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        return self.process.wait(PATIENCE)
