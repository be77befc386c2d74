"""Runs both examples: a worker process for each, users that submit, bars until all jobs have ended, and the count at the end.

A start on the file of an earlier run, whether that was finished, interrupted or killed, continues with its unfinished jobs.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from windlass import App, Job
from windlass_examples.demo.bars import Bars
from windlass_examples.demo.facts import EXPORTS, KINDS, PAGES, SUMMARY, Facts, count, jobs_after
from windlass_examples.demo.users import Users
from windlass_examples.running.command import say
from windlass_examples.running.processes import Processes, environment, worker_command
from windlass_examples.timesheets import data
from windlass_examples.timesheets.jobs import app as reports
from windlass_examples.visibility import results
from windlass_examples.web import servers
from windlass_examples.web.servers import Model, Server, serving

APPS = ("windlass_examples.visibility.jobs:app", "windlass_examples.timesheets.jobs:app")
LABELS = ("website-analysis", "prompt-forming", "model-analysis")
ROWS = 60_000
MODEL_RATE, SLOW_MODEL_RATE = 20, 8
"""Calls of the model a second; few for a demonstration with a dashboard, so that its boards show work."""
EXPORT_PAUSE, SLOW_EXPORT_PAUSE = 0.15, 0.5
"""Seconds that a chunk of an export takes longer."""
CHECK_EVERY = 0.2
STATISTICS_EVERY = 2
"""Seconds until the charts of the dashboard have what ended; workers write statistics every ten seconds otherwise."""
UNFINISHED = f"kind:{','.join(KINDS)} state:waiting,scheduled,queued,processing"


class Pages(servers.Pages):
    """The site; every fourth request gets a 503, so that there is something to retry. No page gets two in a row, so no job fails of it."""

    refused: ClassVar[set[str]] = set()

    def do_GET(self) -> None:  # noqa: N802  the base class's name
        if self.server.calls % 4 == 3 and self.path not in self.refused:
            self.refused.add(self.path)
            self.server.calls += 1
            self.reply(503, "text/plain", b"busy")
        else:
            self.refused.discard(self.path)
            super().do_GET()


def run(url: str, folder: Path, *, is_endless: bool = False) -> Facts:
    """Run the demonstration on a database; logs and files go into ``folder``. An endless one runs until Ctrl-C."""
    began = time.monotonic()
    os.environ.update(environment(url))
    with ExitStack() as stack:
        app = stack.enter_context(closing(App(url)))
        stopping = stack.enter_context(_interrupts())
        newest = next((job.id for job in app.jobs.list(limit=1).jobs), "")
        left = list(app.jobs.iterate(UNFINISHED))
        folder.mkdir(parents=True, exist_ok=True)
        site, model = _site(folder), Server(Model, per_second=100)
        crew: list[Processes] = []
        stack.enter_context(serving(site, model))
        os.environ.update(_variables(site, model, folder, is_slow=is_endless))
        results.create(url)
        data.generate(url, ROWS)
        reports.sync()  # the rule must be known before the first export ends
        users = Users(site.authority, is_endless=is_endless)
        if left:
            say(f"continuing with {len(left)} unfinished jobs of an earlier run")
        for target in APPS:
            logs = folder / f"{target.split('.')[1]}-worker"
            logs.mkdir(exist_ok=True)
            command = worker_command(target, "--set", f"rollup={STATISTICS_EVERY}")
            workers = stack.enter_context(Processes(command, os.environ, logs))
            workers.start()
            crew.append(workers)
        while not stopping.wait(CHECK_EVERY) and len(_alive(app)) < len(APPS):
            _check(crew)
        with users.at_work(is_wanted=is_endless or not left):
            _watch(app, newest, left, users, crew, stopping)
        return count(
            app,
            _jobs(app, newest, left),
            duplicates=users.duplicates,
            seconds=time.monotonic() - began,
            is_interrupted=stopping.is_set(),
        )


def _watch(
    app: App,
    newest: str,
    left: Sequence[Job],
    users: Users,
    crew: Sequence[Processes],
    stopping: threading.Event,
) -> None:
    with Bars([*LABELS, "exports", "summaries"]) as bars:
        while True:
            is_last = users.are_done
            jobs = _jobs(app, newest, left)
            _show(bars, jobs)
            if users.errors:
                raise users.errors[0]
            if stopping.is_set() or (is_last and all(job.state.is_final for job in jobs)):
                return
            _check(crew)
            stopping.wait(CHECK_EVERY)


def _alive(app: App) -> list[str]:
    return [instance.id for instance in app.instances.list() if instance.is_alive]


def _check(crew: Sequence[Processes]) -> None:
    for workers in crew:
        workers.check()


def _jobs(app: App, newest: str, left: Sequence[Job]) -> list[Job]:
    """The jobs of this run, and those that an earlier run left."""
    return [*jobs_after(app, newest), *(app.jobs.get(job.id) for job in left)]


def _show(bars: Bars, jobs: Sequence[Job]) -> None:
    pages = [job for job in jobs if job.kind == PAGES]
    for place, label in enumerate(LABELS):
        bars.show(label, sum(_place(job) > place for job in pages), len(pages))
    for label, kinds in (("exports", EXPORTS), ("summaries", (SUMMARY,))):
        some = [job for job in jobs if job.kind in kinds]
        bars.show(label, sum(job.state.is_final for job in some), len(some))


def _place(job: Job) -> int:
    """How many phases a page has completed."""
    return len(LABELS) if job.state.is_final else LABELS.index(job.phase.partition(":")[2])


def _variables(site: Server, model: Server, folder: Path, *, is_slow: bool) -> dict[str, str]:
    """The environment of the workers."""
    return {
        "EXAMPLES_ALLOWED_SITES": site.authority,
        "EXAMPLES_MODEL_URL": f"http://{model.authority}/v1",
        "EXAMPLES_MODEL_RATE": str(SLOW_MODEL_RATE if is_slow else MODEL_RATE),
        "TIMESHEETS_FOLDER": str((folder / "reports").resolve()),
        "TIMESHEETS_PAUSE": str(SLOW_EXPORT_PAUSE if is_slow else EXPORT_PAUSE),
        "TIMESHEETS_SECRET": secrets.token_urlsafe(32),
    }


def _site(folder: Path) -> Server:
    """The site, on the port of the earlier run if it is free: unfinished jobs have its address."""
    file = folder / "site.port"
    try:
        site = Server(Pages, port=int(file.read_text()))
    except (OSError, ValueError):
        site = Server(Pages)
    file.write_text(str(site.server_address[1]))
    return site


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; Python handles a second one."""
    stopping = threading.Event()
    before: dict[int, Any] = {}

    def stop(number: int, _frame: object) -> None:
        stopping.set()
        signal.signal(number, signal.SIG_DFL)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, stop)
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
