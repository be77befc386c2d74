"""All screens: what they hold, how they look in both themes and on a phone, and text that tries to be more than text."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.dashboard.board import Board
from tests.dashboard.conftest import Open
from tests.dashboard.hostile import EVERY, HOSTILE
from tests.dashboard.screens import AXE, nodes, ready, serious, sideways
from tests.waiting import PATIENCE, eventually
from windlass.model import After, NewJob
from windlass.model.principal import Principal

pytestmark = [pytest.mark.timing, pytest.mark.one_database]
IS_LONG = bool(os.environ.get("WINDLASS_TEST_LONG"))
SCREENS = {
    "/": "Overview",
    "/pipelines": "Pipelines",
    "/pipelines/invoice": "invoice",
    "/pipelines/order-intake": "order-intake",
    "/jobs": "Jobs",
    "/failures": "Failures",
    "/schedules": "Schedules",
    "/processors": "Processors",
    "/operations": "Operations and audit",
    "/audit": "Operations and audit",
    "/system": "System",
}


@pytest.fixture(scope="module")
def filled(board: Board) -> dict[str, str]:
    """A board with jobs in many states and with hostile texts in all fields that users fill."""
    board.app.enqueue("invoice", number=1, customer="Brandt KG")
    board.app.enqueue("order-intake", order=1)
    unsteady = board.app.enqueue("unsteady", host="model-api")
    failed = [
        board.app.enqueue("fragile", customer=1, note=text) for text in (EVERY if IS_LONG else HOSTILE[:8])
    ]
    texts = EVERY if IS_LONG else HOSTILE
    named = board.app.store.enqueue([greeting(text) for text in texts])
    held = board.app.enqueue("hold", name=HOSTILE[0])
    ids = [*(job.id for job in failed), *(job.id for job in named)]
    eventually(lambda: all(board.app.jobs.get(one).state.is_final for one in ids))
    eventually(lambda: board.app.jobs.get(unsteady.id).error)
    board.app.phases.pause("nightly_ledger", HOSTILE[0])
    board.app.schedules.pause("nightly_ledger", HOSTILE[1])
    board.app.jobs.cancel(held.id, HOSTILE[2])
    board.app.jobs.retry_many(f"id:{named[0].id}", reason=HOSTILE[3]).wait(60)
    for text in HOSTILE[:5]:
        board.app.deploys.mark(text[:200])
    every = {f"named {n}": job.id for n, job in enumerate(named)} | {
        f"failed {n}": job.id for n, job in enumerate(failed)
    }
    few = {
        "failed": failed[0].id,
        "failed with a long word": failed[7].id,
        "named": named[3].id,
        "retry": unsteady.id,
        "cancelled": held.id,
    }
    return {**few, **every} if IS_LONG else few


def greeting(text: str) -> NewJob:
    """A job with a text in its arguments, its result and its log, and in the names that allow it."""
    name = "".join(one if one.isprintable() else " " for one in text).strip()[
        :200
    ]  # names have to be printable
    return NewJob(
        kind="greet",
        args={"name": text, "note": text},
        principal=Principal(name, tenant=name) if name else None,
        correlation_id=name or None,
    )


def test_each_screen_is_accessible_in_both_themes_and_fits_a_phone(
    filled: dict[str, str], open_page: Open
) -> None:
    page = open_page("/", as_="admin", color_scheme="light", reduced_motion="reduce")
    base = page.url.rstrip("/")
    found = {}
    jobs = {f"/jobs/{filled[name]}": None for name in ("failed", "retry", "cancelled")}
    for path, title in {**SCREENS, **jobs}.items():
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(base + path)
        ready(page, title)
        assert not sideways(page), path
        page.evaluate(AXE)
        problems = serious(page)
        page.keyboard.press("t")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        problems += [f"dark: {one}" for one in serious(page)]
        page.keyboard.press("t")
        if problems:
            found[path] = problems
        page.set_viewport_size({"width": 360, "height": 740})
        page.wait_for_timeout(50)
        assert not sideways(page), f"{path} on a phone"
    assert found == {}


def test_hostile_texts_are_texts(board: Board, filled: dict[str, str], open_page: Open) -> None:
    page = open_page("/jobs?q=kind:greet", as_="admin")
    base = board.url
    for path in (
        "/jobs?q=kind:greet",
        "/jobs?q=kind:fragile",
        *(f"/jobs/{job}" for job in filled.values()),
        *(f"/jobs/{filled['named']}?tab={tab}" for tab in ("logs", "events", "raw")),
        "/failures",
        "/schedules",
        "/operations",
        "/audit",
        "/system",
        "/processors",
        "/pipelines/hold",
        "/pipelines/greet",
        "/",
    ):
        page.goto(base + path)
        ready(page)
        assert page.evaluate("window.owned") is None, path
        assert page.locator("img, iframe, object, main script").count() == 0, path
        assert not sideways(page), path
    page.goto(f"{base}/jobs/{filled['named']}")
    expect(page.locator("h1")).to_contain_text(HOSTILE[3][:20])


def test_a_hostile_address_is_a_text_too(board: Board, open_page: Open, faults: list[str]) -> None:
    page = open_page("/jobs/%3Cimg%20src%3Dx%20onerror%3Downed%3D1%3E")
    expect(page.locator("h1")).to_be_visible()
    page.goto(f"{board.url}/pipelines/%22%3E%3Cscript%3Eowned=1%3C%2Fscript%3E?phase=%3Csvg%20onload%3D1%3E")
    expect(page.locator("h1")).to_contain_text("<script>")
    assert page.evaluate("window.owned") is None
    faults.clear()  # there is no such job


def test_the_service_s_metrics_are_all_on_the_system_screen(board: Board, open_page: Open) -> None:
    page = open_page("/system", as_="admin")
    ready(page, "System")
    text = page.evaluate(f"fetch('{board.url}/metrics').then(r => r.text())")
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# HELP ")]
    assert names
    shown = page.locator(".metrics")
    for name in names:
        expect(shown).to_contain_text(name)


def test_a_graph_of_five_hundred_jobs_is_folded(board: Board, open_page: Open) -> None:
    kinds = ("invoice", "order-intake", "nobody", "else")
    board.app.phases.pause("hold", "test of graphs")
    first = board.app.store.enqueue([NewJob(kind="hold", args={"name": "split"})])[0].id
    parts = board.app.store.enqueue([NewJob(kind=kinds[n % 4], after=[After(first)]) for n in range(500)])
    (last,) = board.app.store.enqueue([NewJob(kind="greet", after=[After(one.id) for one in parts])])
    page = open_page(f"/jobs/{first}")
    graph = page.locator(".graph")
    expect(graph.locator(".node")).to_have_count(6)
    expect(graph.locator(".node", has_text="order-intake")).to_contain_text("× 125")
    expect(graph.locator(".lines path")).to_have_count(8)
    assert nodes(page) < 3000
    page.goto(f"{board.url}/jobs/{last.id}")
    graph.get_by_role("link", name="125 jobs of invoice, waiting").click()
    expect(page.locator(".jobs tbody tr").first).to_be_visible()
    board.app.jobs.cancel(first, "over")
    board.app.phases.resume("hold")


def test_a_job_of_many_chunks_is_a_small_page(board: Board, open_page: Open) -> None:
    total = 5000 if IS_LONG else 500
    job = board.app.enqueue("slices", total=total)
    assert board.app.handle(job.id).wait(10 * PATIENCE) == "completed"
    page = open_page(f"/jobs/{job.id}")
    expect(page.locator(".head .pill")).to_have_text("completed")
    expect(page.locator(".hero")).to_contain_text(
        f"of {total // 1000}\u202f000" if total > 999 else f"of {total}"
    )
    assert nodes(page) < 3000


def test_what_happens_next_is_a_sentence_in_every_state(
    board: Board, filled: dict[str, str], open_page: Open
) -> None:
    app = board.app
    done = app.enqueue("greet", name="ends")
    held = app.enqueue("hold", name="runs")
    eventually(
        lambda: app.jobs.get(done.id).state == "completed" and app.jobs.get(held.id).state == "processing"
    )
    made = app.store.enqueue(
        [
            NewJob(kind="unserved"),
            NewJob(kind="greet", args={"name": "later"}, delay=timedelta(hours=1)),
            NewJob(kind="greet", args={"name": "behind"}, after=[After(held.id)]),
        ]
    )
    expected = {
        made[0].id: "No living instance serves",
        made[1].id: "Is scheduled for|Runs at|Is due at",
        made[2].id: "Waits for",
        held.id: "Is processing since",
        done.id: "Completed at",
        filled["failed"]: "Failed at",
        filled["cancelled"]: "Was cancelled|Cancelled at",
        filled["retry"]: "Retries at",
    }
    page = open_page("/jobs")
    for job, sentence in expected.items():
        page.goto(f"{board.url}/jobs/{job}")
        expect(page.locator(".next .lead")).to_have_text(re.compile(f"^({sentence}).*[.!?]$"))
    app.jobs.cancel(held.id, "over")


ASKED_FOR = {
    "queue sizes per phase": ("/pipelines", "Queued"),
    "processors idle, busy, in error": ("/processors", "idle", "busy", "last attempt failed"),
    "processing time per phase": ("/pipelines/greet", "Run p95"),
    "success and failure per phase": ("/pipelines/greet", "Done/min", "Failed 1h"),
    "retries": ("/system", "retries"),
    "lock skips": ("/system", "lock skips"),
    "Redis errors": ("/system", "redis errors"),
    "stuck releases": ("/system", "stuck released"),
    "duplicates prevented": ("/system", "duplicates prevented"),
}
"""The metrics that people asked for, and where the dashboard shows each."""


def test_every_metric_that_was_asked_for_is_on_a_page(board: Board, open_page: Open) -> None:
    reference = (Path(__file__).parents[2] / "docs/reference/metrics.md").read_text()
    for name in ("queue_size", "processors", "run_seconds", "jobs_ended_total", "retries_total", "lock_skips_total", "redis_errors_total", "stuck_released_total", "duplicates_prevented_total"):  # fmt: skip
        assert f"`windlass_{name}`" in reference
    page = open_page("/", as_="admin")
    for path, *words in ASKED_FOR.values():
        if not page.url.endswith(path):
            page.goto(f"{board.url}{path}")
            ready(page)
        for word in words:
            expect(page.locator("main")).to_contain_text(word)
    job = board.app.enqueue("unsteady", host="counted")
    eventually(lambda: board.app.jobs.get(job.id).error)
    shown = page.locator("[data-counter=retries] b")
    expect(shown).not_to_have_text("0")


def test_the_sizes_of_tables_are_shown(open_page: Open) -> None:
    page = open_page("/system", as_="admin")
    expect(page.locator(".sizes tbody tr").first).to_contain_text("B")


def test_a_fan_out_of_hundreds_stays_a_small_page(board: Board, open_page: Open) -> None:
    for number in range(300):
        board.app.enqueue("order-intake", order=number)
    page = open_page("/jobs?q=kind:order-intake")
    ready(page, "Jobs")
    assert nodes(page) < 3000
