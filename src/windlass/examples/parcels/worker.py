"""One worker process: ``python -m windlass.examples.parcels.worker``; the database is in WINDLASS_DATABASE_URL.

It prints ``claimed N`` for each batch. When asked to stop, it finishes the current parcel and gives the others back.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from types import FrameType

from windlass.errors import LeaseLost, StoreUnreachableError
from windlass.examples.parcels.ledger import Ledger
from windlass.examples.parcels.orders import PACK, SHIP
from windlass.examples.parcels.work import AddressUnknownError, pack, ship
from windlass.features import Store, open_store
from windlass.model import JobError, Lease
from windlass.store.jobs.holder import Holder

LEASE = timedelta(seconds=1.5)
BEAT = 0.4
BATCH = 5
UPKEEP_EVERY = 0.25


class Worker:
    """Claims from both phases, the later one first, so that parcels are shipped before new ones are packed."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self._stop = threading.Event()
        self._holder = self._join()
        self._upkeep_at = 0.0

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def run(self) -> None:
        beating = threading.Thread(target=self._beat, daemon=True)
        beating.start()
        listener = self._store.listen()
        try:
            while not self._stop.is_set():
                if time.monotonic() >= self._upkeep_at:
                    self._do_upkeep()
                if not any([self._serve(SHIP), self._serve(PACK)]):
                    self._store.db.wait([PACK, SHIP], 1.0)
                    listener.wait(UPKEEP_EVERY)
        finally:
            self._stop.set()
            beating.join()
            listener.close()
            self._holder.leave()

    def _join(self) -> Holder:
        return self._store.join(lease=LEASE, info={"pid": os.getpid(), "example": "parcels"})

    def _beat(self) -> None:
        """Renew the lease on a separate thread, so that a slow parcel does not lose it."""
        while not self._stop.wait(BEAT):
            try:
                self._holder.beat()
            except LeaseLost:  # the machine was suspended or too busy: other workers took over all jobs
                self._holder = self._join()
            except StoreUnreachableError:  # the database is busy; the next beat may come in time
                continue

    def _do_upkeep(self) -> None:
        self._upkeep_at = time.monotonic() + UPKEEP_EVERY
        self._store.upkeep.promote()
        self._store.dependencies.link()
        self._store.dependencies.settle()
        for item in self._store.recovery.recover():
            round_name = self._store.jobs.get(item.job_id).correlation_id
            self._ledger.note_recovered(round_name, [(item.job_id, item.verdict)])

    def _serve(self, phase: str) -> int:
        holder = self._holder
        leases = list(holder.claim(phase, BATCH, starting=0))
        if leases:
            print(f"claimed {len(leases)}", flush=True)
        for lease in leases:
            with suppress(LeaseLost):  # another worker has the job, and nothing was written here
                self._serve_one(holder, lease)
        return len(leases)

    def _serve_one(self, holder: Holder, lease: Lease) -> None:
        try:
            if self._stop.is_set():
                holder.release(lease)
            elif holder.start([lease]):
                self._work(holder, lease)
        except StoreUnreachableError:  # other processes held the write lock for the rest of the lease
            self._give_back(holder, lease)

    def _give_back(self, holder: Holder, lease: Lease) -> None:
        """Release a job, however long the database is busy; raises LeaseLost."""
        while True:
            with suppress(StoreUnreachableError):
                holder.release(lease)
                return

    def _work(self, holder: Holder, lease: Lease) -> None:
        handler = {PACK: pack, SHIP: ship}[lease.phase]
        try:
            result = handler(lease.args)
        except AddressUnknownError as failure:
            error = JobError(
                type=type(failure).__name__,
                code="address_unknown",
                message=str(failure),
                traceback=traceback.format_exc(),
            )
            # The last attempt of a counted retry is recorded as a failure by the store.
            holder.retry_later(lease, error, timedelta(seconds=0.5))
            return
        with holder.transaction(lease, margin=timedelta(seconds=0.5)) as tx:
            self._ledger.enter(tx.connection, lease, os.getpid())
            if lease.phase == PACK:
                tx.advance(SHIP, result, max_attempts=lease.max_attempts)
            else:
                tx.complete(result)


def main() -> int:
    url = os.environ["WINDLASS_DATABASE_URL"]
    with open_store(url) as store:
        worker = Worker(store, Ledger(url))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, worker.stop)
        worker.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
