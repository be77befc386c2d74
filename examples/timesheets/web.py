"""The web application: order a report, follow it, cancel it, download its file.

TIMESHEETS_SECRET=… uvicorn --factory windlass_examples.timesheets.web:create_web
"""

from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse
from pydantic import BaseModel

from windlass import Job, Principal, WindlassError
from windlass.integrations.fastapi import lifespan
from windlass.integrations.fastapi.bearer import Bearer
from windlass_examples.running.database import connected, execute
from windlass_examples.timesheets import access, data
from windlass_examples.timesheets.files import ReportFolder
from windlass_examples.timesheets.jobs import app, hours, leave

KINDS = {"hours": hours, "leave": leave}


class Order(BaseModel):
    """The body of ``POST /reports``."""

    kind: Literal["hours", "leave"]
    period: str
    county: str


def create_web() -> FastAPI:
    """The application; tokens are checked with ``TIMESHEETS_SECRET``."""
    web = FastAPI(title="Timesheet reports", lifespan=lifespan(app, worker=False))
    check = Bearer(app, access.verifier())
    # A local type: this module does not postpone the evaluation of annotations.
    User = Annotated[Principal, Depends(check)]  # noqa: N806  a type

    @web.post("/reports", status_code=202)
    def order(wanted: Order, user: User) -> dict[str, str]:
        if wanted.county not in data.COUNTIES or wanted.period not in data.PERIODS:
            raise HTTPException(422, "there is no such county or period")
        if not access.may_read(user, wanted.county):
            raise HTTPException(403, f"no right to read the timesheets of {wanted.county}")
        kind = KINDS[wanted.kind].options(key=f"{user.subject}/{wanted.kind}/{wanted.county}/{wanted.period}")
        return {"report": kind.enqueue(period=wanted.period, county=wanted.county, owner=user.subject).id}

    @web.get("/reports")
    def listed(user: User) -> list[dict[str, Any]]:
        with connected(app.url) as connection:
            rows = execute(
                connection,
                "SELECT job, kind, county, period, owner, size FROM report ORDER BY county, period, kind, job",
            ).fetchall()
        names = ("report", "kind", "county", "period", "owner", "size")
        found = (dict(zip(names, row, strict=True)) for row in rows)
        return [one for one in found if access.may_open(user, one["owner"], one["county"])]

    @web.get("/reports/{report}")
    def show(report: str, user: User) -> dict[str, Any]:
        job = _job(report, user)
        progress = app.handle(job.id).progress()
        return {
            "state": job.state,
            "percent": progress.percent if progress else None,
            "seconds_left": progress.seconds_left if progress else None,
            "result": job.result,
            "error": {name: job.error.get(name) for name in ("code", "message")} if job.error else None,
        }

    @web.post("/reports/{report}/cancel")
    def cancel(report: str, user: User) -> dict[str, str]:
        job = _job(report, user)
        try:
            return {"state": str(app.handle(job.id).cancel(f"cancelled by {user.subject}"))}
        except WindlassError as error:
            raise HTTPException(409, f"the report is {job.state}") from error

    @web.get("/reports/{report}/file")
    def download(report: str, user: User) -> FileResponse:
        with connected(app.url) as connection:
            row = execute(
                connection, "SELECT kind, county, period, owner FROM report WHERE job = ?", (report,)
            ).fetchone()
        # The rights of this request count, not those of the order. A foreign report is not distinguished from one that does not exist.
        if row is None or not access.may_open(user, row[3], row[1]):
            raise HTTPException(404, "there is no such report")
        path = ReportFolder.from_environment().of(report)
        if not path.is_file():
            raise HTTPException(410, "the file of the report was removed")
        return FileResponse(
            path,
            media_type="text/csv; charset=utf-8",
            filename=f"{row[0]}-{row[1]}-{row[2]}.csv",
            headers={"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"},
        )

    return web


def _job(report: str, user: Principal) -> Job:
    try:
        job = app.jobs.get(report)
    except WindlassError as error:
        raise HTTPException(404, "there is no such report") from error
    arguments = job.args
    is_report = job.kind in ("hours", "leave", "summary")
    if not is_report or not access.may_open(user, arguments.get("owner", ""), arguments["county"]):
        raise HTTPException(404, "there is no such report")
    return job
