"""The pipeline: fetch and read a page, form questions, ask a model each of them.

The result is a row of the example's own table, written in the commit that ends the job.
"""

from __future__ import annotations

import os

from pydantic import BaseModel

import windlass
from windlass import App, Context
from windlass.retry import exponential
from windlass_examples.visibility.results import write
from windlass_examples.web.addresses import RefusedError
from windlass_examples.web.fetching import Fetcher
from windlass_examples.web.model import Model, shared_turn
from windlass_examples.web.reading import read_page

app = App()
QUESTIONS = 4
SYSTEM = 'You rate how visible web pages are. Reply with JSON: {"mentioned": true or false, "rank": 1 to 10, "advice": "a short text"}.'
RETRY = exponential(attempts=5, base=0.5, longest=30.0)


class Site(BaseModel):
    """The facts of a page; the output of the first phase."""

    url: str
    title: str
    description: str
    headings: list[str]
    language: str
    topics: list[str]
    words: int


class Verdict(BaseModel):
    """The result of a job."""

    url: str
    title: str
    score: int
    rank: float
    advice: list[str]


class Opinion(BaseModel):
    """The reply of the model to one question."""

    mentioned: bool
    rank: int
    advice: str


def make_model() -> Model:
    """The model, at most ``EXAMPLES_MODEL_RATE`` calls a second over all workers (20 without it)."""
    rate = float(os.environ.get("EXAMPLES_MODEL_RATE", "20"))
    return Model.from_environment(shared_turn(lambda: app.url, rate))


app.provide(Fetcher, Fetcher.from_environment)
app.provide(Model, make_model)

visibility = app.pipeline("visibility")


@visibility.phase("website-analysis", processors=10, retry=RETRY, timeout=60)
def analyse(url: str, fetcher: Fetcher = windlass.injected()) -> Site:
    """Fetch a page and read it."""
    try:
        page = fetcher.fetch(url)
    except RefusedError as refusal:
        raise windlass.Fail("page_refused", str(refusal)) from refusal
    facts = read_page(page.body, page.charset)
    return Site(
        url=page.url,
        title=facts.title[:200] or page.url,
        description=facts.description[:500],
        headings=[heading[:200] for heading in facts.headings[:20]],
        language=facts.language,
        topics=facts.topics,
        words=facts.words,
    )


@visibility.phase("prompt-forming", processors=10)
async def form_prompts(ctx: Context, url: str) -> list[str]:
    """Form a question from each heading and topic."""
    site = await ctx.output_async("website-analysis", Site)
    searched = list(dict.fromkeys([*site.headings, *site.topics, site.title]))[:QUESTIONS]
    return [
        f"A reader searches for {what!r}. Would you recommend the page {site.title!r} ({site.description})?"
        for what in searched
    ]


@visibility.phase("model-analysis", processors=10, retry=RETRY, timeout=120)
def ask_model(ctx: Context, url: str, model: Model = windlass.injected()) -> Verdict:
    """Ask the model each question once, and combine the replies."""
    site, prompts = ctx.output("website-analysis", Site), ctx.output("prompt-forming", list[str])
    known = {output.name: output.value for output in ctx.outputs() if output.phase == ctx.phase}
    opinions = []
    for number, prompt in enumerate(prompts):
        name = f"reply-{number}"
        if name not in known:  # else an earlier attempt has asked it
            reply = Opinion.model_validate(model.ask(SYSTEM, prompt, key=f"{ctx.key}:{number}"))
            known[name] = ctx.put_output(name, reply.model_dump()).value
        opinions.append(Opinion.model_validate(known[name]))
    verdict = Verdict(
        url=site.url,
        title=site.title,
        score=round(100 * sum(opinion.mentioned for opinion in opinions) / len(opinions)),
        rank=round(sum(opinion.rank for opinion in opinions) / len(opinions), 1),
        advice=sorted({opinion.advice for opinion in opinions}),
    )
    with ctx.transaction() as tx:
        write(tx.connection, ctx.job_id, site.language, site.topics, verdict.model_dump())
        tx.complete(verdict)
    return verdict
