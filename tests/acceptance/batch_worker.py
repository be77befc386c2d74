"""One engine as a real process, for test_batches.py and test_large_batches.py: runs members of batches and their summaries, until it is killed.

    python -m tests.acceptance.batch_worker URL

Each ``member`` and each ``summary`` writes that it ran into the table ``ran``, in the transaction that ends it. It says "ready" when it serves, and
ends when it is told something.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from typing import Any

from windlass import App, Context, Fail, Settings

app = App()


def note(ctx: Context, tx: Any, what: str) -> None:
    mark = "?" if isinstance(tx.connection, sqlite3.Connection) else "%s"
    tx.connection.execute(f"INSERT INTO ran (job, what) VALUES ({mark}, {mark})", (ctx.job_id, what))


@app.job(executor="thread", processors=4)
def member(ctx: Context, n: int, may_fail: bool = True) -> int:
    """Takes its time, so that a kill meets some that run; every fifth that may fail fails, unless it was retried by hand."""
    time.sleep(0.02)
    if may_fail and n % 5 == 4 and not _is_retried(ctx):
        raise Fail(f"no {n}")
    with ctx.transaction() as tx:
        note(ctx, tx, "member")
        tx.complete(n)
    return n


@app.job(processors=100)
async def quick_member(ctx: Context, n: int) -> int:
    """One of thousands; every hundredth fails, unless it was retried by hand."""
    if n % 100 == 7 and not _is_retried(ctx):
        raise Fail(f"no {n}")
    return n


def _is_retried(ctx: Context) -> bool:
    return not ctx.key.startswith(f"{ctx.job_id}:1:")


@app.job(executor="thread", processors=4)
def summary(ctx: Context) -> dict[str, Any]:
    results, failures = list(ctx.parents(int).results()), list(ctx.parents().failures())
    found = {"results": sorted(results), "failures": len(failures)}
    time.sleep(0.05)
    with ctx.transaction() as tx:
        note(ctx, tx, "summary")
        tx.complete(found)
    return found


def served(url: str) -> App:
    """The app on a database."""
    plain = App(url)
    return App.of(app.parts.bound(config=plain.config, store=plain.store))


def main(url: str) -> None:
    bound = served(url)
    engine = bound.worker(Settings(lease=2.0, heartbeat=0.3, margin=0.5, recovery=0.3))
    engine.start()
    print("ready", flush=True)
    sys.stdin.readline()
    engine.stop()
    bound.close()


if __name__ == "__main__":
    main(sys.argv[1])
