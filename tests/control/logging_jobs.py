"""Jobs that log, for workers of the tests and for their child processes."""

from __future__ import annotations

import logging
import time

from windlass import App, Context, retry
from windlass.features import Store

log = logging.getLogger("shop")


async def in_loop(number: int) -> None:
    _talk(number)


def in_thread(number: int) -> None:
    _talk(number)


def in_process(number: int) -> None:
    _talk(number)


def _talk(number: int) -> None:
    log.warning("number %d", number)
    try:
        raise ValueError("no")
    except ValueError:
        log.exception("could not")


def again(ctx: Context) -> None:
    log.warning("attempt %d", ctx.attempt)
    raise RuntimeError("again")


def silent() -> None: ...


def long() -> None:
    for number in range(200):
        log.warning("%d %s", number, "x" * 1000)


def leaks() -> None:
    log.warning("password=hunter2")


def runs_on(ctx: Context) -> None:
    log.warning("begun")
    while True:
        ctx.sleep(0.05)
        time.sleep(0)


def make(store: Store | None = None) -> App:
    made = App(store=store)
    for handler in (in_loop, in_thread, silent, long, leaks, runs_on):
        made.job(handler)
    made.job(executor="process")(in_process)
    made.job(retry=retry.fixed(attempts=2, wait=0.01))(again)
    return made


app = make()
