"""A child process as its instance sees it: a socket for messages, a pipe with its output, and its exit.

Nothing here blocks. The child has its own process group: Ctrl-C in the terminal does not reach it, and processes that its job started are
killed with it.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from windlass.engine.processes.wire import Frames, Message, pack

KEPT_OUTPUT = 4096
LONGEST_LINE = 65536
READ = 65536
MOST_READS = 16

# The path is set before Windlass is imported: the instance may have changed its own path.
_BOOT = "import sys; sys.path[:] = sys.argv[1].split('\\n'); from windlass.engine.processes.child.main import main; main()"
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: by a signal, or with an exit code; neither if that is unknown."""

    signal: str | None = None
    code: int | None = None
    max_rss: int | None = None

    def __str__(self) -> str:
        if self.signal == "SIGKILL":
            return "was killed (SIGKILL); the kernel does that when memory runs out"
        if self.signal is not None:
            return f"died of {self.signal}"
        return "ended" if self.code is None else f"ended itself with exit code {self.code}"


class Child:
    """One process. Start it on a thread that lives at least as long: the kernel kills the child when that thread ends."""

    def __init__(self, init: Mapping[str, Any]) -> None:
        self._unsent = bytearray(pack(init))
        self._line, theirs = socket.socketpair()
        try:
            self.output, their_output = os.pipe()
            try:
                self._process = _start(theirs.fileno(), their_output)
            except BaseException:
                os.close(self.output)
                raise
            finally:
                os.close(their_output)
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()
        self._line.setblocking(False)
        os.set_blocking(self.output, False)
        self.exit_fd = _exit_fd(self._process.pid)
        self._frames = Frames()
        self._tail = bytearray()
        self._unfinished = b""
        self._first_rss = 0
        self.is_ready = False
        self.is_gone = False  # it can receive no more messages
        self.suspicion: str | None = None  # why it will be killed if it does not end by itself
        self.fault: str | None = None  # why it was killed
        self.kill_at: float | None = None
        self.was_killed = False
        self.work: Any = None  # set by its owner
        self.idle_since = time.monotonic()
        self.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def line(self) -> int:
        """The descriptor of the socket; negative once it is closed."""
        return self._line.fileno()

    # ------------------------------------------------------------------ messages

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, now or when the socket has room."""
        self._unsent += pack(message)
        self.flush()

    def flush(self) -> None:
        while self._unsent and not self.is_gone:
            try:
                sent = self._line.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:  # it died; its exit is handled elsewhere
                self.is_gone = True
                return
            del self._unsent[:sent]

    def receive(self) -> Iterator[Message]:
        """The messages that the child has sent."""
        while not self.is_gone:
            try:
                data = self._line.recv(READ)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.is_gone = True
                return
            yield from self._frames.feed(data)

    def ready(self, max_rss: int) -> None:
        """Note that it has started, and its memory then: the kernel also counts the memory of the process it was copied from."""
        self.is_ready = True
        self._first_rss = max_rss

    # ------------------------------------------------------------------ output

    def forward(self) -> int | None:
        """Write the child's output to our standard error, line by line, and keep the end of it.

        Returns the number of bytes: None for none yet, 0 when no more can come.
        """
        try:
            text = os.read(self.output, READ)
        except BlockingIOError:
            return None
        self._tail = (self._tail + text)[-KEPT_OUTPUT:]
        lines, newline, rest = (self._unfinished + text).rpartition(b"\n")
        if len(rest) > LONGEST_LINE:
            lines, newline, rest = lines + newline + rest, b"", b""
        self._unfinished = rest
        if lines or newline:
            _print(lines + newline)
        return len(text)

    def clear_output(self) -> None:
        """Drop the kept output: it belongs to another job."""
        self.drain()
        self._tail.clear()

    def drain(self) -> None:
        """Forward the output so far; bounded, because the child may print all the time."""
        for _ in range(MOST_READS):
            if not self.forward():
                return

    @property
    def last_output(self) -> str:
        return self._tail.decode("utf-8", "replace")

    # ------------------------------------------------------------------ ending

    def close_line(self, within: float) -> None:
        """Make the child end by closing its socket; it is killed if it does not end in time."""
        self._line.close()
        self.is_gone = True
        self.kill_at = time.monotonic() + within

    def kill(self) -> None:
        """Kill the child and the processes it started. Only before it is reaped: until then no other process can have its id."""
        if self._process.returncode is None:
            for kill in (os.killpg, os.kill):  # its group, and itself: it may have joined another group
                with suppress(ProcessLookupError, PermissionError):
                    kill(self._process.pid, signal.SIGKILL)
        self.kill_at = None

    def reap(self) -> Exit | None:
        """How the child ended; None while it runs."""
        try:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        except ChildProcessError:  # other code has reaped it
            self._process.returncode = 0
            return Exit()
        if pid == 0:
            return None
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        max_rss = self._max_rss(usage)
        if code >= 0:
            return Exit(code=code, max_rss=max_rss)
        try:
            return Exit(signal=signal.Signals(-code).name, max_rss=max_rss)
        except ValueError:
            return Exit(signal=f"signal {-code}", max_rss=max_rss)

    def close(self) -> None:
        """Close all descriptors; the child was reaped."""
        self.drain()
        if self._unfinished:
            _print(self._unfinished + b"\n")
        self._line.close()
        os.close(self.output)
        if self.exit_fd is not None:
            os.close(self.exit_fd)

    def _max_rss(self, usage: resource.struct_rusage) -> int | None:
        return usage.ru_maxrss * _RSS_UNIT if usage.ru_maxrss > self._first_rss > 0 else None


def _start(line: int, output: int) -> subprocess.Popen[bytes]:
    flags = ["-O"] * sys.flags.optimize + [f"-W{option}" for option in sys.warnoptions]
    return subprocess.Popen(
        [sys.executable, *flags, "-c", _BOOT, "\n".join(map(str, sys.path)), str(line), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(line,),
        process_group=0,
    )


def _exit_fd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if the system has no such descriptors (exits are polled then)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _print(text: bytes) -> None:
    stream = sys.stderr
    with suppress(Exception):  # closed or missing: no reason to end a job
        stream.write(text.decode("utf-8", "replace"))
        stream.flush()
