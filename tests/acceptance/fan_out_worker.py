"""One engine as a real process, for test_fan_out.py: runs a parent with many children, and lets them know in small pages.

    python -m tests.acceptance.fan_out_worker URL [PAGES]

With PAGES it is killed inside the transaction of the page after so many. It says "ready" when it serves, and ends when it is told something.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from windlass import App, Context
from windlass.dependencies import linking as dependencies
from windlass.store.database import Transaction

PAGE = 5


def die_after(pages: int) -> None:
    """Be killed with one more page written and not committed."""
    promote, seen = dependencies.promote, list[int]()

    def promote_or_die(tx: Transaction, due: Sequence[str]) -> None:
        promote(tx, due)
        seen.append(len(due))
        if len(seen) > pages:
            os.kill(os.getpid(), signal.SIGKILL)

    dependencies.promote = promote_or_die


def main(url: str, pages: int | None = None) -> None:
    dependencies.PAGE = PAGE
    if pages is not None:
        die_after(pages)
    app = App(url)

    @app.job(name="parent")
    def parent() -> None: ...

    @app.job(name="child")
    def child(ctx: Context) -> None:
        with ctx.transaction() as tx:
            mark = "?" if url.startswith("sqlite") else "%s"
            tx.connection.execute(f"INSERT INTO ran (job) VALUES ({mark})", (ctx.job_id,))

    engine = app.worker(lease=2.0, heartbeat=0.5, margin=0.5)
    engine.start()
    print("ready", flush=True)
    sys.stdin.readline()
    engine.stop()
    app.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
