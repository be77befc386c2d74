"""The child processes of one instance: started when they are needed, used again, ended when they idle for long.

One thread owns them all, the supervisor of ``executor.py``; ``wait`` returns their messages and exits.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from windlass.engine.processes.child_process import Child, Exit
from windlass.engine.processes.wire import Message
from windlass.observe.logger import get_logger

log = get_logger("windlass.engine")

EXIT_WAIT = 2.0  # for an idle child that was asked to end
CLOSED_WAIT = 1.0  # for a child whose socket is closed, which is usually dead
EXIT_CHECK_EVERY = 0.05  # if the system does not notify of exits


class ChildProcesses:
    """Children, busy and idle. ``init`` makes the first message to each; ``wake`` becomes readable when ``wait`` should return."""

    def __init__(
        self, init: Callable[[], Message], wake: socket.socket, *, idle_kept: int, idle_seconds: float
    ) -> None:
        self._init = init
        self._wake = wake
        self._idle_kept = idle_kept
        self._idle_seconds = idle_seconds
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(wake, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._children)

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children.copy()]

    def close(self) -> None:
        """Close all descriptors; all children have ended."""
        self._selector.close()
        self._wake.close()

    # ------------------------------------------------------------------ work

    def take(self, work: Any) -> Child:
        """Return a child for a job: the one that was busy last, or a new one. ``OSError`` if none can be started."""
        child = self._idle.pop() if self._idle else self._start()
        child.work = work
        child.clear_output()
        return child

    def send(self, child: Child, message: Message) -> None:
        child.send(message)
        self._watch(child)

    def kill(self, child: Child) -> None:
        """Kill a child because of its job; its exit is reported as usual."""
        child.was_killed = True
        child.kill()

    def finish_work(self, child: Child, *, is_fit: bool) -> None:
        """Note that a child has finished its job; it can run another one if it is fit."""
        child.work = None
        if child.was_killed or child.is_gone:
            return  # its exit will be reported
        child.kill_at = None
        child.idle_since = time.monotonic()
        if is_fit:
            self._idle.append(child)
        else:
            self._end_idle(child)

    def distrust(self, child: Child, fault: str) -> None:
        """End a child whose messages are wrong."""
        child.suspicion = child.suspicion or fault
        child.is_gone = True
        self._watch(child)

    # ------------------------------------------------------------------ events

    def wait(self, timeout: float | None) -> Iterator[tuple[Child, Message | Exit]]:
        """Wait for events, at most ``timeout`` seconds; yields each message of a child, and at last its exit."""
        for key, _ in self._selector.select(self._bounded(timeout)):
            child = key.data
            if child is None:
                _drain(self._wake)
            elif child not in self._children:
                continue  # it ended in this call
            elif key.fd == child.exit_fd:
                yield from self._check_exit(child)
            elif key.fd == child.output:
                if child.forward() == 0:
                    self._forget(child.output)
            else:
                child.flush()
                yield from self._receive(child)
                self._watch(child)
        for child in [child for child in self._children if child.exit_fd is None]:
            yield from self._check_exit(child)

    def enforce(self, deadline: float | None) -> None:
        """Kill children whose time is over, with a ``deadline`` all busy ones then; end children that idle for long, with a deadline all idle ones."""
        now = time.monotonic()
        for child in self._children:
            if deadline is not None and child.work is not None and not child.was_killed:
                child.kill_at = min(deadline, child.kill_at or deadline)
            if child.kill_at is not None and now >= child.kill_at:
                child.fault = child.suspicion
                child.was_killed = child.fault is None
                child.kill()
        for child in list(self._idle):
            is_spare = len(self._idle) > self._idle_kept and now - child.idle_since >= self._idle_seconds
            if is_spare or deadline is not None:
                self._idle.remove(child)
                self._end_idle(child)

    def _bounded(self, timeout: float | None) -> float | None:
        now = time.monotonic()
        moments = [] if timeout is None else [now + timeout]
        moments += [child.kill_at for child in self._children if child.kill_at is not None]
        if len(self._idle) > self._idle_kept:
            moments.append(self._idle[0].idle_since + self._idle_seconds)
        if any(child.exit_fd is None for child in self._children):
            moments.append(now + EXIT_CHECK_EVERY)
        return max(0.0, min(moments) - now) if moments else None

    def _receive(self, child: Child) -> Iterator[tuple[Child, Message]]:
        try:
            for message in child.receive():
                yield child, message
        except ValueError as error:
            self.distrust(child, f"sent an invalid message ({error})")

    def _check_exit(self, child: Child) -> Iterator[tuple[Child, Message | Exit]]:
        yield from self._receive(child)
        if child.work is not None and child.exit_fd is not None:
            child.kill()  # processes that its job started; before it is reaped, while the id is certainly its own
        how = child.reap()
        if how is None:
            return
        yield from self._receive(child)  # messages between the first read and its exit
        for descriptor in (child.line, child.output, child.exit_fd):
            self._forget(descriptor)
        child.close()
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)
            log.warning("an idle child process %s", how)
        yield child, how

    # ------------------------------------------------------------------ children

    def _start(self) -> Child:
        child = Child(self._init())
        self._children.add(child)
        for descriptor in (child.line, child.output, child.exit_fd):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ, child)
        return child

    def _end_idle(self, child: Child) -> None:
        self._forget(child.line)
        child.close_line(EXIT_WAIT)

    def _watch(self, child: Child) -> None:
        """Watch a child's socket for messages, and for room if some are unsent."""
        if not child.is_gone:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.has_unsent else 0)
            if self._selector.get_key(child.line).events != wanted:
                self._selector.modify(child.line, wanted, child)
            return
        self._forget(child.line)
        if (
            not child.was_killed and child.kill_at is None
        ):  # usually it has died, and its exit will be reported
            child.suspicion = child.suspicion or "closed its socket to the instance"
            child.kill_at = time.monotonic() + CLOSED_WAIT

    def _forget(self, descriptor: int | None) -> None:
        if descriptor is not None and descriptor >= 0:
            with suppress(KeyError):
                self._selector.unregister(descriptor)


def _drain(wake: socket.socket) -> None:
    with suppress(BlockingIOError):
        while wake.recv(4096):
            pass
