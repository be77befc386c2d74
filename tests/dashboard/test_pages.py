"""All screens: what they hold, how they look in both themes and on a phone, and text that tries to be more than text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.board import Board
from tests.dashboard.conftest import Open
from tests.dashboard.hostile import EVERY, HOSTILE
from tests.dashboard.screens import AXE, DESK, PHONE, fits, nodes, ready, serious, sideways
from tests.waiting import PATIENCE, eventually
from windlass.model import After, NewJob
from windlass.model.principal import Principal
from windlass.model.request import Key

pytestmark = [pytest.mark.timing, pytest.mark.one_database]
KEY = "<img src=x onerror=owned=1>"
BY_KEY = f'key:"{KEY}"'
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
def filled(board: Board) -> Iterator[dict[str, str]]:
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
    board.app.jobs.retry_many(f"id:{named[0].id}", reason=HOSTILE[3]).wait(PATIENCE)
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
    kept = board.app.enqueue("keep", outputs={text: text for text in texts})
    board.app.enqueue("__proto__", text=HOSTILE[0])
    board.app.store.enqueue([NewJob(kind="greet", args={"name": "key"}, key=Key(KEY))])
    board.tokens["hostile"] = board.app.tokens.create(HOSTILE[0], ("admin",)).text
    other = board.app.store.join(lease=timedelta(hours=1), info={"host": HOSTILE[1], "version": HOSTILE[7], "pid": 1, "phases": ["constructor", "greet"]})  # fmt: skip
    part = {"part": HOSTILE[0], "state": "degraded", "seen": HOSTILE[6], "advice": HOSTILE[7]}
    facts = {"state": "running", "phases": {"greet": {"size": 2}}, "degraded": [part], "processors": [{"name": f"greet-{HOSTILE[2]}", "state": "busy"}]}  # fmt: skip
    board.app.store.boards.put(str(other.id), json.dumps(facts))
    eventually(lambda: board.app.jobs.get(kept.id).state == "completed")
    few |= {"kept": kept.id, "instance": str(other.id)}
    yield {**few, **every} if IS_LONG else few
    other.leave()


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
        page.set_viewport_size(DESK)
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
        page.set_viewport_size(PHONE)
        assert fits(page), f"{path} on a phone"
    assert found == {}


def accessible(page: Page, name: str) -> list[str]:
    """What axe-core finds on a page as it is, in both themes."""
    page.evaluate(AXE)
    found = []
    for theme in ("light", "dark"):
        page.evaluate("(theme) => (document.documentElement.dataset.theme = theme)", theme)
        found += [f"{name}, {theme}: {one}" for one in serious(page)]
    return found


def test_sign_in_dialogs_palette_and_empty_states_are_accessible(
    board: Board, filled: dict[str, str], open_page: Open, faults: list[str]
) -> None:
    page = open_page("/", as_=None, reduced_motion="reduce")
    expect(page.get_by_label("API token")).to_be_visible()
    found = accessible(page, "sign-in")
    page = open_page("/jobs?q=kind:nothing-of-this-name", as_="admin", reduced_motion="reduce")
    expect(page.locator(".empty")).to_be_visible()
    found += accessible(page, "no job")
    page.get_by_role("button", name="Submit…").click()
    expect(page.locator("dialog.dialog")).to_be_visible()
    found += accessible(page, "dialog")
    page.keyboard.press("Escape")
    for key, name in [("Control+k", "palette"), ("?", "keys")][: None if IS_LONG else 1]:
        page.keyboard.press(key)
        expect(page.locator("dialog.palette")).to_be_visible()
        found += accessible(page, name)
        page.keyboard.press("Escape")
    places = ("/processors?instance=none", "/failures?kind=none", "/nowhere", "/audit?name=none", "/pipelines/none", "/jobs/00000000-0000-7000-8000-000000000000")  # fmt: skip
    for path in places if IS_LONG else ():
        page.goto(f"{board.url}{path}")
        expect(page.locator(".empty").first).to_be_visible()
        found += accessible(page, path)
    for tab in ("error", "logs", "events", "stack", "raw") if IS_LONG else ("events",):
        page.goto(f"{board.url}/jobs/{filled['failed']}?tab={tab}")
        expect(page.locator(".tabs [aria-current]")).to_be_visible()
        ready(page)
        found += accessible(page, f"tab {tab}")
    assert found == []
    page.close()
    faults.clear()  # the browser notes the page that needs a session, and the job that is not there


def test_hostile_texts_are_texts(board: Board, filled: dict[str, str], open_page: Open) -> None:
    page = open_page("/jobs?q=kind:greet", as_="hostile")
    expect(page.locator(".bar")).to_contain_text(HOSTILE[0])
    base = board.url
    for path in (
        "/jobs?q=kind:greet",
        "/jobs?q=kind:fragile",
        *(f"/jobs/{job}" for name, job in filled.items() if name != "instance"),
        *(f"/jobs/{filled['named']}?tab={tab}" for tab in ("logs", "events", "raw")),
        "/failures",
        f"/jobs?q={quote(BY_KEY)}",
        "/schedules?open=valueOf",
        "/operations",
        "/audit",
        "/system",
        "/processors",
        f"/processors?instance={filled['instance']}",
        "/processors?by=phase",
        "/pipelines",
        "/pipelines/__proto__",
        "/pipelines/hold",
        "/pipelines/greet",
        "/",
    ):
        page.goto(base + path)
        ready(page)
        assert page.evaluate("window.owned") is None, path
        assert page.locator("img, iframe, object, main script").count() == 0, path
        assert not sideways(page), path
        page.set_viewport_size(PHONE)
        assert fits(page), f"{path} on a phone"
        page.set_viewport_size(DESK)
    page.goto(f"{base}/jobs/{filled['named']}")
    expect(page.locator("h1")).to_contain_text(HOSTILE[3][:20])


def test_a_hostile_address_is_a_text_too(board: Board, open_page: Open, faults: list[str]) -> None:
    page = open_page("/jobs/%3Cimg%20src%3Dx%20onerror%3Downed%3D1%3E")
    expect(page.locator("h1")).to_be_visible()
    page.goto(f"{board.url}/pipelines/%22%3E%3Cscript%3Eowned=1%3C%2Fscript%3E?phase=%3Csvg%20onload%3D1%3E")
    expect(page.locator("h1")).to_contain_text("<script>")
    assert page.evaluate("window.owned") is None
    page.close()
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


DOCS = Path(__file__).parents[2] / "docs"


def watched() -> list[list[str]]:
    """The rows of the table of values to watch: value, metric, screen and names there."""
    table = (
        (DOCS / "guides/monitoring.md")
        .read_text()
        .partition("<!-- values to watch -->\n")[2]
        .partition("\n\n")[0]
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def _finds(page: Page, wanted: re.Pattern[str]) -> bool:
    return wanted.search(page.locator("main").inner_text()) is not None


def test_every_value_to_watch_is_on_a_screen_with_its_number(board: Board, open_page: Open) -> None:
    rows = watched()
    assert len(rows) >= 9
    reference = (DOCS / "reference/metrics.md").read_text()
    done = board.app.enqueue("greet", name="watched")
    retried = board.app.enqueue("unsteady", host="counted")
    eventually(lambda: board.app.jobs.get(retried.id).error and board.app.jobs.get(done.id).state.is_final)
    page = open_page("/", as_="admin")
    for value, metric, screen, names in rows:
        assert f"| {metric} |" in reference, value
        path = screen.strip("`").replace("KIND", "greet")
        if not page.url.endswith(path):
            page.goto(f"{board.url}{path}")
            ready(page)
        for name in names.replace("`", "").split(", "):
            # In innerText a term and its number are lines: "Queued", "3"; in a sentence the number comes first: "3 busy".
            number = re.compile(rf"(^{name}\n+\d|\d {name}\b)", re.MULTILINE)
            eventually(partial(_finds, page, number), value)
    expect(page.locator("[data-counter=retries] b")).not_to_have_text("0")


def test_the_sizes_of_tables_are_shown(open_page: Open) -> None:
    page = open_page("/system", as_="admin")
    expect(page.locator(".sizes tbody tr").first).to_contain_text("B")


def test_a_fan_out_of_hundreds_stays_a_small_page(board: Board, open_page: Open) -> None:
    for number in range(300):
        board.app.enqueue("order-intake", order=number)
    page = open_page("/jobs?q=kind:order-intake")
    ready(page, "Jobs")
    assert nodes(page) < 3000
