"""The dashboard in a real Chromium: how soon each page can be used with a million jobs, what an open page costs, and what further ones cost.

The server is a process of its own, and so is the worker. Time of scripts and layout, heap and bytes are the browser's own counters. Statements are
counted in the server, not timed: a busy machine does not change them.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from bench.api.process import ServerProcess, serving
from bench.control import server, sqlite
from bench.control_fill import Crowd
from bench.limited import make
from bench.load import percentile
from bench.report import Row, say, show
from bench.waiting import worker
from windlass.model import NewJob

MOST_MS, MOST_BYTES = 1_000, 150_000
MOST_GROWTH, MOST_SCRIPT_MS, MOST_RENDERS = 0.10, 100.0, 4.0
RATE = 1_000
"""Jobs a second while a page is open."""
WARM = 20.0
"""Seconds after which the heap of an open page counts: charts and caches are filled."""
READY = "body:has(h1):has(.live):not(:has(.skeleton))"


def run(*, jobs: int, seconds: float, boards: int, rounds: int, output: Path | None) -> bool:
    """Measure; returns whether every limit was kept."""
    rows: list[Row] = []
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage", "--js-flags=--expose-gc"])  # fmt: skip
        for open_database in (sqlite, server):
            say(f"filling {jobs:,} jobs")
            crowd = Crowd(jobs)
            with open_database(crowd) as (name, url), serving(url, "--dashboard") as process:
                base = f"http://127.0.0.1:{process.port}"
                say(f"{name}: pages")
                rows += [{"database": name, **row} for row in _pages(browser, base, crowd, rounds)]
                say(f"{name}: a page that is open at {RATE:,} jobs/s for {seconds:g} s")
                with worker(url), feeding(url):
                    rows.append({"database": name, **_open(browser, base, seconds)})
                say(f"{name}: statements of 1 and of {boards} boards")
                rows.append({"database": name, **_many(browser, base, process, boards)})
        browser.close()
    show(f"The dashboard, {jobs:,} jobs; {rounds} loads of each page", rows, output)
    return all(row["holds"] == "yes" for row in rows)


def _pages(browser: Browser, base: str, crowd: Crowd, rounds: int) -> Iterator[Row]:
    ended = crowd.id(crowd.ended - 1)
    paths = ("/", "/pipelines", "/pipelines/noop", "/jobs", "/jobs?q=state:failed", f"/jobs/{ended}", "/failures", "/schedules", "/processors", "/operations", "/audit", "/system")  # fmt: skip
    for path in paths:
        times, sizes = [], []
        for _ in range(rounds):
            with page_of(browser) as (page, cdp):
                sent = [0]
                cdp.send("Network.enable")
                cdp.on("Network.loadingFinished", lambda event, sent=sent: sent.__setitem__(0, sent[0] + event["encodedDataLength"]))  # fmt: skip
                began = time.perf_counter()
                page.goto(f"{base}{path}", wait_until="commit")
                page.wait_for_selector(READY, state="attached")
                times.append((time.perf_counter() - began) * 1000)
                sizes.append(sent[0])
        median, size = percentile(times, 0.5), percentile(sizes, 0.5)
        name = path if crowd.id(crowd.ended - 1) not in path else "/jobs/ID"
        yield {"what": name, "usable ms": median, "bytes": round(size), "holds": _said(median <= MOST_MS and size <= MOST_BYTES)}  # fmt: skip


def _open(browser: Browser, base: str, seconds: float) -> Row:
    with page_of(browser) as (page, cdp):
        cdp.send("Performance.enable")
        page.goto(f"{base}/")
        page.wait_for_selector(READY, state="attached")
        page.wait_for_timeout(min(WARM, seconds) * 1000)
        before, renders, began = _used(cdp), page.evaluate("windlass.renders.count"), time.monotonic()
        page.wait_for_timeout(seconds * 1000)
        after, took = _used(cdp), time.monotonic() - began
        renders = (page.evaluate("windlass.renders.count") - renders) / took
    growth = after["JSHeapUsedSize"] / before["JSHeapUsedSize"] - 1
    names = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    script = sum(after[name] - before[name] for name in names) * 1000 / took
    kept = growth <= MOST_GROWTH and script <= MOST_SCRIPT_MS and renders <= MOST_RENDERS
    return {
        "what": "open page",
        "heap growth": growth,
        "script+layout ms/s": script,
        "renders/s": renders,
        "holds": _said(kept),
    }


def _many(browser: Browser, base: str, process: ServerProcess, boards: int) -> Row:
    """Statements a second that the server sends for one open board, and for many: tabs of one browser have six connections to a server, so each
    board has a context of its own."""
    figures = []
    contexts: list[BrowserContext] = []
    for count in (1, boards):
        while len(contexts) < count:
            context = browser.new_context()
            contexts.append(context)
            page = context.new_page()
            page.goto(f"{base}/", wait_until="commit")
            page.wait_for_selector(READY, state="attached")
        time.sleep(2)
        before, began = sum(process.facts()["reads"].values()), time.monotonic()
        time.sleep(15)
        figures.append((sum(process.facts()["reads"].values()) - before) / (time.monotonic() - began))
    for context in contexts:
        context.close()
    one, many = figures
    return {"what": f"{boards} boards", "statements/s, one": one, "statements/s, many": many, "holds": _said(many <= 1.1 * one)}  # fmt: skip


@contextmanager
def page_of(browser: Browser) -> Iterator[tuple[Page, CDPSession]]:
    """A page of a browser that has seen nothing yet."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    try:
        yield page, context.new_cdp_session(page)
    finally:
        context.close()


@contextmanager
def feeding(url: str) -> Iterator[None]:
    """Submits a thousand jobs a second."""
    app, _ = make(url, None, 1)
    stop = threading.Event()

    def feed() -> None:
        with app:
            while not stop.wait(0.1):
                app.store.enqueue([NewJob(kind="noop") for _ in range(RATE // 10)])

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _used(cdp: CDPSession) -> dict[str, Any]:
    """The counters of the page after a forced collection."""
    for _ in range(3):
        cdp.send("HeapProfiler.collectGarbage")
    found = cdp.send("Performance.getMetrics")
    return {one["name"]: one["value"] for one in json.loads(json.dumps(found["metrics"]))}


def _said(holds: bool) -> str:
    return "yes" if holds else "NO"
