"""An app with a middleware that writes down what it sees, and a sandbox of the app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.middleware.seen import Seen
from windlass import App
from windlass.testing import Sandbox


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def seen(app: App) -> Seen:
    made = Seen()
    made.watch(app)
    return made


@pytest.fixture
def box(app: App, seen: Seen) -> Iterator[Sandbox]:
    with Sandbox(app) as made:
        yield made
