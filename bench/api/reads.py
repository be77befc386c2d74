"""Reads over HTTP with a million jobs: lists, filters, one job, the overview; each at most 100 ms at the 95th percentile."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from bench.api.process import serving
from bench.control_fill import Crowd, fill_postgres, fill_sqlite
from bench.control_reads import filters, settle
from bench.load import percentile
from bench.report import Row
from windlass import App
from windlass.store.sqlite.connection import path_of

MOST_MS = 100.0
FILTERS = ("all", "state", "kind", "kind*", "key", "principal", "age", "error", "args", "no such argument", "six terms, nothing")  # fmt: skip


def measure(name: str, url: str, *, jobs: int, rounds: int) -> list[Row]:
    """The milliseconds of each read, and the CPU time of the server for it."""
    crowd = Crowd(jobs)
    with App(url) as app:
        settle(app)
        if url.startswith("sqlite"):
            fill_sqlite(path_of(url), crowd)
        else:
            fill_postgres(url, crowd)
        token = app.tokens.create("bench-reads", ["admin"]).text
    rows: list[Row] = []
    with serving(url) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port)
        for what, path in _paths(crowd).items():
            times, cpu = [], 0.0
            for number in range(rounds + 1):
                began = time.perf_counter()
                client.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                response = client.getresponse()
                response.read()
                if response.status != 200:
                    raise RuntimeError(f"{path}: {response.status}")
                if number:  # the first one prepares statements and reads pages
                    times.append((time.perf_counter() - began) * 1000)
                else:
                    cpu = server.facts()["cpu"]
            spent = (server.facts()["cpu"] - cpu) * 1000 / rounds
            rows.append(
                {
                    "database": name,
                    "read": what,
                    "p50 ms": percentile(times, 0.5),
                    "p95 ms": percentile(times, 0.95),
                    "CPU ms": spent,
                }
            )
    return rows


def broken(rows: Sequence[Row]) -> list[str]:
    """The reads that take too long."""
    return [
        f"{row['read']} on {row['database']}: {row['p95 ms']:.0f} ms at p95; {MOST_MS:g} is the limit"
        for row in rows
        if row["p95 ms"] > MOST_MS
    ]


def _paths(crowd: Crowd) -> Mapping[str, str]:
    known = filters(crowd)
    first, last = crowd.id(0), crowd.id(crowd.jobs - 1)
    return {
        **{f"list {name}": f"/v1/jobs?q={quote(known[name])}" for name in FILTERS},
        **{f"count {name}": f"/v1/jobs/count?q={quote(known[name])}" for name in FILTERS},
        **{f"the {which} job": f"/v1/jobs/{job}" for which, job in (("first", first), ("last", last))},
        "why": f"/v1/jobs/{last}/why",
        "timeline": f"/v1/jobs/{first}/timeline",
        "overview": "/v1/overview",
        "phases": "/v1/phases",
        "failures": "/v1/failures",
        "audit": "/v1/audit",
    }
