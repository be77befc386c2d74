"""An application for the tests of the test kit."""

from __future__ import annotations

from typing import Any

import windlass


class Shop:
    """An application whose code knows its own app and nothing of tests."""

    def __init__(self, url: str) -> None:
        self.app = app = windlass.App(url)

        @app.job
        def order(n: int) -> int:
            return n * 2

        @app.job
        def total(ctx: windlass.Context) -> int:
            results: list[Any] = [parent.result for parent in ctx.parents()]
            return int(sum(results))

        self.order, self.total = order, total
