"""The work of a request: extraction, then summarisation, whose result is an upsert in the commit that ends the job."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

import windlass
from windlass import App, Context
from windlass_examples.running.database import connected, execute
from windlass_examples.web.addresses import RefusedError
from windlass_examples.web.fetching import Fetcher
from windlass_examples.web.model import Model
from windlass_examples.web.reading import read_page

KIND = "url-summary"
LONGEST = 4_000
SYSTEM = (
    'Write a summary of the page. Reply with JSON: {"summary": "two sentences", "topics": ["a", "b", "c"]}.'
)
# The column "writes" counts how often a summary was written: more than once would be a bug.
TABLE = (
    "CREATE TABLE IF NOT EXISTS url_summary (request TEXT PRIMARY KEY, url TEXT, title TEXT, summary TEXT, topics TEXT, "
    "writes INTEGER NOT NULL)"
)


class Text(BaseModel):
    """The output of the extraction."""

    title: str
    text: str


class Summary(BaseModel):
    """The result of a request."""

    summary: str
    topics: list[str]


app = App()
app.provide(Fetcher, Fetcher.from_environment)
app.provide(Model, Model.from_environment)
requests = app.pipeline(KIND)


@requests.phase("extraction", timeout=60)
def extract(url: str, fetcher: Fetcher = windlass.injected()) -> Text:
    """Fetch a page and extract its text."""
    try:
        page = fetcher.fetch(url)
    except RefusedError as refusal:
        raise windlass.Fail("page_refused", str(refusal)) from refusal
    facts = read_page(page.body, page.charset)
    if not facts.text:
        raise windlass.Fail("page_empty", f"{page.url} has no text")
    return Text(title=facts.title[:200], text=facts.text[:LONGEST])


@requests.phase("summarisation", timeout=180)
def summarise(ctx: Context, url: str, model: Model = windlass.injected()) -> Summary:
    """Have the text summarised, and store the summary."""
    page = ctx.output("extraction", Text)
    summary = Summary.model_validate(model.ask(SYSTEM, page.text, key=ctx.key))
    with ctx.transaction() as tx:
        execute(
            tx.connection,
            "INSERT INTO url_summary VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT (request) DO UPDATE SET "
            "title = excluded.title, summary = excluded.summary, topics = excluded.topics, writes = url_summary.writes + 1",
            (ctx.job_id, url, page.title, summary.summary, json.dumps(summary.topics)),
        )
        tx.complete(summary)
    return summary


def create(url: str) -> None:
    """Make the table."""
    with connected(url) as connection:
        execute(connection, TABLE)


def read(url: str, request: str | None = None) -> list[dict[str, Any]]:
    """The summary of a request, or all."""
    where, values = ("WHERE request = ?", (request,)) if request else ("", ())
    with connected(url) as connection:
        rows = execute(
            connection,
            f"SELECT request, url, title, summary, topics, writes FROM url_summary {where} ORDER BY url",  # noqa: S608  constants
            values,
        ).fetchall()
    names = ("request", "url", "title", "summary", "topics", "writes")
    return [{**dict(zip(names, row, strict=True)), "topics": json.loads(row[4])} for row in rows]
