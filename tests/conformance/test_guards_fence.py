"""Every statement that writes for a holder names (id, token) itself, whatever was checked before it.

The store locks and looks before most of them, so these tests run the verbs directly: one batch with a job that is held
under the token given, one that is held by somebody else, and one that nobody holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tests.conformance.bystanders import Crowd, rows, rows_without
from tests.conformance.life import assert_counts_are_true, claim_one, enqueue, one
from windlass.features import Store
from windlass.model import ASIDE, Completed, Flag, Lease
from windlass.store.ids import new_id


class Batch(NamedTuple):
    """A job of ours, its neighbour under the same token, somebody else's, and one in its queue."""

    mine: Lease
    neighbour: Lease
    theirs: Lease
    queued: str

    def rows(self, **columns: object) -> str:
        """The same write asked for all of them, each time under our token, and once under a token that is nobody's."""
        asked = [
            (self.mine.id, self.mine.token),
            (self.theirs.id, self.mine.token),
            (self.queued, self.mine.token),
        ]
        asked.append((self.neighbour.id, self.theirs.token))
        return json.dumps([{"id": job, "token": token, **columns} for job, token in asked])


@pytest.fixture
def batch(store: Store, crowd: Crowd) -> Iterator[Batch]:
    yield new_batch(store, crowd)
    assert_counts_are_true(store)


def new_batch(store: Store, crowd: Crowd, phase: str = "s") -> Batch:
    enqueue(store, phase, 2)
    mine, neighbour = store.join().claim(phase, 2)
    one(store, "t")
    theirs = claim_one(crowd.keeper, "t")
    return Batch(mine, neighbour, theirs, crowd.ids["released"])


ERROR = {"type": "X", "code": "x", "message": "x"}
WRITES: dict[str, Callable[[Batch], dict[str, Any]]] = {
    "record.lock": lambda b: {"leases": b.rows()},
    "record.finish": lambda b: {"outcomes": b.rows(state="failed", error=ERROR)},
    "record.retry": lambda b: {
        "outcomes": b.rows(delay=1.0, crashed=0, returned=0, begun=1, outcome="retried", error=ERROR)
    },
    "record.advance": lambda b: {"outcomes": b.rows(phase="next", max_attempts=3, outcome="advanced")},
    "record.release": lambda b: {"outcomes": b.rows(returned=0, marks=0, outcome="recovered", error=ERROR)},
    "start": lambda b: {"leases": b.rows()},
    "output.put": lambda b: {"outputs": b.rows(name="n", value=1, next_phase=None, next_max_attempts=None)},
}


def test_a_batch_writes_what_is_held_under_the_token_it_names(store: Store, crowd: Crowd) -> None:
    for verb, parameters in WRITES.items():
        batch = new_batch(store, crowd, f"s.{verb}")
        before = rows_without(store, batch.mine.id)
        answer = store.db.run(verb, **parameters(batch))
        assert [row[0] for row in answer] == [batch.mine.id], verb
        assert rows_without(store, batch.mine.id) == before, verb
    assert_counts_are_true(store)


@pytest.mark.parametrize("verb", ["checkpoint", "checkpoint.flag"])
def test_a_checkpoint_is_written_under_the_token_it_names(store: Store, batch: Batch, verb: str) -> None:
    values = (
        {"done": 1, "total": None, "position": "null", "step": 0, "place": 0} if verb == "checkpoint" else {}
    )
    before = rows_without(store)
    for job_id, token in (
        (batch.theirs.id, batch.mine.token),
        (batch.queued, batch.mine.token),
        (new_id(), 1),
    ):
        assert store.db.run(verb, id=job_id, token=token, **values) == []
    assert rows_without(store) == before
    store.db.run(verb, id=batch.mine.id, token=batch.mine.token, **values)
    assert rows_without(store) != before
    assert rows_without(store, batch.mine.id) == [row for row in before if batch.mine.id not in row]


def test_the_short_way_ends_what_is_held_and_needs_nothing_else(store: Store, batch: Batch) -> None:
    """On SQLite by three statements: history, the live row and counts."""
    store.db.run("checkpoint.flag", id=batch.neighbour.id, token=batch.neighbour.token)
    asked = json.loads(batch.rows(state="completed"))
    asked[-1]["token"] = batch.mine.token  # held under our token, but its end needs the long way
    before = rows_without(store, batch.mine.id)
    finished, _ = store.db.step(
        instance=new_id(),
        outcomes=[Completed(replace(batch.mine, id=row["id"], token=row["token"])) for row in asked],
        aside=int(ASIDE),
        emptied=[],
        wants=[],
        marks=[],
    )
    found = list(finished or [])
    assert found == [batch.mine.id]
    assert rows_without(store, batch.mine.id) == before


def test_a_step_whose_ends_are_all_lost_counts_nothing(store: Store) -> None:
    """Whatever this session inserted before it: here the first row of an empty table, where history has three."""
    holder = store.join()
    enqueue(store, n=4)
    lost, *leases = holder.claim("work", 4)
    holder.record([Completed(lease) for lease in leases])
    store.upkeep.fold()
    one(store, "other")
    finished, _ = store.db.step(
        instance=holder.id,
        outcomes=[Completed(replace(lost, token=lost.token + 1))],
        aside=int(ASIDE),
        emptied=[],
        wants=[],
        marks=[],
    )
    assert list(finished or []) == []
    assert_counts_are_true(store)


def test_a_take_over_is_of_one_job_under_the_token_it_was_found_with(store: Store, batch: Batch) -> None:
    asker = store.join()
    before = rows_without(store)
    stale = {"id": batch.theirs.id, "token": batch.mine.token, "instance": asker.id}
    assert store.db.run("recover.hold", **stale) == []
    assert rows_without(store) == before
    ((token, _),) = store.db.run("recover.hold", id=batch.mine.id, token=batch.mine.token, instance=asker.id)
    assert token > max(batch.mine.token, batch.theirs.token)
    assert rows_without(store, batch.mine.id, asker.id) == [
        row for row in before if batch.mine.id not in row and asker.id not in row
    ]
    (row,) = (row for row in rows(store, "job") if str(row["id"]) == batch.mine.id)
    assert row["token"] == token


def test_what_became_of_an_attempt_is_asked_of_that_attempt(store: Store, batch: Batch, crowd: Crowd) -> None:
    """Another job's end, another attempt's end, and an attempt that recovery ended are all not this one's."""
    ended = store.jobs.get(crowd.ids["completed"])
    done = {str(row["id"]): row["token"] for row in rows(store, "job_done")}
    tried = {(str(row["job"]), row["outcome"]): row["token"] for row in rows(store, "attempt")}
    asked = {
        (batch.mine.id, batch.mine.token): "held",
        (batch.mine.id, batch.theirs.token): "lost",
        (batch.queued, batch.mine.token): "lost",
        (ended.id, done[ended.id]): "already",
        (ended.id, done[crowd.ids["failed"]]): "lost",
        (crowd.ids["queued"], done[ended.id]): "lost",
        (crowd.ids["retrying"], tried[crowd.ids["retrying"], "retried"]): "already",
        (crowd.ids["queued"], tried[crowd.ids["retrying"], "retried"]): "lost",
        (crowd.ids["retrying"], tried[crowd.ids["released"], "recovered"]): "lost",
        (crowd.ids["released"], tried[crowd.ids["released"], "recovered"]): "lost",
    }
    leases = json.dumps([{"id": job, "token": token} for job, token in asked])
    answer = {
        (job, token): standing for job, token, standing in store.db.run("record.resolve", leases=leases)
    }
    assert answer == asked


def test_only_what_is_held_is_asked_to_stop_and_only_what_is_queued_ends_at_once(
    store: Store, batch: Batch, crowd: Crowd
) -> None:
    error = json.dumps(ERROR)
    before = rows_without(store)
    assert store.db.run("cancel.queued", id=batch.mine.id, error=error) == []
    assert store.db.run("cancel.live", id=batch.queued, reason="asked")[0][0] is None
    assert store.db.run("cancel.live", id=crowd.ids["scheduled"], reason="asked") == []
    assert store.db.run("cancel.later", ids=[crowd.ids["scheduled"]], error=error, reasons=["waiting"]) == []
    assert rows_without(store) == before
    store.db.run("cancel.live", id=batch.mine.id, reason="asked")
    assert rows_without(store, batch.mine.id) == [row for row in before if batch.mine.id not in row]


def test_one_instance_removes_its_own_empty_claims(store: Store, batch: Batch, crowd: Crowd) -> None:
    """Not another's, not one that still covers a job, and none that was not named."""
    holder = store.join()
    named, kept = one(store, "c"), one(store, "c2")
    first, second = claim_one(holder, "c"), claim_one(holder, "c2")
    tokens = [first.token, batch.theirs.token]
    store.db.run("unclaim", tokens=[*tokens, second.token], instance=holder.id)
    assert {first.token, second.token, batch.theirs.token} <= _claims(store)
    for lease in (first, second, batch.theirs):
        store.db.run("record.finish", outcomes=_ends(lease))
    before = _claims(store)
    store.db.run("unclaim", tokens=tokens, instance=holder.id)
    assert _claims(store) == before - {first.token}
    assert {named, kept} <= {str(row["id"]) for row in rows(store, "job_done")}


def test_a_checkpoint_that_goes_back_is_refused_beside_one_that_stands_there(
    store: Store, batch: Batch
) -> None:
    """The neighbour under the same token may be at just that place."""

    def is_saved(lease: Lease, done: int, step: int = 0) -> bool:
        values = {"done": done, "total": None, "position": "null", "step": step, "place": 0}
        return bool(store.db.run("checkpoint", id=lease.id, token=lease.token, **values)[0][2])

    assert is_saved(batch.mine, 5) and is_saved(batch.neighbour, 1)
    assert not is_saved(batch.mine, 1)
    assert is_saved(batch.mine, 5), "the same again is no step back …"
    assert not is_saved(batch.mine, 5, step=1), "… but no step on, either"
    assert is_saved(batch.mine, 6, step=1)


def test_a_flag_says_that_the_end_needs_the_long_way(store: Store, batch: Batch) -> None:
    """So the flag must be there whenever there is something to tidy."""
    store.db.run("output.put", outputs=WRITES["output.put"](batch)["outputs"])
    flags = {str(row["id"]): Flag(row["flags"]) for row in rows(store, "job")}
    assert flags[batch.mine.id] & Flag.OUTPUT and not flags[batch.neighbour.id] & Flag.OUTPUT


def test_a_delay_of_one_job_is_its_own(store: Store, batch: Batch) -> None:
    store.db.run("record.retry", **WRITES["record.retry"](batch))
    assert [job.run_at - store.now() for job in (store.jobs.get(batch.mine.id),) if job.run_at] == [
        timedelta(seconds=1)
    ]


def _claims(store: Store) -> set[int]:
    return {row["token"] for row in rows(store, "claim")}


def _ends(lease: Lease) -> str:
    return json.dumps([{"id": lease.id, "token": lease.token, "state": "completed"}])
