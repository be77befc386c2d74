"""What tests do with any screen: wait until it shows its data, confirm a dialog, look for faults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, ViewportSize, expect

from tests.waiting import eventually

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
DESK: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}


def confirm(page: Page, label: str | re.Pattern[str], reason: str | None = None) -> None:
    """Fill in the dialog that is open, and do what it asks about."""
    shown = page.locator("dialog.dialog")
    if reason is not None:
        shown.locator("input[name=reason]").fill(reason)
    shown.get_by_role("button", name=label).click()
    expect(shown).to_have_count(0)


def press_until(page: Page, key: str, shown: str) -> None:
    """Press a key until it has its effect: a page listens for the keys of a selection from the frame after the selection on."""

    def is_shown() -> bool:
        if page.locator(shown).count() == 0:
            page.keyboard.press(key)
        return page.locator(shown).count() > 0

    eventually(is_shown)


def drawn(page: Page) -> None:
    """Wait for the frame after what was just done: from then on a page listens for the keys that go with it."""
    page.evaluate(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
    )


def ready(page: Page, title: str | None = None) -> None:
    """Wait until a screen shows its data."""
    if title is not None:
        expect(page.locator("h1")).to_have_text(title)
    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(page.locator(".live")).to_contain_text("live")


def serious(page: Page) -> list[str]:
    """What axe-core finds, beside what is only moderate."""
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]} {one['nodes'][0]['failureSummary'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def sideways(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def fits(page: Page) -> bool:
    """Whether nothing is wider than the screen; charts follow a change of its size a moment later."""
    return bool(eventually(lambda: not sideways(page)))


def nodes(page: Page) -> int:
    found: int = page.evaluate("document.querySelectorAll('*').length")
    return found
