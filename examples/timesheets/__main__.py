"""Run the example: timesheets of six counties, both exports of each, a summary that waits for both, and the files compared."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass import Principal
from windlass_examples.running import chaos, command
from windlass_examples.running.command import say
from windlass_examples.running.database import chosen, connected, execute
from windlass_examples.running.processes import Processes, environment, worker_command
from windlass_examples.timesheets import access, data
from windlass_examples.timesheets.files import ReportFolder

APP = "windlass_examples.timesheets.jobs:app"
KILLS = 3
ROWS = 100_000
Files = dict[tuple[str, str, str], str]


@dataclass(frozen=True, slots=True)
class Facts:
    """The result of a run."""

    ordered: int
    reports: int
    reports_twice: int
    rows: int
    files: Files
    killed: int
    interrupted: int
    parts_left: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether each county and period has two exports and a summary, once, and no part is left."""
        expected = 3 * len(data.COUNTIES) * len(data.PERIODS)
        return self.reports == expected == len(self.files) and not self.reports_twice and not self.parts_left

    def table(self) -> dict[str, object]:
        return {
            "exports ordered": self.ordered,
            "reports": self.reports,
            "reports twice": self.reports_twice,
            "rows exported": self.rows,
            "workers killed": self.killed,
            "jobs interrupted": self.interrupted,
            "seconds": f"{self.seconds:.1f}",
        }


def main(arguments: list[str] | None = None) -> int:
    """Run the example; the exit code is 1 if a report is missing, doubled, or differs from an undisturbed run."""
    parser = command.parser("timesheets", __doc__)
    parser.add_argument(
        "--rows", type=int, default=ROWS, help=f"timesheets to generate ({ROWS:,}; try 5000000)"
    )
    parser.add_argument(
        "--serve", type=int, metavar="PORT", help="serve the reports until Ctrl-C, and print tokens"
    )
    options = parser.parse_args(arguments)
    command.end_on_sigterm()
    folder: Path = options.folder
    try:
        with ExitStack() as stack:
            url = stack.enter_context(chosen(options.postgres, folder / "timesheets.db"))
            folder.mkdir(parents=True, exist_ok=True)
            say(f"generating {options.rows:,} timesheets")
            began = time.monotonic()
            data.generate(url, options.rows)
            say(f"timesheets are there after {time.monotonic() - began:.1f} s")
            os.environ.setdefault("TIMESHEETS_SECRET", secrets.token_urlsafe(32))
            facts = run(url, folder, "reports", options.workers, 0)
            is_right = facts.is_right
            command.report(facts.table())
            if options.chaos:
                disturbed = run(url, folder, "reports-chaos", options.workers, KILLS)
                differing = sum(digest != facts.files.get(name) for name, digest in disturbed.files.items())
                command.report({**disturbed.table(), "files that differ": differing})
                is_right = is_right and disturbed.is_right and not differing
            if options.serve is not None:
                serve(options.serve)
    except KeyboardInterrupt:
        say("stopped; unfinished jobs stay in the database")
        return 130
    return 0 if is_right else 1


def run(url: str, folder: Path, name: str, worker_count: int, kills: int) -> Facts:
    """Order all exports, wait for their summaries, and count."""
    from windlass_examples.timesheets.jobs import app, hours, leave, summary

    reports = ReportFolder((folder / name).resolve())
    reports.path.mkdir(exist_ok=True)
    os.environ.update(
        environment(url, TIMESHEETS_FOLDER=str(reports.path), TIMESHEETS_PAUSE="0.05" if kills else "0")
    )
    began, since = time.monotonic(), time.time()
    app.sync()  # the rule must be known before the first export ends
    auditor = Principal("auditor", roles={access.AUDITOR})
    wanted = [{"period": period, "county": county} for period in data.PERIODS for county in data.COUNTIES]
    with app.as_principal(auditor):
        jobs = [job.id for kind in (hours, leave) for job in kind.enqueue_many(wanted)]
    total = len(jobs) + len(wanted)
    with Processes(worker_command(APP), os.environ, folder) as workers:
        workers.start(worker_count)
        chaos.wait_for(
            lambda: len(_reports(url, since)) >= total,
            lambda: _done(url, since),
            workers,
            kills=kills,
            say=say,
        )
    made = _reports(url, since)
    summaries = [row[0] for row in made if row[1] == summary.name]
    names = [(str(row[1]), str(row[2]), str(row[3])) for row in made]
    facts = Facts(
        ordered=len(jobs),
        reports=len(made),
        reports_twice=len(names) - len(set(names)),
        rows=sum(int(row[4]) for row in made if row[1] != summary.name),
        files={name: _digest(reports, str(row[0])) for name, row in zip(names, made, strict=True)},
        killed=workers.killed,
        interrupted=chaos.interrupted(app, [*jobs, *map(str, summaries)]),
        parts_left=len(reports.parts()),
        seconds=time.monotonic() - began,
    )
    app.close()
    return facts


def _reports(url: str, since: float) -> list[tuple[Any, ...]]:
    with connected(url) as connection:
        sql = "SELECT job, kind, county, period, rows_total FROM report WHERE made_at >= ?"
        return list(execute(connection, sql, (since,)).fetchall())


def _done(url: str, since: float) -> float:
    """The share of timesheets that are exported: in finished reports, and in those that are being written."""
    with connected(url) as connection:
        (total,) = execute(connection, "SELECT count(*) FROM timesheet").fetchone()
        (written,) = execute(
            connection,
            "SELECT sum(rows_total) FROM report WHERE made_at >= ? AND kind <> 'summary'",
            (since,),
        ).fetchone()
        places = execute(connection, "SELECT size FROM report_place").fetchall()
    sized = sum(int(size) for (size,) in places) / 60  # about sixty bytes a row
    return min(1.0, (float(written or 0) + sized) / float(total))


def _digest(reports: ReportFolder, job: str) -> str:
    return hashlib.sha256(reports.of(job).read_bytes()).hexdigest()


def serve(port: int) -> None:
    """Serve the application on loopback."""
    import uvicorn

    from windlass_examples.timesheets.web import create_web

    for name, role, counties in (("ana", access.MANAGER, ["Harju"]), ("audit", access.AUDITOR, [])):
        say(f"{name} ({role}): {access.new_token(name, role, counties)}")
    say(f"http://127.0.0.1:{port}/docs (Ctrl-C stops)")
    uvicorn.run(create_web(), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    sys.exit(main())
