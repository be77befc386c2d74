"""A worker process that dies with one of its jobs: ``python -m tests.transactions.crash_worker URL PHASE``."""

from __future__ import annotations

import sys
import time

from tests.engine.shop import QUICK
from tests.transactions.crash_jobs import THE_FIVE_JOBS
from windlass.app.app import App


def main(url: str, phase: str) -> None:
    app = App(url, settings=QUICK)
    for handler in THE_FIVE_JOBS:
        app.job(name=handler.__name__, processors=1)(handler)
    app.worker(phases=(phase,), lease=6.0).start()  # what others wait for when this process has died
    time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
