"""The kinds of work: a pipeline over pages, a report in chunks, and a summary that waits for it."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from typing import Any

from pydantic import BaseModel

from windlass import App, Context, exponential, fixed
from windlass.examples.visibility.reading import read_page
from windlass.examples.visibility.tables import Tables

app = App()

RECORDS = 50_000
CHUNK = 1_000


class Site(BaseModel):
    """The facts of a page."""

    path: str
    title: str
    headings: list[str]
    words: int
    links: int


class Verdict(BaseModel):
    """The result of the model."""

    title: str
    score: int
    advice: list[str]


def base(variable: str) -> str:
    """The address of a server, from the environment."""
    found = os.environ.get(variable)
    if not found:
        raise RuntimeError(
            f"{variable} is not set; `windlass demo` sets it, or set it to the address of your own server"
        )
    return found.rstrip("/")


visibility = app.pipeline("site-visibility")


@visibility.phase("website-analysis", processors=4, retry=exponential(5, base=0.2, longest=5.0), timeout=30)
def analyse(path: str) -> Site:
    """Fetch a page and read it."""
    address = f"{base('WINDLASS_DEMO_SITE')}{path}"
    with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310  the demo's own server
        page = read_page(response.read(2_000_000).decode(response.headers.get_content_charset() or "utf-8"))
    return Site(path=path, title=page.title, headings=page.headings, words=page.words, links=page.links)


@visibility.phase("prompt-forming", processors=4)
async def form_prompts(path: str, ctx: Context) -> list[str]:
    """Form questions from the facts of a page."""
    site = ctx.output("website-analysis", Site)
    return [
        f"Would you recommend {site.title!r} to a reader who searches for {heading.lower()}?"
        for heading in site.headings or [site.title]
    ]


@visibility.phase("model-analysis", processors=2, retry=exponential(5, base=0.2, longest=5.0), timeout=60)
def ask_model(path: str, ctx: Context) -> Verdict:
    """Ask a model each question, and combine its replies."""
    site, prompts = ctx.output("website-analysis", Site), ctx.output("prompt-forming", list[str])
    replies = [_chat(prompt, key=f"{ctx.key}:{number}") for number, prompt in enumerate(prompts)]
    return Verdict(
        title=site.title,
        score=round(sum(reply["score"] for reply in replies) / max(1, len(replies))),
        advice=sorted({reply["advice"] for reply in replies}),
    )


def _chat(prompt: str, *, key: str) -> dict[str, Any]:
    body = {"model": "demo", "messages": [{"role": "user", "content": prompt}]}
    request = urllib.request.Request(  # noqa: S310  the demo's own server
        f"{base('WINDLASS_DEMO_MODEL')}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        reply: dict[str, Any] = json.loads(json.load(response)["choices"][0]["message"]["content"])
    return reply


@app.job(name="hours-report", retry=fixed(10, wait=0.5), chunk_retry=fixed(3, wait=0.2))
def hours_report(county: str, ctx: Context) -> dict[str, Any]:
    """Process fifty thousand records, a thousand in each commit."""
    for chunk in ctx.chunks(total=RECORDS, size=CHUNK):
        with chunk as tx:
            Tables.write(tx.connection, ctx.job_id, chunk.offset, chunk.limit)
        time.sleep(0.08)  # so that progress is visible
    return {"county": county, "records": RECORDS}


@app.job(retry=fixed(5, wait=0.5))
def summary(report: str, ctx: Context) -> dict[str, Any]:
    """Sum up the report; begins when the report is complete."""
    with ctx.transaction() as tx:
        facts = Tables.add_up(tx.connection, report)
        tx.complete(facts)
    return facts
