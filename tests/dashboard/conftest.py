"""One server, one worker and one browser for the tests of this folder in a process; a page of its own for each test.

Neither may outlive the folder: Playwright keeps an event loop running in the main thread, in which no other test could use ``asyncio.run``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.dashboard.board import Board
from tests.servers import postgres
from tests.waiting import PATIENCE

expect.set_options(timeout=PATIENCE * 1000)
REPORT = """
document.addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
"""
Open = Callable[..., Page]


@pytest.fixture(scope="package", params=["sqlite", *postgres.ids()])
def board(
    request: pytest.FixtureRequest,
    pg_servers: postgres.PostgresServers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Board]:
    """On SQLite, and with --long on PostgreSQL, too."""
    folder = tmp_path_factory.mktemp("board")
    is_file = request.param == "sqlite"
    found = Board(
        folder, f"sqlite:///{folder / 'board.db'}" if is_file else pg_servers.get(request.param).fresh()
    )
    yield found
    found.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.fail("there is no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """What no page may do; a test that causes such a thing on purpose clears the list."""
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def open_page(board: Board, browser: Browser, faults: list[str]) -> Iterator[Open]:
    """Opens a page, signed in as an operator, a viewer or an admin. An error of the console, a violation of the CSP or a request to another
    origin fails the test."""
    contexts = []

    def open_(path: str = "/", *, as_: str | None = "operator", **options: object) -> Page:
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        context = browser.new_context(**options)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE * 1000)
        context.add_init_script(REPORT)
        contexts.append(context)
        if as_ is not None:
            body = json.dumps({"token": board.tokens[as_]})
            signed = context.request.post(
                f"{board.url}/v1/session", data=body, headers={"Content-Type": "application/json"}
            )
            assert signed.ok, signed.text()
        page = context.new_page()

        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                faults.append(message.text)

        def asked(request: Request) -> None:
            if not request.url.startswith((board.url, "data:", "blob:")):
                faults.append(f"request to {request.url}")

        page.on("console", said)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("request", asked)
        page.goto(f"{board.url}{path}")
        return page

    yield open_
    for context in contexts:
        context.close()
