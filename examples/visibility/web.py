"""The web application: a route that creates jobs, and a page with their results.

EXAMPLES_MODEL_URL=… uvicorn windlass_examples.visibility.web:web       # with `windlass worker windlass_examples.visibility.jobs:app`
"""

from __future__ import annotations

import html
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel

from windlass import Job, WindlassError
from windlass.integrations.fastapi import lifespan
from windlass_examples.visibility import results
from windlass_examples.visibility.jobs import app, visibility
from windlass_examples.web.addresses import RefusedError
from windlass_examples.web.fetching import Fetcher

SHOWN = 100
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d9dde3, #3a4048); --dim: light-dark(#5b6470, #a3acb8);
  --back: light-dark(#fff, #16191d); --card: light-dark(#f6f7f9, #1e2227); --bar: light-dark(#1f6f5c, #4cc3a5);
  --bad: light-dark(#a4262c, #ff8f8f) }
* { box-sizing: border-box } body { margin: 0; background: var(--back); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1200px; margin: 0 auto; padding: 28px 20px } h1 { font-size: 24px; margin: 0 0 4px }
p.dim, .dim { color: var(--dim) } form { display: flex; flex-wrap: wrap; gap: 8px; margin: 20px 0 }
label { position: absolute; left: -9999px }
input { flex: 1 1 260px; padding: 9px 12px; border: 1px solid var(--line); border-radius: 6px; font: inherit }
button { padding: 9px 18px; border: 0; border-radius: 6px; background: var(--bar); color: light-dark(#fff, #10231e); font: inherit; cursor: pointer }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card) }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: 9px 12px; vertical-align: top }
th { font-weight: 600; font-size: 13px; color: var(--dim) } tr + tr td { border-top: 1px solid var(--line) }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
td small { display: block; color: var(--dim); overflow-wrap: anywhere } meter { width: 90px; vertical-align: middle; margin-left: 8px }
.failed { color: var(--bad) }
"""


class NewSite(BaseModel):
    """The body of ``POST /sites``."""

    url: str


@asynccontextmanager
async def tables(_: FastAPI) -> AsyncIterator[None]:
    """Make the tables before the first request."""
    results.create(app.url)
    yield


web = FastAPI(title="Site visibility", lifespan=lifespan(app, worker=False, inner=tables))


@web.exception_handler(RefusedError)
async def refused(_: Request, refusal: Exception) -> JSONResponse:
    """A URL that will not be fetched is an error of the request."""
    return JSONResponse({"code": "page_refused", "message": str(refusal)}, 422)


async def submit(url: str) -> str:
    """Create the job of a page; the same page again is the same job while it runs."""
    wanted = Fetcher.from_environment().check(url)
    job = await visibility.options(key=wanted.url).enqueue_async(url=wanted.url)
    return job.id


@web.post("/sites", status_code=202)
async def create(site: NewSite) -> dict[str, str]:
    return {"job": await submit(site.url)}


@web.post("/", response_class=RedirectResponse)
async def create_from_page(request: Request) -> RedirectResponse:
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this form is for the page itself")
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    await submit(fields.get("url", [""])[0])
    return RedirectResponse("./", status_code=303)


@web.get("/sites/{job_id}")
def show(job_id: str) -> dict[str, Any]:
    try:
        job = app.jobs.get(job_id)
    except WindlassError as error:
        raise HTTPException(404, "there is no such job") from error
    return {
        "job": job.id,
        "state": job.state,
        "phase": label(job),
        "result": job.result,
        "error": reason(job),
    }


@web.get("/sites")
def listed() -> list[dict[str, Any]]:
    return results.read(app.url)


@web.get("/", response_class=HTMLResponse)
def page() -> HTMLResponse:
    jobs = app.jobs.list("kind:visibility", limit=SHOWN).jobs
    known = {row["job"]: row for row in results.read(app.url)}
    is_busy = any(not job.state.is_final for job in jobs)
    rows = "".join(map(_row, jobs, (known.get(job.id) for job in jobs)))
    refresh = "<meta http-equiv=refresh content=2>" if is_busy else ""
    done = sum(job.state.is_final for job in jobs)
    return HTMLResponse(
        f"<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>{refresh}"
        f"<title>Site visibility</title><style>{STYLE}</style></head><body><main><h1>Site visibility</h1>"
        f"<p class=dim>{done} of {len(jobs)} pages done. The newest {SHOWN} are shown.</p>"
        "<form method=post action='./'><label for=url>Address of a page</label>"
        "<input id=url name=url type=url required placeholder='https://example.org/'><button>Analyse</button></form>"
        "<div class=scroll><table><thead><tr><th>Page<th>State<th>Language<th>Topics<th>Score<th>Mean rank<th>Advice</tr></thead>"
        f"<tbody>{rows or '<tr><td colspan=7 class=dim>No page yet.'}</tbody></table></div></main></body></html>",
        headers=HEADERS,
    )


def label(job: Job) -> str:
    """The phase without the name of its kind."""
    return job.phase.partition(":")[2]


def reason(job: Job) -> dict[str, Any] | None:
    """Code and message of a job's error; no traceback leaves the application."""
    return {name: job.error.get(name) for name in ("code", "message")} if job.error else None


def _row(job: Job, result: Mapping[str, Any] | None) -> str:
    url = html.escape(str(job.args["url"]))
    if result is None:
        text = html.escape(job.error["message"]) if job.error else ""
        state = "failed" if job.state == "failed" else "dim"
        return f"<tr><td>{url}<td class={state}>{html.escape(job.state)}<small>{label(job)}</small><td><td><td><td><td>{text}</tr>"
    title, language = html.escape(result["title"]), html.escape(result["language"])
    return (
        f"<tr><td>{title}<small>{url}</small><td>{html.escape(job.state)}<td>{language}"
        f"<td>{html.escape(', '.join(result['topics']))}"
        f"<td class=number>{result['score']} %<meter min=0 max=100 value={result['score']}>{result['score']} %</meter>"
        f"<td class=number>{result['rank']:.1f}<td>{html.escape('; '.join(result['advice']))}</tr>"
    )
