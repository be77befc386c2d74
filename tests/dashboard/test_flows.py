"""What people do with the dashboard, in a real Chromium against a real server and worker."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.dashboard.board import Board
from tests.dashboard.conftest import Open
from tests.dashboard.screens import confirm, drawn, press_until, ready
from tests.waiting import eventually
from windlass.model import NewJob

pytestmark = [pytest.mark.timing, pytest.mark.one_database]


def test_a_submitted_job_moves_to_done_without_a_reload(open_page: Open) -> None:
    page = open_page("/jobs")
    page.evaluate("window.sameDocument = true")
    page.get_by_role("button", name="Submit…").click()
    shown = page.locator("dialog.dialog")
    shown.locator("select[name=kind]").select_option("count_up")
    shown.locator("textarea[name=arguments]").fill('{"name": "Sachsen", "steps": 12}')
    confirm(page, "Submit")
    expect(page.locator("h1")).to_have_text("count_up · Sachsen · 12")
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.locator(".head .pill")).to_have_text("completed")
    expect(page.locator(".pct")).to_have_text("100%")
    assert page.evaluate("window.sameDocument") is True


def test_submitting_wrong_arguments_says_what_is_wrong(open_page: Open, faults: list[str]) -> None:
    page = open_page("/jobs")
    page.get_by_role("button", name="Submit…").click()
    shown = page.locator("dialog.dialog")
    shown.locator("select[name=kind]").select_option("greet")
    shown.locator("textarea[name=arguments]").fill('{"nam": 1}')
    shown.get_by_role("button", name="Submit").click()
    expect(shown.get_by_role("alert")).to_contain_text("name")
    shown.get_by_role("button", name="Close").click()
    expect(shown).to_have_count(0)
    page.close()
    faults.clear()  # the browser notes the refusal


def test_cancel_a_running_job(board: Board, open_page: Open) -> None:
    job = board.app.enqueue("hold", name="to be cancelled")
    page = open_page(f"/jobs/{job.id}")
    expect(page.locator(".head .pill")).to_contain_text("processing")
    page.get_by_role("button", name="Cancel…").first.click()
    confirm(page, "Cancel the job", "submitted twice")
    expect(page.locator(".head .pill")).to_have_text("cancelled")
    expect(page.locator("body")).to_contain_text("submitted twice")


def test_the_stack_of_a_running_handler(board: Board, open_page: Open) -> None:
    job = board.app.enqueue("hold", name="hangs")
    eventually(lambda: any(one.lease.id == job.id and one.begun for one in board.worker._workload.running()))
    page = open_page(f"/jobs/{job.id}")
    page.get_by_role("link", name="Stack").click()
    page.get_by_role("button", name="Read the stack now").click()
    expect(page.locator(".frame.here")).to_contain_text("await asyncio.sleep(600)")
    (record,) = board.app.audit.list(target="job", name=job.id).records
    assert record.act == "job.stack"
    board.app.jobs.cancel(job.id, "over")
    viewer = open_page(f"/jobs/{job.id}", as_="viewer")
    expect(viewer.get_by_role("link", name="Raw")).to_be_visible()
    expect(viewer.get_by_role("link", name="Stack")).to_have_count(0)


def test_a_deploy_is_marked_on_the_charts(board: Board, open_page: Open) -> None:
    board.app.enqueue("greet", name="before the release")
    board.app.deploys.mark("release 41")
    page = open_page("/")
    expect(page.get_by_role("img", name=re.compile("Throughput: .*deploy release 41 at"))).to_be_visible()


def test_retry_a_failed_job_and_bulk_retry_by_filter(board: Board, open_page: Open) -> None:
    new = [NewJob(kind="fragile", args={"customer": n}, correlation_id="bulk-retry") for n in (1, 2, 3)]
    jobs = board.app.store.enqueue(new)
    eventually(lambda: all(board.app.jobs.get(job.id).state == "failed" for job in jobs))
    page = open_page(f"/jobs/{jobs[0].id}")
    expect(page.locator(".err h3")).to_contain_text("ValueError: row 7")
    expect(page.locator(".frame.here")).to_contain_text("raise ValueError")
    board.mended.touch()
    try:
        page.get_by_role("button", name="Retry…").first.click()
        confirm(page, "Retry the job", "hotfix is out")
        expect(page.locator(".head .pill")).to_have_text("completed")
        # Other tests of this board leave failed jobs, too.
        page.goto(f"{board.url}/jobs?q=state:failed%20correlation:bulk-retry")
        expect(page.locator(".jobs tbody tr")).to_have_count(2)
        page.get_by_label("Select page").check()
        expect(page.locator(".bulk")).to_contain_text("2 selected")
        press_until(page, "Shift+R", "dialog.dialog h2")
        expect(page.locator("dialog.dialog h2")).to_have_text("Retry 2 jobs?")
        confirm(page, "Retry 2 jobs", "hotfix is out")
        page.get_by_role("link", name="Watch").click()
        expect(page.locator("tbody tr").first).to_contain_text("done")
        # The operation is done when the jobs are queued; they run while the file is there.
        eventually(lambda: all(board.app.jobs.get(job.id).state == "completed" for job in jobs))
    finally:
        board.mended.unlink()


def test_a_job_is_submitted_from_the_board_of_its_pipeline(open_page: Open) -> None:
    page = open_page("/pipelines/greet")
    page.get_by_role("button", name="Submit…").click()
    expect(page.locator("dialog.dialog select[name=kind]")).to_have_value("greet")
    page.locator("dialog.dialog textarea[name=arguments]").fill('{"name": "from the board"}')
    confirm(page, "Submit")
    expect(page.locator(".head .pill")).to_have_text("completed")


def test_pause_a_phase_and_see_the_reason_on_the_waiting_job(board: Board, open_page: Open) -> None:
    page = open_page("/pipelines/greet")
    page.get_by_role("button", name="Pause greet").click()
    confirm(page, "Pause", "database failover")
    expect(page.locator(".phase")).to_contain_text("paused")
    try:
        job = board.app.enqueue("greet", name="waits")
        page.goto(f"{board.url}/jobs/{job.id}")
        expect(page.locator(".next")).to_contain_text("database failover")
        page.goto(f"{board.url}/pipelines/greet")
        page.get_by_role("button", name="Resume greet").click()
        confirm(page, "Resume")
        page.goto(f"{board.url}/jobs/{job.id}")
        expect(page.locator(".head .pill")).to_have_text("completed")
    finally:
        board.app.phases.resume("greet")


def test_run_a_schedule_now(board: Board, open_page: Open) -> None:
    board.app.phases.resume("nightly_ledger")  # other tests of this board pause it
    page = open_page("/schedules")
    row = page.locator("tbody tr", has_text="nightly_ledger").first
    expect(row).to_contain_text("every day at 02:00")
    row.get_by_role("button", name="Run now…").click()
    confirm(page, "Run now", "month end")
    page.get_by_role("link", name="Open job").click()
    expect(page.locator("h1")).to_have_text("nightly_ledger")
    expect(page.locator(".head .pill")).to_have_text("completed")


def test_edit_and_resubmit(board: Board, open_page: Open) -> None:
    board.app.phases.pause("greet", "test of edits")
    try:
        job = board.app.enqueue("greet", name="before")
        page = open_page(f"/jobs/{job.id}")
        page.get_by_role("button", name="Edit…").first.click()
        page.locator("dialog.dialog textarea").fill('{"name": "after", "note": ""}')
        confirm(page, "Save", "typing error")
        expect(page.locator("h1")).to_have_text("greet · after")
        page.get_by_role("button", name="Submit again…").first.click()
        page.locator("dialog.dialog textarea").fill('{"name": "again"}')
        confirm(page, "Submit")
        expect(page.locator("h1")).to_have_text("greet · again")
    finally:
        board.app.phases.resume("greet")


def test_filter_pages_deep_links_and_the_back_button(board: Board, open_page: Open) -> None:
    board.app.phases.pause("greet", "test of pages")
    try:
        for number in range(65):
            board.app.enqueue("greet", name=f"page {number}", note="pages")
        page = open_page("/jobs")
        box = page.get_by_label("Filter")
        box.press_sequentially("sta")
        page.keyboard.press("Tab")
        expect(box).to_have_value("state:")
        box.press_sequentially("queued kind:greet ")
        expect(page.locator(".token")).to_have_text(["state:queued", "kind:greet"])
        rows = page.locator(".jobs tbody tr")
        expect(rows).to_have_count(30)
        first = rows.first.locator(".nm").inner_text()
        page.mouse.move(0, 0)
        page.get_by_role("button", name="Older").click()
        page.wait_for_url(re.compile("cursor="))
        expect(rows.first.locator(".nm")).not_to_have_text(first)
        address = page.url
        page.get_by_role("button", name="Older").click()
        page.wait_for_url(lambda url: url != address)
        page.go_back()
        page.wait_for_url(address)
        page.get_by_role("button", name="Newest").click()
        expect(rows.first.locator(".nm")).to_have_text(first)
        other = open_page(address.removeprefix(board.url))
        expect(other.locator(".token")).to_have_text(["state:queued", "kind:greet"])
        expect(other.locator(".jobs tbody tr").first.locator(".nm")).not_to_have_text(first)
    finally:
        board.app.phases.resume("greet")


def test_a_wrong_filter_says_what_to_write(open_page: Open, faults: list[str]) -> None:
    page = open_page("/jobs?q=status:failed")
    expect(page.locator(".wrong-text")).to_contain_text("state")
    page.close()
    faults.clear()


def test_the_keyboard_is_enough(board: Board, open_page: Open) -> None:
    for number in range(3):
        board.app.enqueue("greet", name=f"keys {number}")
    page = open_page("/")
    ready(page, "Overview")
    drawn(page)
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator("h1")).to_have_text("Jobs")
    expect(page.locator(".jobs tbody tr").nth(2)).to_be_visible()
    press_until(page, "j", ".jobs tr.at")
    drawn(page)
    page.keyboard.press("j")
    drawn(page)
    page.keyboard.press("x")
    expect(page.locator(".bulk")).to_contain_text("1 selected")
    drawn(page)
    page.keyboard.press("Escape")
    expect(page.locator(".bulk")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.locator("dialog.palette")).to_contain_text("Select the row")
    page.keyboard.press("Escape")
    expect(page.locator("dialog.palette")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.get_by_label("Filter")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_label("Find a page, a job or an action")).to_be_focused()
    page.keyboard.type("invoice")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("invoice")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_sign_in_with_a_token_and_see_only_what_is_allowed(
    board: Board, open_page: Open, faults: list[str]
) -> None:
    job = board.app.enqueue("greet", name="for viewers")
    page = open_page(f"/jobs/{job.id}", as_=None)
    field = page.get_by_label("API token")
    field.fill("wl_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")
    faults.clear()  # the browser notes both refusals
    field.fill(board.tokens["viewer"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".head .pill")).to_be_visible()
    for name in ("Retry…", "Delete…", "Submit again…", "Cancel…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    refused = page.evaluate(
        "(path) => fetch(path, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'}).then(r => r.status)",
        f"{board.url}/v1/jobs/{job.id}/retry",
    )
    assert refused == 403
    faults.clear()
    page.get_by_role("button", name="viewer").click()
    expect(page.get_by_label("API token")).to_be_visible()
    page.close()
    faults.clear()


def test_a_page_stays_alive_through_a_restart_of_the_server(
    board: Board, open_page: Open, faults: list[str]
) -> None:
    page = open_page("/jobs?q=kind:greet")
    expect(page.locator(".jobs, .empty").first).to_be_visible()
    board.stop()
    expect(page.locator(".banner")).to_contain_text("No answer from the server")
    job = board.app.enqueue("greet", name="while you were away")
    board.start()
    faults.clear()
    expect(page.locator(".jobs tbody tr").first).to_contain_text("while you were away")
    expect(page.locator(".banner")).to_have_count(0)
    assert job.id
    page.close()
    faults.clear()
