"""An app for the tests of the commands that show and change jobs; its database is the one of the environment."""

from __future__ import annotations

import logging

from windlass import App, Context
from windlass.retry import fixed

app = App()
log = logging.getLogger("tests.shop")


@app.job(retry=fixed(1))
def hello(name: str, number: int = 0) -> str:
    log.warning("hello %s", name)
    if name == "bad":
        raise ValueError("bad row 7")
    return f"hello {name}"


@app.job
def count(most: int, ctx: Context) -> None:
    for done in range(1, most + 1):
        ctx.checkpoint(done=done, total=most)


@app.job
def sign_in(user: str, password: str) -> None: ...


site = app.pipeline("site")


@site.phase("fetch")
def fetch(url: str) -> str:
    return url


@site.phase("parse")
def parse(url: str) -> int:
    return len(url)


@app.job
def left(period: str) -> None: ...


@app.job
def right(period: str) -> None: ...


@app.job
def both(period: str) -> None: ...


app.when_all([left, right], create=both, key=["args.period"], name="both-sides")


@app.cron("30 2 * * *", tz="Europe/Berlin")
def tidy() -> None: ...
