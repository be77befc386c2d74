"""The documentation site: it builds without a warning, and a reader's browser asks no other host."""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.waiting import PATIENCE
from tools.dev.checks import find_chromium

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=\"?(https?:[^\" >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "docs.build", "--site", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("")
        place = name.parent if name.name == "index" else name
        assert (site / place / "index.html").exists(), name
    for other in ("examples/visibility", "development/changelog", "reference/openapi.json"):
        assert (site / other).exists(), other


def test_no_page_loads_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        found = [
            url for url in LOADED.findall(page.read_text("utf-8")) if "windlass-jobs.github.io" not in url
        ]
        assert found == [], page  # the canonical address is that of the site itself


def test_a_browser_asks_no_other_host(address: str) -> None:
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme)
            page = context.new_page()
            page.on("request", lambda request: asked.append(request.url))
            for path in ("", "concepts/lifecycle/", "guides/jobs/", "reference/python/"):
                page.goto(f"{address}{path}", wait_until="networkidle")
            page.get_by_role("textbox", name="Search").fill("lease")
            page.locator(".md-search-result__item").first.wait_for()
            context.close()
        browser.close()
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
