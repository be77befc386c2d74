"""A job in a child process, as the supervisor of the children sees it."""

from __future__ import annotations

from windlass.arguments.importable import Address
from windlass.engine.processes.child_process import Child
from windlass.engine.processes.wire import Message, lease_facts
from windlass.engine.running_attempt import RunningAttempt
from windlass.handlers.registry import Phase
from windlass.observe import logs


class ChildAssignment:
    """A running job, the child that runs it, and its progress."""

    __slots__ = ("address", "child", "is_begun", "is_recorded", "number", "phase", "running", "tries")

    def __init__(self, running: RunningAttempt, phase: Phase, address: Address, number: int) -> None:
        self.running = running
        self.phase = phase
        self.address = address
        self.number = number
        self.child: Child | None = None
        self.tries = 0
        self.is_begun = False  # from here on the death of its child counts against it
        self.is_recorded = False

    def message(self) -> Message:
        """The message that makes a child run the job. It names the following phase, because a child may have loaded only a part of a pipeline."""
        running, phase, following = self.running, self.phase, self.phase.following
        middleware = [] if phase.registry is None else phase.registry.middleware
        return {
            "do": "run",
            "job": self.number,
            "lease": lease_facts(running.lease),
            "processor": running.processor.number,
            "instance": logs.current_instance(),
            "waited_ms": running.run(running.started).waited_ms,
            "phase": {
                "module": self.address.module,
                "qualname": self.address.qualname,
                "name": phase.name,
                "label": phase.label,
                "kind": phase.kind,
                "timeout": phase.timeout,
                "middleware": {
                    "modules": list(dict.fromkeys(item.module for item in middleware)),
                    "names": [item.name for item in middleware],
                },
                "following": None if following is None else [following.name, following.retry.attempts],
            },
        }

    def note_recorded(self) -> None:
        """Note that a transaction ended the job, in a copy of the child's context that the engine can read."""
        self.is_recorded = True
        self.running.ensure_context().is_recorded = True

    def note_awaits_commit(self) -> None:
        """Note that the job's end is in its handler's own transaction."""
        self.running.ensure_context().awaits_commit = True

    def note_token(self, token: str) -> None:
        """Note a raw token that the job was given: it is removed from all that is recorded."""
        self.running.ensure_context().note_token(token)
