"""The application whose dashboard the tests open: quick jobs, long ones, failing ones, pipelines and a schedule."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import windlass
from windlass import Context

LONG_LINE = "intake unpack virus-scan classify deskew ocr language-detection extract validate match-order approve post"


def make_app(url: str, mended: Path, ocr_seconds: float = 0.01) -> windlass.App:
    """The application; while the file ``mended`` does not exist, jobs of the kind fragile fail."""
    app = windlass.App(url)

    @app.job(processors=4)
    async def greet(name: str, note: str = "") -> str:
        logging.getLogger("board").warning("%s", note)
        return f"hello, {name}"

    @app.job(processors=1)
    async def keep(ctx: Context, outputs: dict[str, str]) -> None:
        for name, value in outputs.items():
            await ctx.put_output_async(name, value)

    @app.job(processors=2)
    async def count_up(ctx: Context, name: str, steps: int = 8, pause: float = 0.15) -> int:
        for step in range(steps):
            await asyncio.sleep(pause)
            await ctx.checkpoint_async(step + 1, done=step + 1, total=steps)
        return steps

    @app.job(processors=1, title="{total} slices")
    def slices(ctx: Context, total: int) -> int:
        for chunk in ctx.chunks(total=total, size=1):
            with chunk:
                pass
        return total

    @app.job(processors=2)
    async def hold(name: str) -> None:
        await asyncio.sleep(600)

    @app.job(processors=4, retry=windlass.retry.exponential(attempts=1))
    def fragile(customer: int, note: str = "") -> str:
        if not mended.exists():
            raise ValueError(f"row 7: amount of customer {customer} is empty {note}".strip())
        return "mended"

    @app.job(processors=2, retry=windlass.retry.exponential(attempts=3, base=300))
    def unsteady(host: str) -> None:
        raise ConnectionError(f"503 from {host}")

    invoice = app.pipeline("invoice")

    @invoice.phase("fetch", processors=6, timeout=60)
    def fetch(number: int, customer: str) -> dict[str, int]:
        return {"pages": number % 40}

    @invoice.phase("ocr", processors=8, timeout=60)
    def ocr(number: int, customer: str) -> dict[str, int]:
        time.sleep(ocr_seconds)
        return {"words": number * 7}

    @invoice.phase("post", processors=4)
    def post(number: int, customer: str) -> str:
        return f"posted {number}"

    long_line = app.pipeline("order-intake")
    for label in LONG_LINE.split():

        @long_line.phase(label, processors=3)
        def step(order: int) -> int:
            return order

    # Names that every object of JavaScript has.
    inherited = app.pipeline("__proto__")

    @inherited.phase("constructor", processors=1)
    def first(text: str) -> str:
        return text

    @inherited.phase("toString", processors=1)
    def second(text: str) -> str:
        return text

    @app.cron("0 3 * * *")
    def valueOf() -> None: ...  # noqa: N802  the name is what it is for

    @app.cron("0 2 * * *", tz="Europe/Berlin")
    def nightly_ledger() -> str:
        return "closed"

    return app
