"""An app whose job runs in child processes, with a chunk policy of its own."""

from __future__ import annotations

from windlass import App, Context
from windlass.retry import fixed

app = App()


@app.job(executor="process", retry=fixed(1), chunk_retry=fixed(4, wait=0.01))
def stubborn(ctx: Context) -> list[int]:
    tries = []
    for chunk in ctx.chunks(total=1):
        with chunk:
            tries.append(chunk.attempt)
            if chunk.attempt < 4:
                raise ConnectionError("not yet")
    return tries
