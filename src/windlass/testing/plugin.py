"""Fixtures for pytest, loaded by themselves where Windlass is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from windlass.testing.sandbox import Sandbox


@pytest.fixture
def windlass_sandbox() -> Iterator[Callable[..., Sandbox]]:
    """Makes sandboxes: ``box = windlass_sandbox(app)``, with the options of ``Sandbox``. They are closed with the test, the newest first."""
    from windlass.testing.sandbox import Sandbox

    made: list[Sandbox] = []

    def make(app: Any, **options: Any) -> Sandbox:
        made.append(Sandbox(app, **options))
        return made[-1]

    yield make
    for box in reversed(made):
        box.close()
