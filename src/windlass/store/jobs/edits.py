"""Changes the arguments and the priority of a job that has not begun."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from windlass.errors import ActRefusedError, EditConflictError, JobNotFoundError
from windlass.model import HIGHEST_PRIORITY, Flag, Job, JobLimit, Json, State, has_flag, version_of
from windlass.store.database import LATER, Also, Row, Transaction, nothing
from windlass.store.feature import EditedJob, edited
from windlass.store.ids import is_id
from windlass.store.jobs.acts import TRIES, Acts, too_fast
from windlass.store.jobs.rows import to_job

BEGUN = Flag.STARTED | Flag.SUSPECT | Flag.RECOVERED
"""Flags of a job that was run, or may have been, although no attempt is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change of a job. ``args`` and ``priority`` are None where they stay; ``version`` is what the job was read with, None for any.

    ``limits`` are the limits that the arguments lead to now, by the code of the job's kind, and ``limits_before`` those that the arguments
    before led to: a stored limit whose key is none of the latter was given by the submitter, and stays.
    """

    args: Json | None = None
    priority: int | None = None
    version: str | None = None
    limits_before: Sequence[JobLimit] = ()
    limits: Sequence[JobLimit] = ()


class Edits(Acts):
    """Changes jobs that have not begun."""

    def edit(self, job_id: str, edit: Edit, *, also: Also = nothing) -> Job:
        """Change arguments or priority of a job that has not begun: it is queued, scheduled or waiting, and this generation of it was never run.

        ``EditConflictError`` if the job was changed since it was read; ``ActRefusedError`` if it has begun, and where something that was
        derived from its arguments cannot be derived anew. A change to what the job has already changes nothing.
        """
        for _ in range(TRIES):
            rows = self._db.transact(partial(self._edit, job_id, edit, also))
            if rows:
                return to_job(self._db, rows[0])
        raise too_fast(job_id, "edited")

    def prioritize_in(self, tx: Transaction, job_id: str, priority: int) -> bool:
        """Change the priority of a job; False if it was in the middle of a move, and nothing was changed."""
        return self.edit_in(tx, job_id, Edit(priority=priority)) is not None

    def _edit(self, job_id: str, edit: Edit, also: Also, tx: Transaction) -> Sequence[Row]:
        is_changed = self.edit_in(tx, job_id, edit)
        if is_changed is None:
            return ()
        if is_changed:
            also(tx)
        return tx.run("get", id=job_id)

    def edit_in(self, tx: Transaction, job_id: str, edit: Edit) -> bool | None:
        """Change a job; False if it had all of this already, None if it was in the middle of a move."""
        if not is_id(job_id):
            raise JobNotFoundError(job_id)
        live = tx.run("edit.live", id=job_id)
        rows = live or tx.run("edit.later", id=job_id)
        if not rows:
            state = self._job(tx, job_id).state
            if state.is_final:
                raise ActRefusedError(job_id, "edit", state, "it has ended; submit a new job")
            return None
        lane, generation, flags, kind, phase, reason, args, is_held, is_begun = rows[0]
        state = _state(reason, is_held=bool(is_held))
        if is_held or is_begun or has_flag(flags, int(BEGUN)):
            why = (
                "it has begun; only a job that was not run yet can be changed. Cancel it and submit a new job"
            )
            raise ActRefusedError(job_id, "edit", state, why)
        stored = version_of(args, generation, HIGHEST_PRIORITY - lane)
        if edit.version is not None and edit.version != stored:
            raise EditConflictError(job_id, edit.version, stored)
        new_lane = lane if edit.priority is None else HIGHEST_PRIORITY - edit.priority
        is_new = edit.args is not None and json.loads(edit.args) != json.loads(args)
        if not is_new and new_lane == lane:
            return False
        if is_new:
            _refuse_results(job_id, state, flags)
            changed = EditedJob(job_id, kind, phase, flags, state, reason, edit.limits_before, edit.limits)
            edited(tx, changed)
        verb = "edit.put_live" if live else "edit.put_later"
        if not tx.run(verb, id=job_id, args=edit.args if is_new else None, lane=new_lane):
            return None  # belt: the row is locked
        if new_lane != lane:
            # A queued job keeps its time, in another lane, where it may be behind the low-water marks.
            self._db.notify(tx, [phase if live else LATER], nudge=bool(live))
        return True


def _state(reason: str | None, *, is_held: bool) -> State:
    if reason is None:
        return State.PROCESSING if is_held else State.QUEUED
    if reason in ("scheduled", "retry"):
        return State.SCHEDULED
    return State.QUEUED if reason == "inbox" else State.WAITING


def _refuse_results(job_id: str, state: State, flags: int) -> None:
    """Refuse new arguments for a job that goes on from what the arguments before led to."""
    if has_flag(flags, int(Flag.CHECKPOINT | Flag.OUTPUT)):
        why = (
            "an earlier run saved a position or outputs, which come from the arguments as they are, and the job goes on from these; "
            "submit a new job with the other arguments"
        )
        raise ActRefusedError(job_id, "edit", state, why)
