"""A million jobs in all states, straight into the tables: history first, then jobs that wait, then the queue, as their ids have it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from windlass.observe.report import BUCKETS
from windlass.store.postgres import partitions

DAYS = 10
KINDS = ("report", "welcome", "invoice", "sync", "export")
RARE = "rare"
INSTANCE = "01900000-0000-7000-8000-00000000beef"
BATCH = "01900000-0000-7000-8000-0000000ba7c4"
MEMBERS = 10_000
_HELD_BY_ONE = 100

ENDED = (
    "id, created_at, finished_at, claimed_at, token, lane, generation, attempt, crashes, max_attempts, flags, state, kind, phase, "
    "key, args, error, instance"
)
LATER = "id, created_at, run_at, lane, max_attempts, reason, pending, kind, phase, args"
AUDIT = "id, at, actor, subject, tenant, act, target, name, reason"
ROLLUP = "minute, instance, wait_ms_sum, run_ms_sum, completed, failed, retried, cancelled, released, phase, wait, run"
ROLLUP_SPAN = ROLLUP.replace("minute, instance", "seconds, at")
OPERATION = "id, created_at, updated_at, finished_at, after, matched, is_exact, state, act, filter, actor, scope, options, refusals"
LIVE = "id, created_at, ready_at, token, claimed_at, lane, attempt, max_attempts, kind, phase, args"
Row = tuple[Any, ...]


def _counted(table: str, **columns: str) -> str:
    """Counts the rows of a table by phase, as enqueues and ends would have."""
    sums = ", ".join(f"sum(CASE WHEN {condition} THEN 1 ELSE 0 END)" for condition in columns.values())
    return f"INSERT INTO windlass.delta (phase, {', '.join(columns)}) SELECT phase, {sums} FROM windlass.{table} GROUP BY phase"


COUNTS = (
    _counted("job", queued="token IS NULL", processing="token IS NOT NULL"),
    _counted("job_later", waiting="reason = 'waiting'", scheduled="reason = 'scheduled'"),
    _counted(
        "job_done",
        completed="state = 'completed'",
        failed="state = 'failed'",
        cancelled="state = 'cancelled'",
    ),
)


@dataclass(frozen=True)
class Crowd:
    """How many jobs of each kind of place; a tenth of the ended jobs failed or were cancelled, a fifth of all jobs have a principal."""

    jobs: int

    @property
    def ended(self) -> int:
        return self.jobs * 6 // 10

    @property
    def later(self) -> int:
        return self.jobs // 10

    @property
    def live(self) -> int:
        return self.jobs - self.ended - self.later

    def id(self, number: int) -> str:
        return f"01910000-{number >> 12 & 0xFFFF:04x}-7{number & 0xFFF:03x}-8000-{number:012x}"

    def rows(self, stamp: Callable[[datetime], Any]) -> Iterator[tuple[str, str, Iterator[Row]]]:
        """For each table its name, its columns and its rows."""
        now = datetime.now(UTC)
        yield "job_done", ENDED, self._ended(now, stamp)
        yield "job_later", LATER, self._later(now, stamp)
        yield "job", LIVE, self._live(now, stamp)
        yield "principal", "job, alive_at, claims", self._principals(now, stamp)
        yield "audit", AUDIT, self._audit(now, stamp)
        yield "rollup", ROLLUP, self._minutes(now, stamp)
        yield "rollup_span", ROLLUP_SPAN, self._spans(now, stamp)
        yield "operation", OPERATION, self._operations(now, stamp)
        yield "job_dep", "parent, child, policy", ((self.id(n), BATCH, "run") for n in self._members())

    def _members(self) -> range:
        return range(min(MEMBERS, self.ended))

    def _ended(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        for n in range(self.ended):
            at = stamp(now - timedelta(days=DAYS - 1) * (1 - n / self.ended))
            state = "completed" if n % 10 else "failed" if n % 20 else "cancelled"
            error = None
            if state != "completed":
                error = json.dumps(
                    {"type": "ValueError" if n % 30 else "KeyError", "code": "exception", "message": "no"}
                )
            kind = RARE if n % 200_000 == 10 else KINDS[n % len(KINDS)]
            key = f"key-{n}" if n % 100 == 0 else None
            yield (
                self.id(n), at, at, at, 1, n % 10, 1, 1 + n % 3, 0, 3, 0, state, kind, kind, key, _args(n), error, INSTANCE,
            )  # fmt: skip

    def _later(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        at, due = stamp(now), stamp(now + timedelta(days=1))
        for n in range(self.ended, self.ended + self.later):
            reason, pending = ("scheduled", 0) if n % 2 else ("waiting", 1)
            kind = KINDS[n % len(KINDS)]
            yield (self.id(n), at, due, n % 10, 3, reason, pending, kind, kind, _args(n))
        yield (BATCH, at, due, 4, 3, "waiting", len(self._members()), KINDS[0], KINDS[0], _args(0))

    def _live(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        first = self.ended + self.later
        for n in range(first, self.jobs):
            is_held = n - first < self.live // 300
            at = stamp(now + timedelta(microseconds=n))
            token = 1 + (n - first) // _HELD_BY_ONE if is_held else None
            kind = KINDS[(token or n) % len(KINDS)]  # a claim is of one phase
            yield (
                self.id(n),
                at,
                at,
                token,
                at if is_held else None,
                4,
                int(is_held),
                3,
                kind,
                kind,
                _args(n),
            )

    def _principals(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        at = stamp(now)
        for n in range(0, self.jobs, 5):
            subject = "visitor" if n in self.of_visitor else f"user-{n // 5 % 1000}"
            claims = {
                "subject": subject,
                "tenant": f"tenant-{n // 5 % 20}" if subject != "visitor" else "small",
            }
            yield (self.id(n), at, json.dumps(claims))

    def _audit(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        """Records of jobs that operations retried, and after them a few of each other actor and target."""
        count = self.jobs * 3 // 10
        for n in range(count):
            actor, tenant = ("visitor", "small") if n % 100_000 == 7 else ("olga", f"tenant-{n % 20}")
            target = ("phase", "schedule")[n % 2] if n % 10_000 == 8 else "job"
            at = now - timedelta(days=DAYS) * (1 - n / count)
            yield (
                self._at(at, n),
                stamp(at),
                actor,
                actor,
                tenant,
                f"{target}.retry",
                target,
                self.id(n),
                "mended",
            )

    def _operations(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        at = stamp(now)
        for n in range(2000):
            yield (
                self.id(n), at, at, at, self.id(0), 100, _flag(at), "done", "retry", "state:failed", "olga",
                '{"sees": "all"}', "{}", "[]",
            )  # fmt: skip

    def _minutes(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        """A week of minutes for each kind."""
        last = now.replace(second=0, microsecond=0)
        for n in range(7 * 24 * 60 * self.jobs // 1_000_000):
            at = stamp(last - timedelta(minutes=n))
            for kind in KINDS:
                yield (at, INSTANCE, 9, 9, 9, 1, 1, 0, 0, kind, *_histograms(kind, n))

    def _spans(self, now: datetime, stamp: Callable[[datetime], Any]) -> Iterator[Row]:
        """The hours of 90 days, and the days of two years."""
        for seconds, count in ((3600, 90 * 24), (86_400, 730)):
            last = datetime.fromtimestamp(now.timestamp() // seconds * seconds, UTC)
            for n in range(count):
                at = stamp(last - timedelta(seconds=seconds * n))
                for kind in KINDS:
                    yield (seconds, at, 9, 9, 9, 1, 1, 0, 0, kind, *_histograms(kind, n))

    def _at(self, moment: datetime, number: int) -> str:
        milliseconds = f"{int(moment.timestamp() * 1000):012x}"
        return f"{milliseconds[:8]}-{milliseconds[8:]}-7000-8000-{number:012x}"

    @property
    def of_visitor(self) -> Sequence[int]:
        """The three jobs of one user among all."""
        return (0, self.jobs // 10 * 5, self.jobs // 10 * 9)

    @property
    def claims(self) -> int:
        """Rows of claims that the processing jobs have."""
        return 1 + self.live // 300 // _HELD_BY_ONE


def _histograms(kind: str, number: int) -> tuple[str, str]:
    """How long some thousand jobs of a phase waited and ran, in every bucket; no two of a table are the same."""
    first = (KINDS.index(kind) * 20_000 + number) * 2
    return _histogram(first), _histogram(first + 1)


def _histogram(number: int) -> str:
    return json.dumps(
        [number * (bucket + 3) % 997 + bucket for bucket in range(BUCKETS - 2)]
        + [number // 997, number % 997]
    )


def _args(number: int) -> str:
    return json.dumps({"user": {"id": number % 1000, "name": f"user {number % 1000}"}, "text": "x" * 80})


def fill_sqlite(path: str, crowd: Crowd) -> None:
    """Fill a migrated file."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for table, columns, rows in crowd.rows(lambda at: int(at.timestamp() * 1_000_000)):
            marks = ", ".join("?" * len(columns.split(",")))
            connection.executemany(f"INSERT INTO windlass_{table} ({columns}) VALUES ({marks})", rows)
        for token in range(1, crowd.claims + 1):
            connection.execute(
                "INSERT INTO windlass_claim (token, instance, at, phase) VALUES (?, ?, 0, 'report')",
                (token, INSTANCE),
            )
        for text in COUNTS:
            connection.execute(text.replace("windlass.", "windlass_"))
    connection.close()


def fill_postgres(url: str, crowd: Crowd) -> None:
    """Fill a migrated database."""
    with psycopg.connect(url, autocommit=True) as connection:
        for day in range(DAYS + 1):
            partitions.ensure(connection, around=(datetime.now(UTC) - timedelta(days=day)).date())
        for table, columns, rows in crowd.rows(lambda at: at):
            with (
                connection.cursor() as cursor,
                cursor.copy(f"COPY windlass.{table} ({columns}) FROM STDIN".encode()) as copy,
            ):
                for row in rows:
                    copy.write_row(row)
        connection.execute(
            "INSERT INTO windlass.claim (token, instance, at, lanes, los, his, phase) "
            "SELECT j.token, %s, min(j.claimed_at), '{4}', ARRAY[min(j.ready_at)], ARRAY[max(j.ready_at)], min(j.phase) "
            "FROM windlass.job AS j WHERE j.token IS NOT NULL GROUP BY j.token",
            (INSTANCE,),
        )
        for text in COUNTS:
            connection.execute(text.encode())
        connection.execute("VACUUM ANALYZE")


def _flag(stamped: Any) -> Any:
    """TRUE, as the database whose times these are has it."""
    return True if isinstance(stamped, datetime) else 1
