"""How many files and functions one plain job passes, from its enqueue to its recorded end: a budget that may only fall.

Measured on a warm engine, SQLite, an async handler without options. Upkeep, heartbeat and listener run beside and are not counted: only
the caller's thread and those of the step and of the event loop are.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import windlass
from tests.waiting import eventually
from windlass import App
from windlass.model import State

PACKAGE = str(Path(windlass.__file__).parent)
CALLER, ENGINE = {"MainThread"}, {"windlass-step", "windlass-loop"}

FILES, FUNCTIONS, ENQUEUE_FILES = 32, 121, 13
ROUNDS = 5
"""Of which the shortest counts: beside a job that takes long, the step's thread does what is due then."""


class Journey:
    """Collects the code objects of the package that are called while it is on."""

    def __init__(self, threads: set[str]) -> None:
        self.threads = threads
        self.called: set[tuple[str, str, int]] = set()
        self.calls = 0
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call" or not self.is_on or threading.current_thread().name not in self.threads:
            return
        code = frame.f_code
        if code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            self.called.add((code.co_filename, code.co_qualname, code.co_firstlineno))
            self.calls += 1

    @property
    def files(self) -> set[str]:
        return {file.removeprefix(PACKAGE + "/") for file, *_ in self.called}

    @property
    def functions(self) -> set[str]:
        return {f"{file.removeprefix(PACKAGE + '/')} {name}" for file, name, _ in self.called}


def test_a_plain_job_passes_few_files_and_functions(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    async def welcome(user_id: int) -> None:
        pass

    journeys: list[tuple[Journey, Journey]] = []

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        for journey in journeys[-1] if journeys else ():
            journey(frame, event, arg)

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        engine = app.worker()
        engine.start()
        try:
            for number in range(20):  # warm: plans, caches, the first claim of each kind
                done(app, welcome.enqueue(user_id=number).id)
            for _ in range(ROUNDS):
                time.sleep(0.2)
                enqueue, rest = Journey(CALLER), Journey(ENGINE)
                journeys.append((enqueue, rest))
                enqueue.is_on = True
                job = welcome.enqueue(user_id=7).id
                enqueue.is_on, rest.is_on = False, True
                done(app, job)
                rest.is_on = False
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            engine.stop()
    finally:
        app.close()
    enqueue, rest = min(journeys, key=lambda pair: len(pair[0].functions | pair[1].functions))
    print(
        "enqueue:", len(enqueue.files), "files,", len(enqueue.functions), "functions,", enqueue.calls, "calls"
    )
    print("rest:", len(rest.files), "files,", len(rest.functions), "functions,", rest.calls, "calls")
    print(
        "in all:",
        len(enqueue.files | rest.files),
        "files,",
        len(enqueue.functions | rest.functions),
        "functions",
    )
    assert len(enqueue.files) <= ENQUEUE_FILES, sorted(enqueue.files)
    assert len(enqueue.files | rest.files) <= FILES, sorted(enqueue.files | rest.files)
    assert len(enqueue.functions | rest.functions) <= FUNCTIONS, sorted(enqueue.functions | rest.functions)


def done(app: App, job: str) -> None:
    """Wait until the job's end is recorded, without calling the package from this thread more often than needed."""
    is_done: Callable[[], bool] = lambda: app.store.jobs.get(job).state is State.COMPLETED  # noqa: E731
    eventually(is_done)
