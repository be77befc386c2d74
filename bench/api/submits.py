"""Submits over HTTP beside ``enqueue_async`` with as many callers, and beside the least that can submit over HTTP from Python."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import uvloop

from bench.api.clients import load, request
from bench.api.process import ROOT, serving
from bench.report import Row
from windlass import App

BODY = b'{"kind":"noop","arguments":{"number":7}}'
SHARE = 0.5


def measure(name: str, url: str, *, callers: int, seconds: float, rounds: int) -> list[Row]:
    """The rate of each way to submit, and its share of ``enqueue_async``, in turns."""
    with App(url) as app:
        token = app.tokens.create(f"bench-{callers}", ["submit"]).text
    rates: dict[str, list[float]] = defaultdict(list)
    spent: dict[str, list[float]] = defaultdict(list)

    def note(way: str, rate: float, cpu: float) -> None:
        rates[way].append(rate)
        spent[way].append(cpu)

    with serving(url) as api, serving(url, "--bare") as bare:
        for _ in range(rounds):
            for way, options in (("enqueue_async", []), ("enqueue_async with a principal", ["--principal"])):
                found = _callers(url, callers, seconds, *options)
                note(way, found["rate"], found["cpu ms"])
            for way, server in (("bare ASGI", bare), ("API", api)):
                before = server.facts()["cpu"]
                made = request("POST", "/v1/jobs", BODY, token=token)
                done = uvloop.run(load(server.port, callers, seconds, partial(bytes, made)))
                count = len(done.seconds)
                if done.failed or not count:
                    raise RuntimeError(f"{done.failed} submits failed: {done.statuses}")
                note(way, count / seconds, (server.facts()["cpu"] - before) * 1000 / count)
    base = rates["enqueue_async"]
    return [
        {
            "database": name,
            "submits": way,
            "jobs/s": statistics.median(found),
            "of enqueue_async": statistics.median(one / of for one, of in zip(found, base, strict=True)),
            "CPU ms a job": statistics.median(spent[way]),
        }
        for way, found in rates.items()
    ]


def broken(rows: Sequence[Row]) -> list[str]:
    """The databases on which the API has less than the required share."""
    return [
        f"submits on {row['database']} are {row['of enqueue_async']:.2f} of enqueue_async; {SHARE:g} is required"
        for row in rows
        if row["submits"] == "API" and row["of enqueue_async"] < SHARE
    ]


def _callers(url: str, callers: int, seconds: float, *options: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.api.callers", url, str(callers), str(seconds), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
