"""The worker of the demonstration: what happens to it when the database is busy and its lease is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.errors import StoreBusyError
from windlass.examples.parcels.ledger import Ledger
from windlass.examples.parcels.orders import KIND, PACK
from windlass.examples.parcels.worker import Worker
from windlass.features import open_store
from windlass.model import NewJob, State


def test_a_busy_database_and_a_lost_lease_do_not_end_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write lock was held by others for so long that another worker took the job over: the worker goes on with other jobs."""
    url = f"sqlite:///{tmp_path / 'parcels.db'}"
    with open_store(url) as store:
        worker = Worker(store, Ledger(url))

        def busy(holder, lease) -> None:
            holder.leave()
            store.recovery.recover()  # as if the instance could not have renewed its lease
            assert store.join().claim(PACK, 1), "another worker has the job"
            raise StoreBusyError("the write lock was not available")

        monkeypatch.setattr(worker, "_work", busy)
        job_id = store.enqueue([NewJob(kind=KIND, phase=PACK, args={})])[0].id
        assert worker._serve(PACK) == 1
        assert store.jobs.get(job_id).state is State.PROCESSING, "it stays with the other worker"


def test_a_job_is_given_back_however_long_the_database_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'parcels.db'}"
    with open_store(url) as store:
        worker = Worker(store, Ledger(url))
        refusals = [StoreBusyError("busy")] * 3
        release = worker._holder.release

        def refuse(lease) -> object:
            if refusals:
                raise refusals.pop()
            return release(lease)

        def busy(holder, lease) -> None:
            raise StoreBusyError("busy")

        monkeypatch.setattr(worker, "_work", busy)
        monkeypatch.setattr(worker._holder, "release", refuse)
        job_id = store.enqueue([NewJob(kind=KIND, phase=PACK, args={})])[0].id
        assert worker._serve(PACK) == 1
        assert store.jobs.get(job_id).state is State.QUEUED
