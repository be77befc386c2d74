"""Rows as earlier schema versions had them, live jobs of every state among them: what an upgrade meets.

The code that wrote such rows is gone, so they are written down here, each with the version that made its table or column. A
later version adds rows and columns, and never changes those of an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.model import Counts


@dataclass(frozen=True)
class At:
    """A time, in seconds from now."""

    seconds: float


def job_id(number: int) -> str:
    return f"01910000-0000-7000-8000-{number:012d}"


INSTANCE = job_id(900)
AUDITED, ENDED_OPERATION, OPEN_OPERATION, REQUEST, TOKEN = map(job_id, range(901, 906))
BOOM = json.dumps(
    {
        "type": "Boom",
        "code": "boom",
        "message": "it broke",
        "phase": "work",
        "attempt": 1,
        "correlation_id": "c",
    }
)
MADE, AGO = At(-600), At(-300)

IDS = {
    name: job_id(number)
    for number, name in enumerate(
        [
            "queued", "urgent", "keyed", "stopped", "parent", "started", "prefetched", "chunked", "stored", "asked to stop",
            "due", "far", "retrying", "inbox", "waiting", "unlinked", "held up", "completed", "idempotent", "failed",
            "cancelled", "mother", "right", "let in", "at the gate", "parked", "debounced", "with a principal", "brief",
            "with headers",
        ],
        start=1,
    )
}  # fmt: skip


def _job(name: str, **columns: Any) -> dict[str, Any]:
    return {
        "id": IDS[name], "created_at": MADE, "ready_at": MADE, "lane": 4, "max_attempts": 3, "kind": "work", "phase": "work", "args": "{}",
        **columns,
    }  # fmt: skip


def _held(name: str, token: int, **columns: Any) -> dict[str, Any]:
    return _job(name, **{"token": token, "claimed_at": AGO, "attempt": 1, "flags": 2, **columns})


def _later(name: str, reason: str, **columns: Any) -> dict[str, Any]:
    row = _job(name, run_at=AGO, reason=reason, **columns)
    del row["ready_at"]
    return row


def _done(name: str, state: str, **columns: Any) -> dict[str, Any]:
    row = _job(
        name,
        finished_at=AGO,
        claimed_at=AGO,
        token=500 + int(IDS[name][-4:]),
        state=state,
        generation=1,
        attempt=1,
        crashes=0,
    )
    del row["ready_at"]
    return {"flags": 0, **row, **columns}


def rows(version: int, body: Callable[[str, str], str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a database of this version: table and columns."""
    for since, table, columns in _every(body):
        if since <= version:
            yield (
                table,
                {
                    name: value[1] if isinstance(value, tuple) else value
                    for name, value in columns.items()
                    if not isinstance(value, tuple) or value[0] <= version
                },
            )


def _every(body: Callable[[str, str], str]) -> list[tuple[int, str, dict[str, Any]]]:
    """Since which version, table, columns; a column that came later is a tuple of its version and its value."""
    ids = IDS
    dep = {"policy": "cancel"}
    key = {"scope": "live", "body_hash": body("work", '{"n": 1}')}
    return [
        (1, "instance", {"id": INSTANCE, "started_at": MADE, "heartbeat_at": AGO, "lease": 10.0}),
        # queued
        (1, "job", _job("queued")),
        (1, "job", _job("urgent", lane=0, args='{"n": 2}', correlation="c-7")),
        (1, "job", _job("keyed", flags=16, args='{"n": 1}')),
        (1, "job_key", {**key, "key": "work:k", "job": ids["keyed"]}),
        (1, "job", _job("stopped", kind="still", phase="still")),
        (1, "phase", {"name": "still", "paused_at": AGO, "reason": "no line"}),
        (1, "job", _job("parent", flags=8)),
        # held by an instance that is dead
        (1, "job", _held("started", 101)),
        (1, "job", _held("prefetched", 101, flags=0)),
        (1, "job", _held("chunked", 102, kind="chunked", phase="chunked", flags=2 | 4)),
        (1, "checkpoint", {
            "job": ids["chunked"], "generation": 1, "token": 102, "done": 5, "total": 10, "at": AGO, "position": '{"chunk": 1}',
        }),
        (1, "job", _held("stored", 103, kind="pipe", phase="pipe:a", flags=2 | 32)),
        (1, "output", {
            "job": ids["stored"], "generation": 1, "phase": "pipe:a", "name": "", "at": AGO, "next_max_attempts": 3,
            "next_phase": "pipe:b", "value": '"from a"',
        }),
        (1, "job", _held("asked to stop", 101, cancel_at=AGO, cancel_reason=(7, "no need"))),
        *((1, "claim", {
            "token": token, "instance": INSTANCE, "at": AGO, "lanes": [4], "los": [MADE], "his": [MADE], "phase": phase,
        }) for token, phase in ((101, "work"), (102, "chunked"), (103, "pipe:a"))),
        # later
        (1, "job_later", _later("due", "scheduled")),
        (1, "job_later", {**_later("far", "scheduled"), "run_at": At(86400)}),
        (1, "job_later", _later("retrying", "retry", attempt=1, started_at=AGO)),
        (1, "attempt", {
            "job": ids["retrying"], "token": 90, "started_at": AGO, "ended_at": AGO, "generation": 1, "attempt": 1,
            "outcome": "retried", "phase": "work", "error": BOOM, "instance": (2, INSTANCE), "processor": (2, 1),
            "waited_ms": (2, 5), "ran_ms": (2, 9),
        }),
        (1, "job_later", _later("inbox", "inbox")),
        (1, "job_later", _later("waiting", "waiting", pending=1)),
        (1, "job_dep", {**dep, "parent": ids["parent"], "child": ids["waiting"]}),
        (1, "job_later", _later("unlinked", "unlinked", pending=1)),
        (1, "job_dep", {**dep, "parent": ids["completed"], "child": ids["unlinked"]}),
        (1, "job_later", _later("held up", "waiting", pending=1)),
        (1, "job_dep", {
            "policy": "wait", "parent": ids["failed"], "child": ids["held up"], "parent_state": "failed", "parent_ended_at": AGO,
        }),
        # ended
        (1, "job_done", _done("completed", "completed", result='{"answer": 42}', instance=(2, INSTANCE), ran_ms=(2, 7))),
        (1, "job_done", _done("idempotent", "completed", args='{"n": 1}')),
        (1, "job_key", {**key, "scope": "idempotent", "key": "work:i", "job": ids["idempotent"], "expires_at": At(86400)}),
        (1, "job_done", _done(
            "failed", "failed", error=BOOM, traceback="Traceback …", kind="chunked", phase="chunked", flags=4 | 32,
            progress='{"done": 5, "total": 10, "position": {"chunk": 1}}', outputs='[{"phase": "chunked", "name": "part", "value": 1}]',
        )),
        (1, "job_done", _done("cancelled", "cancelled", error='{"type": "Cancelled", "code": "cancelled", "message": "enough"}')),
        (3, "rollup", {
            "minute": At(0), "instance": INSTANCE, "wait_ms_sum": 1, "run_ms_sum": 1, "completed": 1, "failed": 0, "retried": 0,
            "cancelled": 0, "released": 0, "phase": "work", "wait": "[1]", "run": "[1]",
        }),
        (4, "schedule", {
            "name": "nightly", "created_at": MADE, "updated_at": MADE, "next_at": AGO, "jitter": 0.0, "cap": 1, "lane": 4,
            "max_attempts": 3, "missed": "once", "kind": "ticked", "phase": "ticked", "expression": "0 0 1 1 *", "tz": "UTC",
            "source": "api", "definition": "d", "args": "{}",
        }),
        (5, "rule", {
            "name": "one", "defined_at": MADE, "changed_at": MADE, "lane": 4, "max_attempts": 3, "inherit": True, "policy": "cancel",
            "kind": "child", "phase": "child", "source": "api", "parents": ["mother"], "key": [], "args": '{"n": "args.n"}',
        }),
        (5, "rule", {
            "name": "both", "defined_at": MADE, "changed_at": MADE, "lane": 4, "max_attempts": 3, "inherit": True, "policy": "cancel",
            "kind": "child", "phase": "child", "source": "api", "parents": ["left", "right"], "key": ["args.n"],
            "args": '{"n": "args.n"}',
        }),
        *((5, "rule_kind", {"kind": kind, "since": MADE, "looks": 2}) for kind in ("mother", "left", "right")),
        (5, "job", _job("mother", kind="mother", phase="mother", flags=64, args='{"n": 1}')),
        (5, "job", _job("right", kind="right", phase="right", flags=64, args='{"n": 2}')),
        (5, "fan_in", {"opened_at": AGO, "missing": 1, "rule": "both", "key": "[2]"}),
        (5, "rule_hit", {
            "parent": job_id(800), "at": AGO, "fan_in": 1, "round": 1, "generation": 1, "counts": True, "asked": False, "rule": "both",
            "kind": "left", "state": "completed", "data": '{"n": 2}',
        }),
        (6, "flow", {"phase": "tight", "told_at": MADE, "filled_at": MADE, "tokens": 0.0, "lim": 1}),
        (6, "gate", {"phase": "tight", "key": "", "used_at": AGO, "admitted": 1}),
        *((6, "job_limit", {"job": ids[name], "phase": "tight", "key": "", "lim": 1, "admitted": name == "let in"})
          for name in ("let in", "at the gate", "parked")),
        (6, "job", _job("let in", kind="tight", phase="tight", flags=128)),
        (6, "job_later", _later("at the gate", "limited", kind="tight", phase="tight", flags=128, gate="")),
        (6, "job_later", _later("parked", "limited", kind="tight", phase="tight", flags=128)),
        (6, "job_later", {**_later("debounced", "scheduled"), "run_at": At(86400)}),
        (6, "job_key", {
            "scope": "debounce", "key": "work:d", "job": ids["debounced"], "body_hash": body("work", "{}"), "expires_at": At(99999),
        }),
        (8, "job", _job("with a principal", kind="asked", phase="asked", flags=256)),
        (8, "principal", {"job": ids["with a principal"], "alive_at": MADE, "claims": '{"subject": "ada", "roles": ["see"]}'}),
        (13, "job", _job("brief", flags=2048)),
        (13, "expiry", {"job": ids["brief"], "expires_at": At(86400)}),
        (13, "schedule", {
            "name": "often", "created_at": MADE, "updated_at": MADE, "next_at": At(86400), "jitter": 0.0, "cap": 1, "lane": 4,
            "max_attempts": 3, "missed": "once", "kind": "ticked", "phase": "ticked", "expression": "every 87000 s", "tz": "UTC",
            "source": "api", "definition": "d", "args": "{}", "every": 87000.0, "expires": 60.0,
        }),
        (14, "job", _job("with headers", flags=4096)),
        (14, "job_headers", {"job": ids["with headers"], "headers": '{"traceparent": "00-1"}'}),
        (15, "rule", {
            "name": "sorry", "defined_at": MADE, "changed_at": MADE, "lane": 4, "max_attempts": 3, "inherit": True, "policy": "cancel",
            "kind": "child", "phase": "child", "source": "api", "parents": ["mother"], "key": [], "args": "{}", "event": "failure",
        }),
        (16, "turn", {"name": "operations", "holder": INSTANCE, "until": AGO}),
        *_of_control(),
    ]  # fmt: skip


def _of_control() -> list[tuple[int, str, dict[str, Any]]]:
    """What the control service, the API and handlers' log lines leave in the database."""
    actor = {"actor": "ada", "subject": "ada", "issuer": "us", "tenant": "north"}
    return [
        (17, "audit", {
            **actor, "id": AUDITED, "at": AGO, "act": "job.cancel", "target": "job", "name": IDS["cancelled"], "reason": "enough",
            "before": '{"state": "queued"}', "after": '{"state": "cancelled"}',
        }),
        (17, "operation", {
            **actor, "id": ENDED_OPERATION, "created_at": MADE, "updated_at": AGO, "finished_at": AGO, "after": job_id(0), "matched": 2,
            "is_exact": True, "done": 1, "refused": 1, "state": "done", "act": "cancel", "filter": "kind:work", "reason": "tidy up",
            "scope": '{"sees": "all", "subject": null, "issuer": null, "tenant": null}', "options": "{}",
            "refusals": f'[{{"job": "{IDS["completed"]}", "code": "has_ended", "message": "it has ended"}}]',
        }),
        (17, "operation", {
            **actor, "id": OPEN_OPERATION, "created_at": MADE, "updated_at": AGO, "after": "f" * 8 + "-ffff-ffff-ffff-" + "f" * 12,
            "matched": 0, "is_exact": True, "state": "running", "act": "cancel", "filter": "kind:nothing", "reason": "tidy up",
            "scope": '{"sees": "all", "subject": null, "issuer": null, "tenant": null}', "options": "{}", "refusals": "[]",
        }),
        (17, "instance_request", {
            "id": REQUEST, "instance": INSTANCE, "at": AGO, "done_at": AGO, "number": 4.0, "state": "done", "act": "resize", "phase": "work",
            "actor": "ada", "reason": "more", "outcome": "it had 2",
        }),
        (17, "board", {"instance": INSTANCE, "at": AGO, "processors": '{"phases": {}}'}),
        (17, "watch", {"id": 1, "until": AGO}),
        (17, "job_log", {
            "job": IDS["failed"], "token": 7, "part": 0, "at": AGO, "attempt": 1, "phase": "chunked",
            "lines": '[[1700000000.5, "WARNING", "shop", "it is late"]]',
        }),
        (17, "rollup_span", {
            "seconds": 3600, "at": At(-7200), "wait_ms_sum": 3, "run_ms_sum": 4, "completed": 5, "failed": 1, "retried": 0, "cancelled": 0,
            "released": 0, "phase": "work", "wait": "[6]", "run": "[6]",
        }),
        (18, "request_key", {
            "scope": "ada", "key": "order 7", "created_at": AGO, "body_hash": "h", "response": '{"id": 7}',
        }),
        (19, "api_token", {
            "id": TOKEN, "created_at": MADE, "expires_at": At(86400), "last_used_at": AGO, "name": "deploy", "hash": "0" * 64,
            "subject": "ada", "issuer": "us", "tenant": "north", "created_by": "app", "roles": '["submit"]',
        }),
    ]  # fmt: skip


_STATES = {"scheduled": "scheduled", "retry": "scheduled", "inbox": "queued"}


def counts(filled: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Counts]:
    """How many jobs of which state each phase has in these rows."""
    found: dict[str, dict[str, int]] = {}
    for table, row in filled:
        if table == "job":
            state = "processing" if row.get("token") else "queued"
        elif table == "job_later":
            state = _STATES.get(row["reason"], "waiting")
        elif table == "job_done":
            state = row["state"]
        else:
            continue
        phase = found.setdefault(row["phase"], {})
        phase[state] = phase.get(state, 0) + 1
    return {phase: Counts(**states) for phase, states in found.items()}


def statements(dialect: str, filled: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """The rows, and the counts that belong to them, as INSERTs."""
    told = [
        ("tally", {"phase": phase, **{name: getattr(found, name) for name in Counts.__dataclass_fields__}})
        for phase, found in counts(filled).items()
    ]
    for table, row in [*filled, *told]:
        columns = [name for name in row if dialect == "postgres" or name not in ("lanes", "los", "his")]
        values = ", ".join(_spelt(dialect, table, name, row[name]) for name in columns)
        prefix = "windlass." if dialect == "postgres" else "windlass_"
        yield f"INSERT INTO {prefix}{table} ({', '.join(columns)}) VALUES ({values})"


def _spelt(dialect: str, table: str, column: str, value: Any) -> str:
    if isinstance(value, At):
        if column == "minute":
            return "date_trunc('minute', now())" if dialect == "postgres" else "unixepoch() / 60 * 60000000"
        if table == "rollup_span":
            hour = "date_trunc('hour', now())" if dialect == "postgres" else "unixepoch() / 3600 * 3600000000"
            return f"{hour} {_offset(dialect, value)}"
        now = "now()" if dialect == "postgres" else "unixepoch() * 1000000"
        return f"{now} {_offset(dialect, value)}"
    if column == "lease":
        return f"interval '{value} seconds'" if dialect == "postgres" else str(int(value * 1_000_000))
    if isinstance(value, list):
        if dialect == "sqlite":
            return f"'{json.dumps(value)}'"
        cast = {"lanes": "smallint", "los": "timestamptz", "his": "timestamptz"}.get(column, "text")
        return f"ARRAY[{', '.join(_spelt(dialect, table, column, item) for item in value)}]::{cast}[]"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def _offset(dialect: str, at: At) -> str:
    return (
        f"+ interval '{at.seconds} seconds'" if dialect == "postgres" else f"+ {int(at.seconds * 1_000_000)}"
    )
