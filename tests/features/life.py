"""The life of jobs with a feature that is not Windlass's own: ``python -m tests.features.life URL``; prints what became of it as JSON.

In a process of its own, because a registered feature is there for every store of the process.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import NamedTuple

from tests.features.probe.feature import TABLES, Probe
from windlass.clock import ManualClock
from windlass.features import Store, open_store
from windlass.model import Advanced, JobError, Json, NewJob, Retention, Retried
from windlass.store.feature import register
from windlass.store.jobs.holder import Holder
from windlass.upkeep.agenda import Agenda
from windlass.upkeep.recoverer import Recoverer

register(Probe())


class Fixed(NamedTuple):
    """An instance whose holder is never replaced."""

    holder: Holder


BOOM = JobError(type="Boom", code="boom", message="it broke")


def main(url: str) -> None:
    clock = ManualClock()
    with open_store(url, clock=clock) as store:
        store.upkeep.maintain()
        create_table(url, store)
        holder = store.join(lease=timedelta(seconds=30))
        jobs = [
            NewJob(kind="work", extra={"probe": "mine"}),
            NewJob(kind="work"),
            NewJob(kind="two", extra={"probe": "two"}),
        ]
        mine, plain, moved = (answer.id for answer in store.enqueue(jobs))
        # ended and retried by hand, by an attempt and by the next phase
        first, second = sorted(holder.claim("work", 2), key=lambda lease: lease.id != mine)
        assert (first.id, second.id) == (mine, plain)
        holder.record([Retried(first, BOOM, timedelta(0))])
        holder.complete(second)
        (lease,) = holder.claim("two", 1)
        holder.record([Advanced(lease, "two:b", Json("1"), 3)])
        store.upkeep.promote()
        (lease,) = holder.claim("work", 1)
        holder.complete(lease)
        store.jobs.retry(mine)
        # recovered: the instance dies while it holds the job
        dying = store.join(lease=timedelta(seconds=30))
        (lease,) = dying.claim("work", 1)
        dying.start([lease])
        clock.advance(timedelta(seconds=31))
        holder.beat()
        store.recovery.recover(holder=holder)
        (lease,) = holder.claim("work", 1)
        assert lease.id == mine
        holder.complete(lease)
        # the duty
        recoverer = Recoverer(
            store,
            instance=Fixed(holder),
            phases={},
            death_cap=10,
            record=lambda outcome: None,
            in_thread=lambda work: work(),
            on_recovered=lambda recovered: None,
        )
        agenda = Agenda(store, recoverer, every=5.0, on_promoted=lambda phase, count: None)
        before = store.upkeep.agenda().has("unfolded")
        agenda.run()
        seen = [list(row) for row in store.db.run("probe.all")]
        # pruned: its row goes with the job
        clock.advance(timedelta(days=400))
        store.upkeep.prune(Retention(completed=timedelta(days=1)))
        left = [row[0] for row in store.db.run("probe.all")]
        print(
            json.dumps(
                {
                    "seen": {row[1]: row[2] for row in seen},
                    "folded": [before, all(row[3] for row in seen)],
                    "left": left == [moved],
                }
            )
        )


def create_table(url: str, store: Store) -> None:
    if store.db.dialect == "sqlite":
        import sqlite3

        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(TABLES["sqlite"])
        connection.close()
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection_:
        connection_.execute(TABLES["postgres"].encode())


if __name__ == "__main__":
    main(sys.argv[1])
