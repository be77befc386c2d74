"""Checkpoints: the saved position of a long job, fenced; within an attempt it never goes back."""

from __future__ import annotations

import json
from typing import Any

from windlass.errors import ConfigError, LeaseLost
from windlass.model import Flag, Lease, Progress, is_chunk_place
from windlass.ranges import is_whole
from windlass.store.database import Database, Transaction
from windlass.store.jobs.rows import json_text


def save(
    tx: Transaction,
    lease: Lease,
    *,
    done: int,
    total: int | None,
    position: Any,
    must_go_on: bool | None = None,
) -> bool:
    """Save a held job's position; True when the job was asked to stop.

    A ``done`` below the saved one is refused: it would repeat work that is committed, or show people a bar that shrinks. A new attempt
    may begin again, as long as only progress was saved. A position that is saved with effects (``must_go_on`` is given), or by a chunk
    loop, is a place: no later attempt goes back behind it.
    ``must_go_on`` refuses the same ``done``, too: with effects in the same commit, it would be a chunk that was done before. A job
    that saves positions only never says how much is done, and is not held to it.
    """
    if not is_whole(done, 0, 2**62) or (total is not None and not is_whole(total, 0, 2**62)):
        raise ConfigError("progress", (done, total), "whole numbers from 0")
    if total is not None and total < done:
        raise ConfigError("progress", (done, total), because="done must be from 0 to total")
    rows = tx.run(
        "checkpoint",
        id=lease.id,
        token=lease.token,
        done=done,
        total=total,
        position=json_text(position, "position"),
        step=int(bool(must_go_on) and done > 0),
        place=int(must_go_on is not None or is_chunk_place(position)),
    )
    if not rows:
        raise LeaseLost(f"checkpoint of job {lease.id}", job_id=lease.id, token=lease.token)
    flags, cancel_asked, saved = rows[0]
    if not saved:
        raise ConfigError(
            "progress",
            (done, total),
            f"a checkpoint of job {lease.id} at or after the one saved before (in a transaction: after it); progress never goes back within an "
            "attempt, nor behind what a transaction or a chunk loop saved in an earlier one: begin where ctx.resume() says",
        )
    if not flags & Flag.CHECKPOINT:
        tx.run("checkpoint.flag", id=lease.id, token=lease.token)
    return bool(cancel_asked)


def load(db: Database, job_id: str) -> Progress | None:
    """The saved position of a job, or None if it starts at the beginning."""
    rows = db.read("checkpoint.get", id=job_id)
    if not rows:
        return None
    done, total, position, at = rows[0]
    return Progress.stored(done, total, None if position is None else json.loads(position), db.moment(at))
