"""Rows that no worker can make sense of: each ends with a coded error, those behind it are served, and no worker dies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from chaos.bed import Bed
from chaos.checker import Row, check
from chaos.findings import Findings
from chaos.settings import DEFAULT, STEADY, Leases
from windlass.store.ids import new_id

STORES = ("postgres", "sqlite")
RESULTS = ("object", "nan", "nul", "surrogate", "deep", "huge", "bytes", "cycle", "unprintable", "exit")
ARGUMENTS = (
    '{}', '{"number": "seven"}', '{"number": null}', '{"number": 1.5}', '{"number": 7, "more": 1}', '{"numbr": 7}',
    '{"number": {"deep": [[[]]]}}', '{"": 1}', '[]', '[1, 2]', '"text"', '7', 'null', 'true',
    '{"number": ' + "9" * 5000 + '}', '{"number": "' + "ab" * 100_000 + '"}',
)  # fmt: skip
"""What stands in the table where ``{"number": 7}`` should."""
TEXTS = ("", "{", "nonsense", "[" * 5000, '{"number": NaN}', '{"number": 1, "number": "a"}', "\x01", "\ufffe")
"""What SQLite takes there although it is no JSON."""


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int = 20
    neighbours: int = 3000
    leases: Leases = DEFAULT


LONG = Plan()
SHORT = Plan(rounds=1, neighbours=60, leases=STEADY)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """Two workers; odd rows come first and between good ones, so that these are behind them."""
    odd: dict[str, str] = {}
    for _ in range(plan.rounds):
        odd |= _results(bed) | _rows(bed)
        for kind in ("order", "letter", "note"):
            bed.enqueue(kind, [{}] * (plan.neighbours // plan.rounds // 3))
    workers = bed.children(2, settings=plan.leases.settings)
    findings.holds("drained", True, bed.drained())
    findings.none("workers that ended by themselves", [item for item in workers if item.code is not None])
    codes = [worker.stop() for worker in workers]
    findings.none("workers that did not end with 0", [code for code in codes if code != 0])
    jobs = check(bed, findings, bad=odd.keys())
    findings.least("odd jobs", len(odd), plan.rounds * (len(RESULTS) + len(ARGUMENTS)))
    findings.none(
        "odd jobs without a coded error",
        [f"{what}: {jobs.get(job)}" for job, what in odd.items() if not _is_told(jobs.get(job))],
    )
    findings.none("crashes counted", [job for job in jobs.values() if job.crashes and job.id not in odd])


def _results(bed: Bed) -> dict[str, str]:
    """Jobs whose results cannot be stored."""
    made = bed.enqueue("odd", [{"what": what} for what in RESULTS], max_attempts=2)
    return {job: f"result {what}" for job, what in zip(made, RESULTS, strict=True)}


def _rows(bed: Bed) -> dict[str, str]:
    """Rows written straight to the table, past everything that checks a job."""
    odd: dict[str, str] = {}
    for text in (*ARGUMENTS, *TEXTS) if bed.dialect == "sqlite" else ARGUMENTS:
        odd[_insert(bed, args=text)] = f"arguments {text[:40]!r}"
    odd[_insert(bed, kind="nobody knows")] = "an unknown kind in a phase that is served"
    odd[_insert(bed, kind="", args='{"number": 7}')] = "a kind without a name"
    odd[_insert(bed, kind="x" * 5000)] = "a kind with a very long name"
    odd[_insert(bed, kind="note", args='{"ms": 1}')] = "a kind in another's phase"
    odd[_insert(bed, flags=64)] = "a flag of a later version"
    odd[_insert(bed, flags=32767)] = "every flag there can be"
    odd[_insert(bed, attempt=40, max_attempts=2)] = "more attempts than it may have"
    odd[_insert(bed, attempt=32767, max_attempts=32767)] = "as many attempts as fit"
    odd[_insert(bed, crashes=32767)] = "as many crashes as fit"
    odd[_insert(bed, generation=32767)] = "as many generations as fit"
    odd[_insert(bed, correlation="x" * 100_000)] = "a very long correlation id"
    if bed.dialect == "sqlite":
        odd[_insert(bed, job=f"no-id-{new_id()}")] = "an id that is none"
    odd[_insert(bed, correlation="a\nb\x1b[31m")] = "control characters in the correlation id"
    for moment in _moments(bed):
        odd[_insert(bed, created_at=moment)] = f"made at {moment}"
    for moment in _moments(bed)[:2]:
        odd[_insert(bed, ready_at=moment)] = f"ready at {moment}"
    return odd


def _moments(bed: Bed) -> list[Any]:
    """Times that Python has no datetime for, the past ones first."""
    if bed.dialect == "postgres":
        return ["-infinity", "4000-01-01 BC", "infinity", "20000-01-01"]
    return [-(2**62), -(10**17), 2**62, 10**18]


def _insert(bed: Bed, *, job: str | None = None, **columns: Any) -> str:
    """One row of a job that would be fine but for these columns; its id, which counts as accepted."""
    job = job or new_id()
    now = "clock_timestamp()" if bed.dialect == "postgres" else "CAST(strftime('%s') AS INTEGER) * 1000000"
    values = {"kind": "strict", "phase": "strict", "args": '{"number": "not a number"}', "lane": 4} | {
        "max_attempts": 2,
        **columns,
    }
    names = [*values, *({"created_at", "ready_at"} - values.keys())]
    marks = ", ".join("?" if name in values else now for name in names)
    bed.query(
        f"INSERT INTO {bed.table('job')} (id, {', '.join(names)}) VALUES (?, {marks})",
        [job, *(values[name] for name in names if name in values)],
    )
    bed.query(f"INSERT INTO {bed.table('delta')} (phase, queued) VALUES ('strict', 1)")
    bed.ledger.acknowledge([job])
    return job


def _is_told(job: Row | None) -> bool:
    """Whether a job ended with an error that has a code."""
    return job is not None and job.state == "failed" and bool(json.loads(job.error or "{}").get("code"))
