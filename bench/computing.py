"""``python -m bench.computing``: a process that computes, by itself or as the handler of jobs, and prints one JSON line.

Each call computes for about 5 ms of CPU time and never waits, so threads only get into each other's way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click

from bench.load import fill
from windlass import App
from windlass.engine.tuning import tune_process
from windlass.features import open_store

ROOT = Path(__file__).parent.parent
CALL_SECONDS = 0.005


def compute(loops: int) -> int:
    total = 0
    for number in range(loops):
        total += number * number
    return total


def loops_of_a_call() -> int:
    """How many loops take 5 ms here: the fastest of some tries, as other programs slow down the others."""
    tries = []
    for _ in range(10):
        began = time.thread_time()
        compute(20_000)
        tries.append(time.thread_time() - began)
    return int(20_000 * CALL_SECONDS / min(tries))


def measure(url: str, calls: int, processes: int, loops: int, *, bare: bool) -> dict[str, float]:
    """Calls a second of some processes that begin together, and their CPU milliseconds a call."""
    if not bare:
        with open_store(url) as store:
            store.upkeep.maintain()
            fill(store, 2 * calls * processes, kind="compute")  # none waits for the last of the others
    command = [
        sys.executable,
        "-m",
        "bench.computing",
        url,
        str(calls),
        str(loops),
        *(["--bare"] if bare else []),
    ]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()  # ready
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        told: list[dict[str, Any]] = [json.loads(one.communicate(timeout=600)[0]) for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    handled = sum(facts["handled"] for facts in told)
    seconds = max(facts["ended"] for facts in told) - min(facts["began"] for facts in told)
    return {"rate": handled / seconds, "cpu_ms": sum(facts["cpu"] for facts in told) / handled * 1000}


@click.command()
@click.argument("url")
@click.argument("calls", type=int)
@click.argument("loops", type=int)
@click.option("--bare", is_flag=True, help="A loop in the main thread, without Windlass.")
def main(url: str, calls: int, loops: int, bare: bool) -> None:
    """Run CALLS calls and end."""
    done, enough, lock = [0], threading.Event(), threading.Lock()
    times: list[float] = []
    app = App(url)

    @app.job(name="compute")
    def handler(user_id: int, text: str) -> None:
        with lock:
            times.append(time.time())
        compute(loops)
        with lock:
            done[0] += 1
            if done[0] >= calls:
                enough.set()

    print("ready", flush=True)
    sys.stdin.readline()
    cpu = time.process_time()
    if bare:
        times.append(time.time())
        for _ in range(calls):
            compute(loops)
        done[0] = calls
    else:
        tune_process()
        app.worker().start()
        enough.wait(600)
    ended = time.time()
    spent, handled = time.process_time() - cpu, done[0]
    print(json.dumps({"handled": handled, "began": times[0], "ended": ended, "cpu": spent}), flush=True)
    os._exit(0)  # the jobs that are left are not waited for


if __name__ == "__main__":
    main()
