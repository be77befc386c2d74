"""A process executor on a bench: hand it jobs, wait for their ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.leases import lease as make_lease
from tests.waiting import PATIENCE, eventually
from windlass.engine.attempt import AttemptRunner
from windlass.engine.executors.contract import Ended
from windlass.engine.processes.executor import ProcessExecutor
from windlass.engine.running_attempt import Processor, RunningAttempt, Stop
from windlass.handlers.context import Context
from windlass.handlers.phase_options import Where
from windlass.handlers.registry import Phase, Registry
from windlass.model import Completed, Failed, Json, Lease, Outcome, Retried

wait_until = eventually


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not just waiting to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def own_children() -> set[int]:
    """The processes that this one has started and not yet reaped."""
    return {
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


class TouchedProcessor(Processor):
    """A processor that remembers all signs of life."""

    def __init__(self, phase: str, number: int) -> None:
        super().__init__(phase, number)
        self.touches: list[float] = []

    def touch(self, now: float) -> None:
        super().touch(now)
        self.touches.append(now)


class ProcessBench:
    """Jobs in, ends out."""

    def __init__(self, **options: Any) -> None:
        self.registry = Registry()
        self.recorded: list[Lease] = []
        self.batches: list[Sequence[Ended]] = []
        self._ends: dict[int, Ended] = {}
        self._changed = threading.Condition()
        no_store: Any = None
        self.executor = ProcessExecutor(
            AttemptRunner(lambda running: no_store),
            self._on_ended,
            on_recorded=self.recorded.append,
            **{"cancel_grace": 30.0, **options},
        )
        self.executor.start()

    def define(self, handler: Callable[..., Any], *, kind: str | None = None, **options: Any) -> Phase:
        kind = kind or handler.__name__
        name = f"{kind}:{options['label']}" if "label" in options else kind
        return self.registry.phase(name) or self.registry.define(
            kind, handler, injected=lambda annotation: annotation is Context, **options
        )

    def start(
        self, handler: Callable[..., Any] | Phase, /, *, lease: Lease | None = None, **arguments: Any
    ) -> RunningAttempt:
        """Hand one job over and go on."""
        phase = handler if isinstance(handler, Phase) else self.define(handler)
        if lease is None:
            lease = replace(make_lease(phase.name), kind=phase.kind, args_json=Json(json.dumps(arguments)))
        now = time.monotonic()
        is_isolated = phase.where is not Where.PROCESS  # as the floor has it
        running = RunningAttempt(lease, phase, TouchedProcessor(phase.name, 7), now, now, is_isolated)
        self.executor.submit([running])
        return running

    def outcome(self, running: RunningAttempt) -> Outcome | None:
        """What came of a job, when it has ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: id(running) in self._ends, PATIENCE), (
                f"{running} did not end"
            )
            return self._ends[id(running)].outcome

    def run(self, handler: Callable[..., Any] | Phase, /, **arguments: Any) -> Outcome | None:
        return self.outcome(self.start(handler, **arguments))

    def result(self, handler: Callable[..., Any] | Phase, /, **arguments: Any) -> Any:
        outcome = self.run(handler, **arguments)
        assert isinstance(outcome, Completed), outcome
        return None if outcome.result is None else json.loads(outcome.result)

    def stop(self, running: RunningAttempt, reason: Stop) -> None:
        running.stop = reason
        self.executor.stop_job(running)

    def close(self, wait: float = 0.0) -> None:
        self.executor.close(wait=wait)

    def _on_ended(self, batch: Sequence[Ended]) -> None:
        with self._changed:
            self.batches.append(batch)
            self._ends |= {id(ended.running): ended for ended in batch}
            self._changed.notify_all()


@pytest.fixture
def benches() -> Iterator[Callable[..., ProcessBench]]:
    made: list[ProcessBench] = []

    def make(**options: Any) -> ProcessBench:
        made.append(ProcessBench(**options))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[ProcessBench]:
    """A bench for all tests that leave its children as they were."""
    bench = ProcessBench()
    yield bench
    bench.close()


def retried(outcome: Outcome | None) -> Retried:
    assert isinstance(outcome, Retried), outcome
    return outcome


def failed(outcome: Outcome | None) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def begun(path: Path) -> int:
    """The process in which a handler said that it had begun."""
    wait_until(path.exists, "the handler begins")
    return int(path.read_text())
