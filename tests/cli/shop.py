"""A shop with a history: jobs in every state, and the command line on its database."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.waiting import eventually
from windlass import App
from windlass.features import open_store

TARGET = "tests.cli.shop_app:app"

_NORMAL = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d|Z)?"), "TIME"),
    (re.compile(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d UTC"), "CLOCK"),
    (re.compile(r"(less than )?\b\d[\d.,]* (s|min|h|d|days)\b"), "SPAN"),
    (re.compile(r'("\w*seconds": )\d[\d.]*'), r"\1SECONDS"),
    (re.compile(r"wl_[0-9a-f]{32}_[\w-]{43}"), "SECRET"),
    (re.compile(r"os:[^\s\"]+"), "os:USER@HOST"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "VERSION"),
    (re.compile(r"Traceback \(.*?\n *ValueError: bad row 7$", re.DOTALL | re.MULTILINE), "TRACEBACK"),
    (re.compile(r'"Traceback \(.*"'), '"TRACEBACK"'),
    (re.compile(r" {2,}"), "  "),
)
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_OBJECT = re.compile(r"\{\"[^{}\n]*\}")


def _sorted(text: str) -> str:
    """A JSON object with its keys in order: PostgreSQL keeps objects in an order of its own."""
    return json.dumps(json.loads(text), sort_keys=True)


class Shop:
    """The application on one database, and jobs by name."""

    def __init__(self, url: str) -> None:
        self.url = url
        module = importlib.import_module("tests.cli.shop_app")
        module.app.close()
        self.module: Any = importlib.reload(module)  # an app reads the environment once
        self.app = self.module.app
        self.ids: dict[str, str] = {}

    def fill(self) -> None:
        """Jobs that ended well and badly, one of two parts of a fan-in, and jobs that wait for three reasons."""
        shop = self.module
        made = {
            "done": shop.hello.enqueue(name="anna", number=7),
            "failed": shop.hello.enqueue(name="bad"),
            "counted": shop.count.enqueue(most=4),
            "site": shop.site.enqueue(url="example.org"),
            "left": shop.left.enqueue(period="2026-01"),
        }
        with self.working():
            eventually(lambda: all(job.state().is_final for job in made.values()), self.app.phases.counts)
            eventually(lambda: self.app.rules.open(), self.app.phases.counts)
        made["queued"] = shop.hello.options(priority=7).enqueue(name="carl")
        made["keyed"] = shop.hello.options(key="inv-88").enqueue(name="frida")
        made["scheduled"] = shop.hello.options(delay=86_400 * 30).enqueue(name="dora")
        made["waiting"] = shop.hello.options(after=[made["queued"]]).enqueue(name="emil")
        self.ids = {name: job.id for name, job in made.items()}

    @contextmanager
    def working(self) -> Iterator[Any]:
        """A worker in this process, on a store of its own: a command closes the app that it uses."""
        with open_store(self.url) as store:
            engine = App.of(self.app.parts.bound(config=self.app.config, store=store)).worker(heartbeat=0.2)
            engine.start()
            try:
                yield engine
            finally:
                engine.stop()

    def normal(self, text: str) -> str:
        """Output without what differs from run to run: ids have their names, times and spans are gone."""
        names = {job: name.upper() for name, job in self.ids.items()}
        text = _ID.sub(lambda found: names.get(found[0], "ID"), text)
        for pattern, instead in _NORMAL:
            text = pattern.sub(instead, text)
        text = _OBJECT.sub(lambda found: _sorted(found[0]), text)
        return "\n".join(line.rstrip() for line in text.split("\n"))

    def close(self) -> None:
        self.app.close()
