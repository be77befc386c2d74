"""``./dev docs --pictures ADDRESS``: takes the pictures of docs/guides/dashboard.md from a running dashboard, such as that of ``./dev demo``.

The server has to accept this machine without credentials, or ``WINDLASS_PICTURES_TOKEN`` has an API token. The pipeline with the most phases, a
failed job and a job with the most neighbours are found by the REST API; a picture for which there is no job is left as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "guides" / "images"
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
READY = "body:has(h1):has(.live):not(:has(.skeleton))"
USED = {"": ("overview", "pipeline", "job", "graph"), "-dark": ("overview",), "-phone": ("job",)}
"""The pictures that the documentation shows, by the end of their names."""
SETTLED = 12_000
"""Milliseconds until the charts of the backlog have points."""


def take(address: str, folder: Path = FOLDER) -> list[Path]:
    """Take all pictures; returns the files."""
    from playwright.sync_api import sync_playwright

    base, token = address.rstrip("/"), os.environ.get("WINDLASS_PICTURES_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    made = []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        asking = playwright.request.new_context(extra_http_headers=headers)
        places = dict(_places(lambda path: asking.get(f"{base}{path}").json()))
        for theme, size, suffix in (("light", DESK, ""), ("dark", DESK, "-dark"), ("light", PHONE, "-phone")):
            context = browser.new_context(viewport=size, color_scheme=theme, device_scale_factor=1)  # type: ignore[arg-type]
            if token:
                context.request.post(f"{base}/v1/session", data={"token": token})
            page = context.new_page()
            for name, path in places.items():
                if name not in USED[suffix]:
                    continue
                page.goto(f"{base}{path}")
                page.wait_for_selector(READY, state="attached")
                page.wait_for_timeout(SETTLED if name in ("overview", "pipeline") else 2_000)
                made.append(folder / f"dashboard-{name}{suffix}.png")
                page.screenshot(path=made[-1])
            context.close()
        browser.close()
    return made


def _places(get: Any) -> Iterator[tuple[str, str]]:
    """The name of each picture and the path of its screen."""
    yield "overview", "/"
    kinds = get("/v1/pipelines")["pipelines"]
    if kinds:
        yield "pipeline", f"/pipelines/{max(kinds, key=lambda kind: len(kind['phases']))['name']}"
    if failed := get("/v1/jobs?q=state:failed&limit=1")["jobs"]:
        yield "job", f"/jobs/{failed[0]['id']}"
    jobs = get("/v1/jobs?limit=50")["jobs"]
    around = {job["id"]: sum(one["count"] for one in get(f"/v1/jobs/{job['id']}/related")["groups"]) for job in jobs}  # fmt: skip
    if around and max(around.values()) > 1:
        yield "graph", f"/jobs/{max(around, key=around.__getitem__)}"
