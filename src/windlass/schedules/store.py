"""Schedules: jobs that are made at certain times.

A tick fires in ONE transaction: the schedule's row is locked and says what is due by the database's clock; the ticks' rows are
inserted, whose key is (schedule, due time); the schedule moves on to its next due time; and the jobs are inserted through the
enqueuer like any others. So a due time makes one job however many instances scan, and a process that dies in between leaves
nothing behind but a tick that is still due.

Next due times are made in Python (see windlass.schedules.cron) from the database's time, inside that transaction or guarded by the
definition's generation. Due times of a pause are not missed: a resumed schedule goes on with the next one.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from windlass.errors import (
    ConfigError,
    ScheduleConflictError,
    ScheduleNotFoundError,
    StoreError,
    WindlassError,
)
from windlass.model import (
    HIGHEST_PRIORITY,
    Defined,
    Enqueued,
    Fired,
    Json,
    Missed,
    NewSchedule,
    Schedule,
    Tick,
)
from windlass.model.principal import Principal
from windlass.schedules import cron
from windlass.schedules.checking import check_schedule, definition
from windlass.schedules.plan import Plan, job_of, plan_ticks
from windlass.schedules.times import times_of
from windlass.store.database import LATER, Also, Database, Row, Transaction, nothing
from windlass.store.jobs.checked import check
from windlass.store.jobs.enqueue import Enqueuer
from windlass.store.jobs.rows import array, clean
from windlass.store.validators import is_name

API = "api"
CRON = "cron:"
"""Begins the name of the service that a schedule's jobs run as, unless it says another."""
MAX_REASON = 1000
KEPT_TICKS = 100
MOST_JOBS = 2000
"""The most ticks in one transaction, about: many schedules with many missed ticks must not become one long commit."""

_LOOKS = 5
LEFT_FOR = 600.0
"""Seconds for which a schedule whose zone is not known here is left to other instances; then it is tried again."""


class Schedules:
    """Defines, fires, shows, pauses and resumes schedules."""

    def __init__(
        self, db: Database, enqueuer: Enqueuer, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = db
        self._enqueuer = enqueuer
        self._monotonic = monotonic
        self._left: dict[str, tuple[float, str]] = {}

    # ------------------------------------------------------------------ defining

    def put(self, schedule: NewSchedule) -> Schedule:
        """Add a schedule, or change the one of that name; not one that belongs to code. The next due time stays what it was
        unless the times themselves are others."""
        text = self._row(check_schedule(schedule), self._db.now())

        def work(tx: Transaction) -> None:
            for found in map(self._schedule, tx.run("schedule.list", name=schedule.name)):
                if found.source != API and found.gone_at is None and schedule.source == API:
                    raise ScheduleConflictError(found.name, found.source)
            tx.run("schedule.put", schedules=array([text]))
            self._db.notify(tx, [LATER])

        self._db.transact(work)
        return self.get(schedule.name)

    def define(self, schedules: Sequence[NewSchedule], modules: Collection[str] = ()) -> Defined:
        """Make the schedules in the database those of the code: add schedules, change them, and stop those that are gone from ``modules``,
        the modules of this code. If they are the same already, nothing is written. One that was paused stays paused."""
        wanted = {schedule.name: check_schedule(schedule) for schedule in schedules}
        if not self._differs(self._known(self._db.read), wanted, modules):
            return Defined()
        now = self._db.now()
        rows = array(self._row(schedule, now) for _, schedule in sorted(wanted.items()))

        def work(tx: Transaction) -> Defined:
            known = self._known(tx.run)
            put = tx.run("schedule.put", schedules=rows) if wanted else []
            lost = [name for name, row in known.items() if _is_gone_from_code(row, name, wanted, modules)]
            gone = tx.run("schedule.mark_gone", names=lost) if lost else []
            self._db.notify(tx, [LATER])
            return Defined(
                tuple(name for name, _ in put if name not in known),
                tuple(name for name, _ in put if name in known),
                tuple(row[0] for row in gone),
            )

        return self._db.transact(work)

    def _known(self, run: Any) -> dict[str, tuple[Schedule, str]]:
        """Every schedule with the hash of its definition."""
        return {row[0]: (self._schedule(row), row[14]) for row in run("schedule.list", name=None)}

    @staticmethod
    def _differs(
        known: Mapping[str, tuple[Schedule, str]], wanted: Mapping[str, NewSchedule], modules: Collection[str]
    ) -> bool:
        return any(_is_gone_from_code(row, name, wanted, modules) for name, row in known.items()) or any(
            name not in known or known[name][0].gone_at is not None or known[name][1] != definition(schedule)
            for name, schedule in wanted.items()
        )

    def _row(self, schedule: NewSchedule, now: datetime) -> str:
        """A checked schedule as a JSON row, with its first due time after ``now``."""
        facts = {
            "name": schedule.name,
            "next_at": self._first_at(schedule, now),
            "every": _seconds(schedule.every),
            "expires": _seconds(schedule.expires),
            "jitter": schedule.jitter.total_seconds(),
            "cap": schedule.cap,
            "lane": HIGHEST_PRIORITY - schedule.priority,
            "max_attempts": schedule.max_attempts,
            "missed": schedule.missed,
            "kind": schedule.kind,
            "phase": schedule.phase,
            "expression": schedule.expression,
            "tz": schedule.tz,
            "source": schedule.source,
            "definition": definition(schedule),
            "correlation": schedule.correlation_id,
            "due_as": schedule.due_as,
        }
        principal = "null" if schedule.principal is None else schedule.principal.to_json()
        return f'{json.dumps(facts)[:-1]},"args":{schedule.args},"principal":{principal}}}'

    def _first_at(self, schedule: NewSchedule, now: datetime) -> Any:
        """The first due time after ``now``; that of an interval is made by the database, which knows when the schedule was created."""
        if schedule.every is not None or schedule.expression is None:
            return None
        return self._db.stamp(cron.parse(schedule.expression, schedule.tz).next_after(now))

    # ------------------------------------------------------------------ reading

    def list(self) -> list[Schedule]:
        """All schedules by name."""
        return [self._schedule(row) for row in self._db.read("schedule.list", name=None)]

    def get(self, name: str) -> Schedule:
        """One schedule."""
        rows = self._db.read("schedule.list", name=name) if is_name(name) else []
        if not rows:
            raise self._unknown(name)
        return self._schedule(rows[0])

    def ticks(self, name: str, limit: int = 10) -> Sequence[Tick]:
        """The last ticks of a schedule that fired, newest first; the last hundred are kept."""
        return [
            Tick(schedule, self._db.moment(at), self._db.moment(fired_at), job, covers)
            for schedule, at, fired_at, job, covers in self._db.read("tick.list", name=name, limit=limit)
        ]

    def tick_in(self) -> float | None:
        """Seconds until the next tick is due, by the database's clock; None when no schedule fires."""
        seconds: float | None = self._db.read("fire.next", without=sorted(self.left()))[0][0]
        return seconds

    def left(self) -> dict[str, str]:
        """Schedules that were due and that this process leaves to others for a while, each with the reason."""
        now = self._monotonic()
        self._left = {name: item for name, item in self._left.items() if now < item[0]}
        return {name: reason for name, (_, reason) in self._left.items()}

    def _unknown(self, name: str) -> ScheduleNotFoundError:
        near = difflib.get_close_matches(
            str(name), [row[0] for row in self._db.read("schedule.list", name=None)], 1
        )
        return ScheduleNotFoundError(name, near[0] if near else None)

    # ------------------------------------------------------------------ acting

    def pause(self, name: str, reason: str, *, also: Also = nothing) -> Schedule:
        """Stop a schedule; jobs it made go on. Due times until it is resumed make no jobs. ``also`` writes in the transaction of an act."""
        if not reason.strip():
            raise ConfigError("reason", reason, "a short reason shown to operators")

        def work(tx: Transaction) -> bool:
            is_paused = bool(tx.run("schedule.pause", name=name, reason=clean(reason.strip(), MAX_REASON)))
            if is_paused:
                also(tx)
            return is_paused

        if not is_name(name) or not self._db.transact(work):
            raise self._unknown(name)
        return self.get(name)

    def resume(self, name: str, *, also: Also = nothing) -> bool:
        """Let a paused schedule fire again, from its next due time on; False when it was not paused."""
        for _ in range(_LOOKS):
            found = self.get(name)
            if found.paused_at is None:
                return False
            next_at = times_of(found).next_after(self._db.now())
            if self._db.transact(partial(self._resume, name, next_at, found.generation, also)):
                return True
        raise StoreError(f"schedule {name} is being changed all the time; nothing was changed, try again")

    def _resume(self, name: str, next_at: datetime, generation: int, also: Also, tx: Transaction) -> bool:
        is_resumed = bool(tx.run("schedule.resume", name=name, next_at=next_at, generation=generation))
        if is_resumed:
            also(tx)
        self._db.notify(tx, [LATER])
        return is_resumed

    def run_now(self, name: str, *, also: Also = nothing) -> Enqueued:
        """Make one job of a schedule now, paused or not; its due times stay as they are."""
        entries = check([job_of(self.get(name), self._db.now())])

        def work(tx: Transaction) -> Enqueued:
            also(tx)
            return self._enqueuer.insert(tx, entries, inbox=False, is_repeat=False, is_ours=True)[0]

        return self._db.transact(work)

    def remove(self, name: str, *, also: Also = nothing) -> None:
        """Remove a schedule and what is known of its ticks; jobs it made stay. One that code defines comes back when a worker
        with that code starts."""

        def work(tx: Transaction) -> bool:
            is_removed = bool(tx.run("schedule.remove", name=name))
            if is_removed:
                also(tx)
            return is_removed

        if not is_name(name) or not self._db.transact(work):
            raise self._unknown(name)

    # ------------------------------------------------------------------ firing

    def fire_due(self, limit: int = 100) -> Sequence[Fired]:
        """Make the jobs of due schedules; returns the result for each schedule. Call again while something is due."""
        if not self._db.is_worth("fire"):
            return []
        return self._db.transact(partial(self._fire, limit))

    def prune_ticks(self, keep: int = KEPT_TICKS) -> int:
        """Remove all but the newest ticks of every schedule; returns how many were removed."""
        return int(self._db.transact(lambda tx: tx.run("tick.prune", keep=keep))[0][0])

    def _fire(self, limit: int, tx: Transaction) -> Sequence[Fired]:
        picked = tx.run("fire.pick", limit=limit, without=sorted(self.left()))
        if not picked:
            return []
        now = self._db.moment(picked[0][-1])
        plans: list[Plan] = []
        refused: list[Fired] = []
        for schedule in (self._schedule(row[:-1]) for row in picked):
            try:
                plans.append(plan_ticks(schedule, now))
            except cron.UnknownZoneError as error:
                reason = f"its times cannot be computed here: {error}; other instances fire it. Install newer time zones (tzdata)"
                self._left[schedule.name] = self._monotonic() + LEFT_FOR, reason
                refused.append(Fired(schedule.name, schedule.phase, (), left=reason))
            except (WindlassError, ValueError, TypeError) as error:
                # A row that no verb of ours made must not stop the others.
                reason = clean(f"it cannot fire: {error}", MAX_REASON)
                tx.run("schedule.pause", name=schedule.name, reason=reason)
                refused.append(Fired(schedule.name, schedule.phase, (), refused=reason))
            if sum(len(plan.ticks) for plan in plans) >= MOST_JOBS:
                break  # the others are still due
        self._note(tx, plans)
        if plans:
            tx.run("fire.move", moves=array(self._move_row(plan) for plan in plans))
        # Last: on PostgreSQL a claim's low-water mark depends on a short time between this statement and the commit.
        entries = [entry for plan in plans for entry in plan.entries]
        if entries:
            self._enqueuer.insert(tx, entries, inbox=False, is_repeat=False, is_ours=True)
        return [*(plan.fired() for plan in plans), *refused]

    def _note(self, tx: Transaction, plans: Sequence[Plan]) -> None:
        """Insert the ticks; a tick that exists already has fired before, and makes no second job."""
        ticks = [tick for plan in plans for tick in plan.ticks]
        if ticks:
            rows = tx.run("fire.ticks", ticks=array(map(self._tick_row, ticks)))
            new = {(name, self._db.moment(at)) for name, at in rows}
            for plan in plans:
                plan.keep(new)

    def _move_row(self, plan: Plan) -> str:
        last = plan.ticks[-1] if plan.ticks else None
        return json.dumps(
            {
                "name": plan.schedule.name,
                "next_at": self._db.stamp(plan.due.next_at),
                "last_at": self._db.stamp(last.at) if last else None,
                "last_job": last.job_id if last else None,
                "skipped": plan.due.skipped,
            }
        )

    def _tick_row(self, tick: Tick) -> str:
        return json.dumps(
            {
                "schedule": tick.schedule,
                "at": self._db.stamp(tick.at),
                "fired_at": self._db.stamp(tick.fired_at),
                "job": tick.job_id,
                "covers": tick.covers,
            }
        )

    def _schedule(self, row: Row) -> Schedule:
        (
            name, kind, phase, args, expression, tz, missed, cap, jitter, lane, max_attempts, correlation, due_as, source, _,
            generation, created, updated, next_at, last_at, last_job, paused, reason, gone, skipped, principal, every, expires,
        ) = row  # fmt: skip
        moment = self._db.moment
        return Schedule(
            name=name,
            kind=kind,
            phase=phase,
            expression=expression,
            tz=tz,
            args_json=Json(args),
            missed=Missed(missed),
            cap=cap,
            jitter=timedelta(seconds=jitter),
            priority=HIGHEST_PRIORITY - lane,
            max_attempts=max_attempts,
            correlation_id=correlation,
            due_as=due_as,
            source=source,
            principal=Principal.service(f"{CRON}{name}")
            if principal is None
            else Principal.from_json(principal),
            generation=generation,
            created_at=moment(created),
            updated_at=moment(updated),
            next_at=moment(next_at),
            last_at=moment(last_at),
            last_job=last_job,
            paused_at=moment(paused),
            pause_reason=reason,
            gone_at=moment(gone),
            skipped=skipped,
            every=None if every is None else timedelta(seconds=every),
            expires=None if expires is None else timedelta(seconds=expires),
        )


def _seconds(span: timedelta | float | None) -> float | None:
    return span.total_seconds() if isinstance(span, timedelta) else span


def _is_gone_from_code(
    row: tuple[Schedule, str], name: str, wanted: Mapping[str, NewSchedule], modules: Collection[str]
) -> bool:
    """Whether a schedule was defined by one of these modules, and is not any more."""
    schedule = row[0]
    return name not in wanted and schedule.gone_at is None and schedule.source.partition(":")[0] in modules
