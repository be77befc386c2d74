"""A small model of the store: what a job's life should look like, with no database and no SQL.

It knows jobs, leases and instances, and judges by the documented rules only. The state machine test compares every answer of
a real store with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.model import State


@dataclass
class ModelJob:
    """One job as it should stand."""

    id: str
    phase: str = "work"
    state: State = State.QUEUED
    attempt: int = 0
    max_attempts: int = 3
    crashes: int = 0
    generation: int = 1
    priority: int = 5
    ready: float = 0.0
    run_at: float = 0.0
    token: int | None = None
    holder: int | None = None
    started: bool = False
    deaths: int = 0
    is_recovered: bool = False
    cancel_asked: bool = False
    done: int | None = None
    saved: int | None = None
    is_for_parent: bool = False
    """Whether it was cancelled because of its parent."""
    parents: set[str] = field(default_factory=set)
    tokens: list[int] = field(default_factory=list)

    def end(self, state: State) -> None:
        self.state = state
        self.token = self.holder = None
        self.cancel_asked = self.is_for_parent = False
        self.saved, self.done = self.done, None

    def give_back(self, *, returned: bool) -> None:
        self.state = State.QUEUED
        self.token = self.holder = None
        self.attempt -= int(returned)

    def retry_at(self, when: float) -> None:
        self.state = State.SCHEDULED
        self.token = self.holder = None
        self.run_at = when

    def begin_anew(self) -> None:
        """A new phase, or a new life."""
        self.attempt = self.crashes = self.deaths = 0
        self.is_recovered = False


@dataclass
class ModelHolder:
    """One instance as it should stand."""

    number: int
    beat_at: float
    lease: float
    is_dead: bool = False
