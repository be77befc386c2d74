"""The child processes of one instance: started when there is work for them, used again, ended when they idle or must.

One thread owns them all (the supervisor of ``process_executor.py``) and learns everything from ``attend``: what children say, and how they end.
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

GOODBYE = 2.0  # for an idle child that was told to end
SILENCE = 1.0  # for a child that cannot be spoken to any more, and should be dead
LOOK_EVERY = 0.05  # for exits, where the system does not tell


class ChildProcesses:
    """Children, busy and idle. ``init`` makes the first message to each; ``wake`` becomes readable when ``attend`` should return."""

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
        """Let go of everything; all children have ended."""
        self._selector.close()
        self._wake.close()

    # ------------------------------------------------------------------ work

    def take(self, work: Any) -> Child:
        """A child for a piece of work: the one that was busy last, or a new one. ``OSError`` where none can be started."""
        child = self._idle.pop() if self._idle else self._start()
        child.work = work
        child.forget_output()
        return child

    def say(self, child: Child, message: Message) -> None:
        child.send(message)
        self._watch(child)

    def kill(self, child: Child) -> None:
        """Kill a child for what it did or did not; its end is told as usual."""
        child.was_killed = True
        child.kill()

    def rest(self, child: Child, *, is_fit: bool) -> None:
        """A child is done with its work, and may have more if it is fit for it."""
        child.work = None
        if child.was_killed or child.is_gone:
            return  # its end is on its way
        child.kill_at = None
        child.idle_since = time.monotonic()
        if is_fit:
            self._idle.append(child)
        else:
            self._dismiss(child)

    def blame(self, child: Child, fault: str) -> None:
        """A child cannot be trusted any more: end it."""
        child.suspicion = child.suspicion or fault
        child.is_gone = True
        self._watch(child)

    # ------------------------------------------------------------------ what happens

    def attend(self, patience: float | None) -> Iterator[tuple[Child, Message | Exit]]:
        """Wait until something happens, no longer than ``patience``: each message of a child, and at last how it ended."""
        for key, _ in self._selector.select(self._bounded(patience)):
            child = key.data
            if child is None:
                _drain(self._wake)
            elif child not in self._children:
                continue  # it ended in this very turn
            elif key.fd == child.exit_fd:
                yield from self._look(child)
            elif key.fd == child.output:
                if child.forward() == 0:
                    self._forget(child.output)
            else:
                child.flush()
                yield from self._hear(child)
                self._watch(child)
        for child in [child for child in self._children if child.exit_fd is None]:
            yield from self._look(child)

    def enforce(self, deadline: float | None) -> None:
        """Kill what is due, and by ``deadline`` all that work; end children that idle for long, or all that idle if there is one."""
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
                self._dismiss(child)

    def _bounded(self, patience: float | None) -> float | None:
        now = time.monotonic()
        moments = [] if patience is None else [now + patience]
        moments += [child.kill_at for child in self._children if child.kill_at is not None]
        if len(self._idle) > self._idle_kept:
            moments.append(self._idle[0].idle_since + self._idle_seconds)
        if any(child.exit_fd is None for child in self._children):
            moments.append(now + LOOK_EVERY)
        return max(0.0, min(moments) - now) if moments else None

    def _hear(self, child: Child) -> Iterator[tuple[Child, Message]]:
        try:
            for message in child.receive():
                yield child, message
        except ValueError as error:
            self.blame(child, f"sent what is no message ({error})")

    def _look(self, child: Child) -> Iterator[tuple[Child, Message | Exit]]:
        yield from self._hear(child)
        if child.work is not None and child.exit_fd is not None:
            child.kill()  # what its job started; before the exit is taken, while the id is surely its own
        how = child.reap()
        if how is None:
            return
        yield from self._hear(child)  # what it said before it was reaped and after the first look
        for descriptor in (child.line, child.output, child.exit_fd):
            self._forget(descriptor)
        child.close()
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)
            log.warning("an idle process %s", how)
        yield child, how

    # ------------------------------------------------------------------ children

    def _start(self) -> Child:
        child = Child(self._init())
        self._children.add(child)
        for descriptor in (child.line, child.output, child.exit_fd):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ, child)
        return child

    def _dismiss(self, child: Child) -> None:
        self._forget(child.line)
        child.hang_up(GOODBYE)

    def _watch(self, child: Child) -> None:
        """Listen to a child's line, and wait for room in it where something is unsent."""
        if not child.is_gone:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.has_unsent else 0)
            if self._selector.get_key(child.line).events != wanted:
                self._selector.modify(child.line, wanted, child)
            return
        self._forget(child.line)
        if not child.was_killed and child.kill_at is None:  # usually it has died, and its exit is on its way
            child.suspicion = child.suspicion or "closed its line to the instance"
            child.kill_at = time.monotonic() + SILENCE

    def _forget(self, descriptor: int | None) -> None:
        if descriptor is not None and descriptor >= 0:
            with suppress(KeyError):
                self._selector.unregister(descriptor)


def _drain(wake: socket.socket) -> None:
    with suppress(BlockingIOError):
        while wake.recv(4096):
            pass
