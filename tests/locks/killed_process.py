"""A real process that holds the locks of jobs, for test_take_over.py.

    python -m tests.locks.killed_process worker URL REDIS LEASE        # a worker whose jobs never end
    python -m tests.locks.killed_process request URL REDIS LEASE JOB   # process_request; the first attempt fails, and the pause after it lasts

It writes "begun JOB" when the handler of a job was entered, and "waits" in the pause of a request, which ends when it reads a line.
"""

from __future__ import annotations

import os
import sys
import threading

import windlass
from windlass import App, Context, build


def config(url: str, redis: str, lease: float) -> dict[str, object]:
    """Required locks with the default TTL, which is longer than a test waits."""
    return {
        "worker.lease": lease,
        "worker.heartbeat": 0.5,
        "worker.margin": 0.5,
        "worker.recovery": 0.3,
        "database.url": url,
        "redis.url": redis,
        "background.redis_lock_required": True,
    }


def tell(text: str) -> None:
    """Write a line in one call: handlers run in several threads."""
    os.write(1, f"{text}\n".encode())


def pause(_: float) -> None:
    tell("waits")
    sys.stdin.readline()


def main(role: str, url: str, redis: str, lease: str, job_id: str = "") -> None:
    app = App()

    @app.job(processors=3, retry=windlass.retry.fixed(3, wait=0.01))
    def work(ctx: Context) -> None:
        tell(f"begun {ctx.job_id}")
        if role == "worker":
            threading.Event().wait()
        if ctx.attempt == 1:
            raise ValueError("once more")

    with build(config(url, redis, float(lease)), app=app, sleep=pause) as bg:
        if role == "worker":
            bg.worker().start()
            threading.Event().wait()
        tell(bg.process_request(job_id).status)


if __name__ == "__main__":
    main(*sys.argv[1:])
