"""The kinds of work: two exports, a summary when both are complete, a nightly round, and the removal of old files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel

import windlass
from windlass import App, Context, JobNotFoundError, Principal
from windlass_examples.running.database import connected, execute
from windlass_examples.timesheets import access, cells, data
from windlass_examples.timesheets.files import Part, ReportFolder

CHUNK = 1_000
HEADERS = {
    "hours": ("Name", "Department", "Day", "Hours", "Note"),
    "leave": ("Name", "Department", "Day", "Leave in hours", "Note"),
    "summary": ("Department", "People", "Hours", "Leave in hours"),
}

app = App()
app.provide(ReportFolder, ReportFolder.from_environment)


class Report(BaseModel):
    """The result of a job."""

    county: str
    period: str
    rows: int
    size: int


@app.job(processors=4, timeout=120, chunk_retry=windlass.retry.linear(attempts=3, step=1))
def hours(
    ctx: Context, period: str, county: str, owner: str = "", folder: ReportFolder = windlass.injected()
) -> Report:
    """Export the hours of a county."""
    return _export(ctx, folder, "hours", county, period)


@app.job(processors=4, timeout=120, chunk_retry=windlass.retry.linear(attempts=3, step=1))
def leave(
    ctx: Context, period: str, county: str, owner: str = "", folder: ReportFolder = windlass.injected()
) -> Report:
    """Export the leave of a county."""
    return _export(ctx, folder, "leave", county, period)


@app.job(processors=4)
def summary(ctx: Context, period: str, county: str, folder: ReportFolder = windlass.injected()) -> Report:
    """Sum up a county by department. It comes from a rule, so both exports were allowed; it needs no right of its own."""
    with connected(app.url) as connection:
        rows = [
            (name, people, round(m / 60, 2), round(away / 60, 2))
            for name, people, m, away in data.sums(connection, county, period)
        ]
    part = Part(folder, ctx.job_id)
    part.begin(0)
    size = part.append(0, cells.lines([HEADERS["summary"], *rows]))
    return _finish(ctx, part, Report(county=county, period=period, rows=len(rows), size=size), owner="")


app.when_all([hours, leave], create=summary, key=["args.period", "args.county"])


def _export(ctx: Context, folder: ReportFolder, kind: str, county: str, period: str) -> Report:
    """Write a CSV file in chunks of a thousand rows; each is on disk before the commit that saves its place."""
    user = ctx.principal
    if not access.may_read(user, county):
        raise windlass.Fail("not_allowed", f"no right to read the timesheets of {county}")
    after, size, total = _place(ctx, kind, county, period)
    part = Part(folder, ctx.job_id)
    part.begin(size)
    pause = float(os.environ.get("TIMESHEETS_PAUSE", "0"))

    def clean_up() -> None:
        if app.jobs.get(ctx.job_id).cancel_requested_at is not None:  # not when only the worker stops
            folder.discard(ctx.job_id)

    for chunk in ctx.chunks(total=total, size=CHUNK, cleanup=clean_up):
        with chunk as tx:
            with connected(app.url) as reader:
                rows = data.rows_after(reader, kind, county, period, after, chunk.limit)
            text = cells.lines([*([HEADERS[kind]] if chunk.number == 0 else []), *_cells(rows)])
            new_size = part.append(size, text)
            time.sleep(pause)
            execute(
                tx.connection,
                "UPDATE report_place SET after_id = ?, size = ? WHERE job = ?",
                (rows[-1][0], new_size, ctx.job_id),
            )
        after, size = rows[-1][0], new_size
    if not total:
        size = part.append(0, cells.lines([HEADERS[kind]]))
    owner = "" if user is None or user.is_service else user.subject
    return _finish(ctx, part, Report(county=county, period=period, rows=total, size=size), owner)


def _place(ctx: Context, kind: str, county: str, period: str) -> tuple[int, int, int]:
    """Where the export goes on: the id and the size of the file at the last committed chunk; and how many rows there are in all."""
    with connected(app.url) as connection:
        if ctx.resume() is not None:
            found = execute(
                connection, "SELECT after_id, size, total FROM report_place WHERE job = ?", (ctx.job_id,)
            ).fetchone()
            return (int(found[0]), int(found[1]), int(found[2]))
        total = data.count(connection, kind, county, period)
        execute(
            connection,
            "INSERT INTO report_place VALUES (?, 0, 0, ?) ON CONFLICT (job) DO UPDATE SET after_id = 0, size = 0, total = excluded.total",
            (ctx.job_id, total),
        )
        return 0, 0, total


def _cells(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        (name, department, day, round(minutes / 60, 2), note)
        for _, name, department, day, minutes, note in rows
    ]


def _finish(ctx: Context, part: Part, report: Report, owner: str) -> Report:
    """Give the file its name, then list the report in the commit that ends the job. A crash between the two repeats both, with the same bytes."""
    digest = part.finish()
    with ctx.transaction() as tx:
        values = (
            ctx.job_id,
            ctx.kind,
            report.county,
            report.period,
            owner,
            report.size,
            report.rows,
            digest,
            time.time(),
        )
        execute(tx.connection, "INSERT INTO report VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        execute(tx.connection, "DELETE FROM report_place WHERE job = ?", (ctx.job_id,))
        tx.complete(report)
    return report


@app.cron(
    "0 2 * * *",
    tz="Europe/Tallinn",
    due_as="due",
    principal=Principal.service("nightly", roles={access.AUDITOR}),
)
def nightly(due: datetime) -> int:
    """Each night: both exports of each county for the month that is over, or the current one up to now."""
    period = f"{due - timedelta(days=1):%Y-%m}"
    for kind in (hours, leave):
        kind.enqueue_many({"period": period, "county": county} for county in data.COUNTIES)
    return 2 * len(data.COUNTIES)


@app.cron("30 3 * * *", tz="Europe/Tallinn")
def remove_old(folder: ReportFolder = windlass.injected()) -> int:
    """Remove the files of reports older than ``TIMESHEETS_KEEP_DAYS`` (30), and parts of exports that ended; returns how many."""
    before = datetime.now(UTC) - timedelta(days=float(os.environ.get("TIMESHEETS_KEEP_DAYS", "30")))
    with connected(app.url) as connection:
        old = execute(
            connection, "SELECT job FROM report WHERE made_at < ?", (before.timestamp(),)
        ).fetchall()
        for (job,) in old:
            folder.discard(job)
            execute(connection, "DELETE FROM report WHERE job = ?", (job,))
    left = {path.name.split(".")[1] for path in folder.parts()}
    ended = [job for job in left if _has_ended(job)]
    for job in ended:
        for path in folder.parts(job):
            path.unlink(missing_ok=True)
    return len(old) + len(ended)


def _has_ended(job: str) -> bool:
    try:
        return app.jobs.get(job).state.is_final
    except JobNotFoundError:
        return True
