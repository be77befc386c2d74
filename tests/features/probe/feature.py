"""Keeps a note for each job that asks for one (``NewJob(extra={"probe": "text"})``), and counts what happens to the job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from windlass.model import Flag, NewJob
from windlass.store.database import Database
from windlass.store.feature import (
    Agenda,
    EndedJob,
    Feature,
    FeatureDuty,
    Insertion,
    MovedJob,
    Recording,
    RetriedJob,
    Retrying,
)
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.enqueue import Inserter

TABLES = {
    "postgres": "CREATE TABLE windlass.probe (job uuid PRIMARY KEY, note text NOT NULL, seen text NOT NULL DEFAULT '', folded boolean NOT NULL DEFAULT FALSE)",
    "sqlite": "CREATE TABLE windlass_probe (job TEXT PRIMARY KEY, note TEXT NOT NULL, seen TEXT NOT NULL DEFAULT '', folded INTEGER NOT NULL DEFAULT 0)",
}


class Probe(Feature):
    """Notes of jobs."""

    name = "probe"
    flag = Flag.EXTRA

    def is_asked(self, job: NewJob) -> bool:
        return "probe" in job.extra

    def check(self, job: CheckedJob) -> CheckedJob:
        return replace(job, flags=job.flags | int(Flag.EXTRA))

    def after_insert(self, call: Insertion, jobs: Sequence[CheckedJob]) -> None:
        notes = [{"job": job.id, "note": job.job.extra["probe"]} for job in jobs if self.is_asked(job.job)]
        if notes:
            call.tx.run("probe.put", notes=json.dumps(notes))

    def on_recorded(
        self, call: Recording, ended: Sequence[EndedJob], moved: Sequence[MovedJob]
    ) -> Sequence[EndedJob]:
        for job in ended:
            call.tx.run("probe.see", id=job.id, what=f" {job.state}")
        for move in moved:
            call.tx.run("probe.see", id=move.id, what=" advanced" if move.is_advanced else " retried")
        return ()

    def on_retried(self, call: Retrying, jobs: Sequence[RetriedJob]) -> None:
        for job in jobs:
            if job.flags & Flag.EXTRA:
                call.tx.run("probe.see", id=job.id, what=" again")

    def duties(self, db: Database, inserter: Inserter, every: float) -> Sequence[FeatureDuty]:
        def fold(_: Agenda) -> None:
            db.run("probe.fold")

        return [FeatureDuty("probe", lambda agenda: agenda.has("unfolded"), fold)]
