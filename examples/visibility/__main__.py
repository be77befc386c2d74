"""Run the example: a local site, a local model, two workers, and the results as a table or as a page."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from windlass import JobHandle
from windlass_examples.running import chaos, command
from windlass_examples.running.command import say
from windlass_examples.running.database import chosen
from windlass_examples.running.processes import Processes, environment, worker_command
from windlass_examples.visibility import results
from windlass_examples.web.servers import PATHS, Model, Pages, Server, serving

APP = "windlass_examples.visibility.jobs:app"
KILLS = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """The result of a run."""

    jobs: int
    completed: int
    rows: int
    rows_twice: int
    questions: int
    charged: int
    killed: int
    interrupted: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether all jobs completed, each with one row, and the model charged each question once."""
        return (
            self.jobs == self.completed == self.rows
            and self.rows_twice == 0
            and self.charged == self.questions
        )

    def table(self) -> dict[str, object]:
        return {
            "pages": self.jobs,
            "completed": self.completed,
            "results": self.rows,
            "results twice": self.rows_twice,
            "questions": self.questions,
            "questions charged": self.charged,
            "workers killed": self.killed,
            "jobs interrupted": self.interrupted,
            "seconds": f"{self.seconds:.1f}",
        }


def main(arguments: list[str] | None = None) -> int:
    """Run the example; the exit code is 1 if a result is missing or doubled."""
    parser = command.parser("visibility", __doc__)
    parser.add_argument("--pages", type=int, help="how many pages (12, with --chaos 60)")
    parser.add_argument(
        "--serve", type=int, metavar="PORT", help="serve the page with the results until Ctrl-C"
    )
    options = parser.parse_args(arguments)
    command.end_on_sigterm()
    count = options.pages or (60 if options.chaos else 12)
    try:
        with ExitStack() as stack:
            url = stack.enter_context(chosen(options.postgres, options.folder / "visibility.db"))
            options.folder.mkdir(parents=True, exist_ok=True)
            site, model = Server(Pages), Server(Model, per_second=100)
            stack.enter_context(serving(site, model))
            variables = {
                "EXAMPLES_ALLOWED_SITES": ",".join(
                    filter(None, (os.environ.get("EXAMPLES_ALLOWED_SITES"), site.authority))
                ),
                "EXAMPLES_MODEL_URL": os.environ.get("EXAMPLES_MODEL_URL", f"http://{model.authority}/v1"),
                "EXAMPLES_MODEL_RATE": os.environ.get("EXAMPLES_MODEL_RATE", "60"),
            }
            env = environment(url, **variables)
            os.environ.update(env)
            workers = Processes(worker_command(APP), env, options.folder)
            stack.enter_context(workers)
            facts = run(url, site, model, workers, options.workers, count, KILLS if options.chaos else 0)
            command.report(facts.table())
            if options.serve is not None:
                serve(options.serve)
    except KeyboardInterrupt:
        say("stopped; unfinished jobs stay in the database")
        return 130
    return 0 if facts.is_right else 1


def run(
    url: str, site: Server, model: Server, workers: Processes, worker_count: int, count: int, kills: int
) -> Facts:
    """Submit pages, wait until all are done, and count."""
    from windlass_examples.visibility.jobs import app, visibility

    began = time.monotonic()
    results.create(url)
    jobs: Sequence[JobHandle[Any]] = visibility.enqueue_many(
        {"url": f"http://{site.authority}{PATHS[number % len(PATHS)]}"} for number in range(count)
    )
    workers.start(worker_count)
    say(f"{count} pages for {worker_count} workers; logs are beside the database")

    def progress() -> float:
        rows = {row["job"] for row in results.read(url)}
        return sum(job.id in rows for job in jobs) / count

    chaos.wait_for(lambda: all_ended(jobs), progress, workers, kills=kills, say=say)
    ours = {job.id for job in jobs}
    rows = [row["job"] for row in results.read(url) if row["job"] in ours]
    ended = [app.jobs.get(job.id) for job in jobs]
    facts = Facts(
        jobs=count,
        completed=sum(job.state == "completed" for job in ended),
        rows=len(rows),
        rows_twice=len(rows) - len(set(rows)),
        questions=sum(
            len(output.value)
            for job in ended
            for output in job.outputs
            if output.phase.endswith("prompt-forming")
        ),
        charged=len(model.charged),
        killed=workers.killed,
        interrupted=chaos.interrupted(app, ours),
        seconds=time.monotonic() - began,
    )
    app.close()
    return facts


def all_ended(jobs: Sequence[JobHandle[Any]]) -> bool:
    return all(job.state().is_final for job in jobs)


def serve(port: int) -> None:
    """Serve the page on loopback."""
    import uvicorn

    from windlass_examples.visibility.web import web

    say(f"results on http://127.0.0.1:{port}/ (Ctrl-C stops)")
    uvicorn.run(web, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    sys.exit(main())
