"""The list of jobs: acts on all that match, completion of values, export, saved views; and what else is begun from a list."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.board import Board
from tests.dashboard.conftest import Open
from tests.dashboard.screens import PHONE, confirm, drawn, press_until, ready, sideways
from tests.waiting import eventually
from windlass.model import NewJob

pytestmark = [pytest.mark.timing, pytest.mark.one_database]
PAGE = 30
"""Rows of a page."""


def fail(board: Board, count: int, correlation: str, note: str = "") -> list[str]:
    """Jobs that have failed."""
    jobs = [
        NewJob(kind="fragile", args={"customer": n, "note": note}, correlation_id=correlation)
        for n in range(count)
    ]
    made = [job.id for job in board.app.store.enqueue(jobs)]
    eventually(lambda: all(board.app.jobs.get(one).state == "failed" for one in made))
    return made


def dialog(page: Page, title: str) -> None:
    expect(page.locator("dialog.dialog h2")).to_have_text(title)


def test_all_that_match_are_retried_by_the_filter_and_not_by_their_ids(board: Board, open_page: Open) -> None:
    count, q = PAGE + 3, "state:failed correlation:all-that-match"
    made = fail(board, count, "all-that-match")
    page = open_page(f"/jobs?q={q}")
    expect(page.locator(".jobs tbody tr")).to_have_count(PAGE)
    expect(page.locator(".hits")).to_have_text(f"{count} match")
    page.get_by_label("Select page").check()
    expect(page.locator(".bulk")).to_contain_text(f"{PAGE} selected")
    page.get_by_role("button", name=f"select all {count} that match").click()
    expect(page.locator(".bulk")).to_contain_text("all that match")
    page.get_by_label("Clear the selection").click()
    press_until(page, "Shift+X", ".bulk")
    expect(page.locator(".bulk")).to_contain_text(f"{count} jobs selected, all that match")
    press_until(page, "Shift+R", "dialog.dialog")
    dialog(page, f"Retry {count} jobs?")
    expect(page.locator("dialog.dialog .body")).to_contain_text(q)
    board.mended.touch()
    try:
        with page.expect_request("**/v1/operations") as sent:
            confirm(page, f"Retry {count} jobs", "hotfix is out")
        body = json.loads(sent.value.post_data or "")
        assert (body["act"], body["filter"], body["reason"], body["all"]) == ("retry", q, "hotfix is out", False)  # fmt: skip
        eventually(lambda: all(board.app.jobs.get(one).state == "completed" for one in made))
    finally:
        board.mended.unlink()


def test_scheduled_jobs_are_run_now_together(board: Board, open_page: Open) -> None:
    later = [NewJob(kind="greet", args={"name": f"later {n}"}, delay=timedelta(hours=1), correlation_id="run-now") for n in range(3)]  # fmt: skip
    made = [job.id for job in board.app.store.enqueue(later)]
    page = open_page("/jobs?q=correlation:run-now")
    expect(page.locator(".jobs tbody tr")).to_have_count(3)
    page.get_by_label("Select page").check()
    page.locator(".bulk").get_by_role("button", name="Run now…").click()
    dialog(page, "Run now 3 jobs?")
    confirm(page, "Run now 3 jobs", "the bank is open")
    eventually(lambda: all(board.app.jobs.get(one).state == "completed" for one in made))
    (last, *_) = board.app.audit.list(target="job", name=made[0]).records
    assert last.reason == "the bank is open"


def test_exceptions_and_instances_are_completed(board: Board, open_page: Open) -> None:
    fail(board, 1, "completed")
    page = open_page("/jobs")
    ready(page, "Jobs")
    box = page.get_by_label("Filter")
    box.press_sequentially("exception:Val")
    expect(page.get_by_role("option", name="exception:ValueError")).to_contain_text("failed")
    page.keyboard.press("Tab")
    expect(page.locator(".token")).to_have_text(["exception:ValueError"])
    box.press_sequentially("instance:")
    page.get_by_role("option", name=board.worker.id).dispatch_event("mousedown")
    expect(page.locator(".token").nth(1)).to_have_text(f"instance:{board.worker.id}")
    expect(page.locator(".jobs tbody tr").first).to_be_visible()


def test_a_job_says_in_how_many_jobs_its_error_was_seen(board: Board, open_page: Open) -> None:
    (job, *_) = fail(board, 2, "seen")
    count = board.app.jobs.count("state:failed exception:ValueError phase:fragile").count
    page = open_page(f"/jobs/{job}")
    seen = page.locator(".seen")
    expect(seen).to_have_text(f"Seen in {count} jobs")
    seen.click()
    expect(page.locator(".token")).to_have_text(["state:failed", "exception:ValueError", "phase:fragile"])
    expect(page.locator(".hits")).to_have_text(f"{count} match")


def test_an_export_has_all_that_match_and_no_formula(board: Board, open_page: Open, tmp_path: Path) -> None:
    fail(board, 2, "=1+1", note="a,b")
    page = open_page("/jobs?q=correlation:%22=1%2B1%22")
    expect(page.locator(".jobs tbody tr")).to_have_count(2)
    for form, lines in (("csv", 3), ("jsonl", 2)):
        page.get_by_role("button", name="Export…").click()
        page.locator("select[name=form]").select_option(form)
        with page.expect_download() as saved:
            confirm(page, "Save")
        assert saved.value.suggested_filename == f"jobs.{form}"
        saved.value.save_as(tmp_path / form)
        text = (tmp_path / form).read_text()
        assert len(text.splitlines()) == lines
        if form == "csv":
            assert text.startswith("id,kind,phase,state") and ",'=1+1," in text
        else:
            assert {json.loads(line)["correlation_id"] for line in text.splitlines()} == {"=1+1"}


def test_a_saved_view_is_kept_by_the_browser(open_page: Open) -> None:
    name = "<img src=x onerror=owned=1>"
    page = open_page("/jobs?q=state:failed%20kind:fragile")
    page.get_by_role("button", name="Save view…").click()
    page.locator("dialog.dialog input[name=name]").fill(name)
    confirm(page, "Save")
    page.goto(page.url.partition("?")[0])
    page.get_by_role("link", name=name).click()
    expect(page.locator(".token")).to_have_text(["state:failed", "kind:fragile"])
    expect(page.get_by_role("link", name=name)).to_have_attribute("aria-current", "true")
    assert page.evaluate("window.owned") is None


def test_an_act_needs_no_mouse(board: Board, open_page: Open) -> None:
    held = board.app.store.enqueue([NewJob(kind="hold", args={"name": "by keys"}, correlation_id="by-keys")])
    job = held[0].id
    page = open_page("/")
    ready(page, "Overview")
    drawn(page)
    page.keyboard.press("g")
    page.keyboard.press("j")
    ready(page, "Jobs")
    drawn(page)
    page.keyboard.press("/")
    page.keyboard.type("correlation:by-keys")
    page.keyboard.press("Enter")
    expect(page.locator(".jobs tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    press_until(page, "j", ".jobs tr.at")
    page.keyboard.press("Enter")
    expect(page.locator(".head .pill")).to_be_visible()
    press_until(page, "Shift+C", "dialog.dialog")
    expect(page.locator("dialog.dialog input[name=reason]")).to_be_focused()
    page.keyboard.type("no mouse here")
    page.keyboard.press("Enter")
    expect(page.locator(".head .pill")).to_have_text("cancelled")
    assert board.app.audit.list(target="job", name=job).records[0].reason == "no mouse here"


def test_a_form_that_was_opened_early_gets_the_kinds_later(board: Board, open_page: Open) -> None:
    page = open_page("/")
    held: list[Route] = []
    page.route("**/v1/pipelines*", lambda route: held.append(route))
    page.goto(f"{board.url}/jobs")
    page.get_by_role("button", name="Submit…").click()
    kinds = page.locator("dialog.dialog select[name=kind] option")
    expect(page.locator("dialog.dialog h2")).to_be_visible()
    expect(kinds).to_have_count(0)
    eventually(lambda: page.title() and held)  # asking the page for something lets its events in
    for route in held:
        route.continue_()
    expect(kinds.filter(has_text="hold")).to_have_count(1)


def test_a_job_is_submitted_and_cancelled_on_a_phone(board: Board, open_page: Open) -> None:
    page = open_page("/jobs", viewport=PHONE, has_touch=True, is_mobile=True)
    page.get_by_role("button", name="Submit…").tap()
    shown = page.locator("dialog.dialog")
    shown.locator("select[name=kind]").select_option("hold")
    shown.locator("textarea[name=arguments]").fill('{"name": "from a phone"}')
    assert not sideways(page)
    confirm(page, "Submit")
    expect(page.locator("h1")).to_have_text("hold · from a phone")
    page.locator(".dock").get_by_role("button", name="Cancel…").tap()
    assert not sideways(page)
    confirm(page, "Cancel the job", "typed with thumbs")
    expect(page.locator(".head .pill")).to_have_text("cancelled")


def test_a_schedule_is_paused_with_a_reason_and_resumed(board: Board, open_page: Open) -> None:
    board.app.schedules.resume("nightly_ledger")  # other tests of this board pause it
    page = open_page("/schedules?open=nightly_ledger")
    row = page.locator("tbody tr", has_text="nightly_ledger").first
    expect(page.locator("tr.detail")).to_contain_text("Missed times")
    row.get_by_role("button", name="Pause…").click()
    confirm(page, "Pause", "the bank is closed")
    expect(row).to_contain_text("the bank is closed")
    try:
        assert board.app.schedules.get("nightly_ledger").pause_reason == "the bank is closed"
        row.get_by_role("button", name="Resume…").click()
        confirm(page, "Resume")
        expect(row).to_contain_text("active")
    finally:
        board.app.schedules.resume("nightly_ledger")
