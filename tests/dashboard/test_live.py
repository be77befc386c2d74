"""What moves by itself: a hidden tab, the board of a pipeline, instances, and the list of what needs a person."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import windlass
from tests.dashboard.board import Board
from tests.dashboard.conftest import Open
from tests.dashboard.screens import confirm, ready
from tests.waiting import eventually
from windlass.engine.engine import Engine
from windlass.model import NewJob

pytestmark = [pytest.mark.timing, pytest.mark.one_database]
QUIET = 5000
"""Milliseconds in which an open page would have asked several times."""
HIDE = """(is_hidden) => {
  Object.defineProperty(document, "hidden", {value: is_hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_asks_for_nothing_and_catches_up(board: Board, open_page: Open) -> None:
    page = open_page("/jobs?q=kind:greet")
    ready(page, "Jobs")
    asked: list[str] = []
    page.evaluate(HIDE, True)
    expect(page.locator(".live")).to_contain_text("paused")
    page.on("request", lambda request: asked.append(request.url))
    board.app.enqueue("greet", name="while it was hidden")
    page.wait_for_timeout(QUIET)
    assert asked == []
    page.evaluate(HIDE, False)
    expect(page.locator(".live")).to_contain_text("live")
    expect(page.locator(".jobs tbody tr").first).to_contain_text("while it was hidden")
    assert any("/v1/events" in one for one in asked)


def test_the_page_is_drawn_at_most_four_times_a_second(open_page: Open) -> None:
    page = open_page("/")
    ready(page, "Overview")
    # Beginning and end of the window are moments of a draw: between n draws are n - 1 slots of at least a quarter of a second.
    count, seconds = page.evaluate(
        """async () => {
          const drawn = async () => {
            const before = windlass.renders.count;
            while (windlass.renders.count === before) await new Promise((done) => setTimeout(done, 5));
            return [windlass.renders.count, performance.now()];
          };
          await new Promise((done) => setTimeout(done, 2000));
          const [first, began] = await drawn();
          await new Promise((done) => setTimeout(done, 6000));
          const [last, ended] = await drawn();
          return [last - first, (ended - began) / 1000];
        }"""
    )
    assert count / seconds <= 4


def test_the_board_shows_cells_the_queue_and_the_bottleneck(board: Board, open_page: Open) -> None:
    app = board.app
    held = [app.enqueue("hold", name=f"of the board {n}").id for n in range(6)]
    app.phases.pause("invoice:ocr", "test of the board")
    try:
        for number in range(3):
            app.enqueue("invoice", number=number, customer="Brandt KG")
        page = open_page("/pipelines/invoice")
        band = page.get_by_title("3 queued for ocr")
        expect(band.locator("b").first).to_have_text("3")
        band.click()
        expect(page.locator(".jobs tbody tr")).to_have_count(3)
        page.goto(f"{board.url}/pipelines/hold")
        cells = page.locator(".phase .cell[data-s=busy]")
        expect(cells).to_have_count(2)
        expect(page.locator(".phase.neck")).to_contain_text(
            "bottleneck"
        )  # when the oldest has waited for 5 s
        expect(page.get_by_role("button", name="Scale hold…")).to_be_visible()
        cells.first.hover()
        expect(page.locator(".pop.card")).to_contain_text("of the board")
        cells.first.click()
        expect(page.locator("h1")).to_contain_text("hold · of the board")
    finally:
        app.phases.resume("invoice:ocr")
        for job in held:
            app.jobs.cancel(job, "over")


def test_an_instance_gets_more_processors_and_is_drained(board: Board, open_page: Open) -> None:
    second = board.app.worker()
    second.start()
    try:
        page = open_page(f"/processors?instance={second.id}")
        page.get_by_role("button", name="change… processors of greet").click()
        page.locator("dialog.dialog input[name=count]").fill("6")
        confirm(page, "Change", "much to greet")
        expect(page.locator(".poolrow", has_text="greet")).to_contain_text("of 6 busy")
        expect(page.locator("main")).to_contain_text("Asked of it")
        page.get_by_role("button", name="Drain…").click()
        confirm(page, "Drain", "the machine is replaced")
        eventually(lambda: second.state == "stopped")
        expect(page.get_by_role("button", name="Drain…")).to_have_count(0)
    finally:
        second.stop(grace=0)


@pytest.fixture
def degraded(board: Board) -> Iterator[Engine]:
    """A worker on the database of the board that needs a Redis that is not there."""
    config = {"redis.url": "redis://127.0.0.1:1/0", "background.redis_lock_required": True}
    settings = board.app.settings.changed(heartbeat=0.2)
    with windlass.App(board.app.url, config=config, settings=settings) as other:

        @other.job
        def pay() -> None: ...

        engine = other.worker()
        engine.start()
        yield engine
        engine.stop(grace=0)


def test_degraded_parts_are_shown_with_their_cure(board: Board, degraded: Engine, open_page: Open) -> None:
    page = open_page("/", as_="admin")
    need = page.locator(".needs li", has_text="redis lock is down")
    expect(need).to_contain_text("no job runs")
    expect(need).to_contain_text("Check Redis and redis.url")
    need.get_by_role("link", name="Instance").click()
    expect(page.locator(".panel .needs")).to_contain_text("redis lock is down")
    assert degraded.id in page.url
    page.goto(f"{board.url}/system")
    expect(page.locator(".head")).to_contain_text("degraded")
    shown = page.get_by_role("region", name="Health").locator("li", has_text="redis lock")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text("Check Redis and redis.url")


def test_what_needs_a_person_has_its_cure_beside_it(board: Board, open_page: Open) -> None:
    app = board.app
    app.phases.pause("greet", "test of needs")
    try:
        waiting = app.enqueue("greet", name="needs a person")
        (unserved,) = app.store.enqueue([NewJob(kind="nobody-serves-this")])
        failed = app.enqueue("fragile", customer=9)
        eventually(lambda: app.jobs.get(failed.id).state == "failed")
        page = open_page("/")
        needs = page.locator(".needs")
        worst = needs.locator("li", has_text="No instance serves nobody-serves-this")
        row = needs.locator("li", has_text="failed with ValueError in fragile")
        expect(worst).to_be_visible()
        expect(row).to_be_visible()
        assert worst.bounding_box()["y"] < row.bounding_box()["y"], "worst first"  # type: ignore[index]
        row.get_by_role("button", name="Retry all…").click()
        expect(page.locator("dialog.dialog .body")).to_contain_text("exception:ValueError")
        page.get_by_role("button", name="Keep as is").click()
        row = needs.locator("li", has_text="greet is paused")
        expect(row).to_contain_text("test of needs")
        row.get_by_role("button", name="Resume…").click()
        confirm(page, "Resume")
        expect(row).to_have_count(0)
        eventually(lambda: app.jobs.get(waiting.id).state == "completed")
        app.jobs.cancel(unserved.id, "over")
    finally:
        app.phases.resume("greet")


def needs(page: Page, facts: str) -> list[dict[str, str]]:
    """What the page would list for these facts."""
    found: list[dict[str, str]] = page.evaluate(
        f"""async () => {{
          const at = document.querySelector("script[type=module]").src.replace("app.js", "lib/needs.js");
          const found = (await import(at)).needs({facts});
          return found.map((one) => ({{text: one.text, say: one.say, acts: one.acts.map((act) => act.text + " " + (act.to ?? "")).join(" | ")}}));
        }}"""
    )
    return found


RARE = [
    (
        '{overview: {instances: [{id: "i1", host: "host-c", pid: 7, state: "lost", heartbeat_at: new Date(0).toISOString()}]}, now: 41000}',
        "Instance pid 7 on host-c is lost", "41.s ago; recovery gives its jobs to others", "Open .*instance=i1",
    ),
    (
        '{overview: {phases: [{name: "ocr", counts: {queued: 90}, processors: 4, busy: 4, instances: 1, oldest: 300}]}, growths: () => 12}',
        "ocr cannot keep up", "4 of 4 busy, 90 queued, 12 more each minute", "See the queue .*phase:ocr",
    ),
    (
        '{schedules: [{name: "ledger", state: "active", skipped: 2, missed: "once", last_at: new Date(0).toISOString()}], now: 1000}',
        "ledger missed 2 due times", "rule for missed times: once", "Open .*schedules",
    ),
    (
        '{findings: [{code: "clock", severity: "warning", sentence: "The clocks differ.", cure: "Synchronise them."}, {code: "phase.unserved", severity: "error", sentence: "said already", cure: ""}, {code: "schema.newer", severity: "note", sentence: "a note", cure: ""}]}',
        "The clocks differ.", "Synchronise them.", "Doctor .*system",
    ),
    (
        '{overview: {instances: [1, 2, 3].map((n) => ({id: "i" + n, host: "h", pid: n, state: "running", degraded: [{part: "listener", state: "degraded", seen: "no notifications", advice: "Give a direct URL."}]}))}}',
        "listener is degraded on 3 instances", "no notifications. Give a direct URL.", "Instances .*processors",
    ),
]  # fmt: skip
"""Facts, and the text, the sentence and the cure of the line for them."""


def test_rarer_needs(open_page: Open) -> None:
    page = open_page("/")
    ready(page, "Overview")
    for facts, text, say, act in RARE:
        (found,) = needs(page, facts)
        assert found["text"] == text
        assert re.search(say, found["say"]) and re.search(act, found["acts"])
