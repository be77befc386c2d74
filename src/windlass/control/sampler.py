"""The sampler: one thread of a process reads once a second for all watchers of an app, however many they are.

While there is a watcher of everything, it reads the counts of all phases, the instances and their boards, and asks the instances to publish their
boards every second. Jobs that are watched are read in one statement; a job that changed is then read with its timeline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass import forking
from windlass.control.overview_sample import Sample, read_sample
from windlass.control.topics import Subscription, Topic
from windlass.errors import JobNotFoundError, StoreError
from windlass.features import Store
from windlass.model import Job, Span
from windlass.observe.logger import get_logger, thread

log = get_logger("windlass.control")

EVERY = 1.0
"""Seconds between two reads."""
ASK_EVERY, WATCH_FOR = 5.0, 15.0
"""Instances are asked to publish their boards every second; how often, and for how many seconds."""
LINGER = 5.0
"""Seconds that the thread stays after the last watcher has left."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job and all of its attempts, read together."""

    job: Job
    spans: Sequence[Span]


class Sampler:
    """Reads for all watchers of one store. Safe to share between threads and event loops."""

    def __init__(self, store: Store, *, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._begin()
        forking.watch(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._overview: Topic[Sample] | None = None
        self._jobs: dict[str, Topic[JobState]] = {}
        self._marks: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._over = threading.Event()
        self._asked_at = float("-inf")

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread and the watchers are the parent's."""
        self._begin()

    # ------------------------------------------------------------------ watchers

    def overview(self) -> Subscription[Sample]:
        """Watch everything."""
        with self._lock:
            topic = self._overview = self._overview or Topic()
            return self._joined(topic)

    def job(self, job_id: str) -> Subscription[JobState]:
        """Watch one job, by its canonical id. The topic ends when the job is removed."""
        with self._lock:
            return self._joined(self._jobs.setdefault(job_id, Topic()))

    def _joined(self, topic: Topic[Any]) -> Subscription[Any]:
        topic.subscribers += 1
        if self._thread is None:
            started = thread(lambda over=self._over: self._run(over), "windlass-sampler")
            started.start()
            self._thread = started
        if topic.value is None:
            self._wake.set()  # the first value at once; a further watcher gets the newest one, which is less than a second old
        return Subscription(topic, lambda: self._leave(topic))

    def _leave(self, topic: Topic[Any]) -> None:
        with self._lock:
            topic.subscribers -= 1
            if topic.subscribers:
                return
            if topic is self._overview:
                self._overview = None
            for job_id in [key for key, one in self._jobs.items() if one is topic]:
                del self._jobs[job_id]
                self._marks.pop(job_id, None)

    def close(self) -> None:
        """End the thread and all subscriptions. A later watcher begins anew."""
        with self._lock:
            running = self._thread
            topics: list[Topic[Any]] = [*self._jobs.values()]
            topics += [] if self._overview is None else [self._overview]
            self._over.set()
            self._wake.set()
            self._over, self._thread = threading.Event(), None
            self._jobs, self._overview, self._marks = {}, None, {}
        for topic in topics:
            topic.end()
        if running is not None and running is not threading.current_thread():
            running.join(5)

    # ------------------------------------------------------------------ the thread

    def _run(self, over: threading.Event) -> None:
        idle_since: float | None = None
        while not over.is_set():
            began = time.monotonic()
            with self._lock:
                if over.is_set():
                    return
                overview, jobs = self._overview, dict(self._jobs)
                if overview is not None or jobs:
                    idle_since = None
                elif idle_since is None:
                    idle_since = began
                elif began - idle_since >= LINGER:
                    self._thread = None
                    return
            try:
                self._read(overview, jobs)
            except StoreError as error:  # the next round tries again; watchers keep what they have
                log.debug("a sample could not be read: %s", error)
            except Exception:
                log.exception("unexpected error in the sampler; it continues")
            self._pause(over, began + self._every)

    def _pause(self, over: threading.Event, until: float) -> None:
        """Wait for the next round, or for a topic without a value."""
        while not over.is_set() and (left := until - time.monotonic()) > 0:
            if not self._wake.wait(left):
                return
            self._wake.clear()
            with self._lock:
                new = {key: topic for key, topic in self._jobs.items() if topic.value is None}
                overview = (
                    self._overview if self._overview is not None and self._overview.value is None else None
                )
            if not over.is_set() and (new or overview is not None):
                try:
                    self._read(overview, new)
                except StoreError as error:
                    log.debug("a first sample could not be read: %s", error)

    def _read(self, overview: Topic[Sample] | None, jobs: dict[str, Topic[JobState]]) -> None:
        if overview is not None:
            self._ask()
            overview.put(read_sample(self._store, overview.value))
        if jobs:
            self._read_jobs(jobs)

    def _ask(self) -> None:
        now = time.monotonic()
        if now < self._asked_at + ASK_EVERY:
            return
        self._asked_at = now
        try:
            self._store.boards.watch(WATCH_FOR)
        except StoreError as error:  # a database that accepts no writes: boards come with the heartbeats
            log.debug("instances could not be asked to publish their boards: %s", error)

    def _read_jobs(self, jobs: dict[str, Topic[JobState]]) -> None:
        rows = {str(row[0]): row[1:] for row in self._store.db.read("watched.jobs", ids=list(jobs))}
        for job_id, topic in jobs.items():
            mark = rows.get(job_id)
            if topic.value is not None and mark == self._marks.get(job_id):
                continue
            try:
                spans = self._store.jobs.timeline(job_id)
                job = self._store.jobs.get(job_id)
                if (
                    job.state.is_final and spans and spans[-1].ended_at is None
                ):  # it may have ended between the two reads
                    spans = self._store.jobs.timeline(job_id)
            except JobNotFoundError:
                topic.end()
                continue
            self._marks[job_id] = mark
            topic.put(JobState(job, spans))
