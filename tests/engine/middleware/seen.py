"""A middleware that writes down what it sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from windlass import App, CurrentAttempt


class Seen(list[Any]):
    """Collects what a middleware sees; ``watch`` registers one."""

    def watch(self, app: App, name: str = "m") -> None:
        @app.middleware
        @contextmanager
        def watching(attempt: CurrentAttempt) -> Iterator[None]:
            assert [attempt.outcome, attempt.error, attempt.exception] == [None] * 3
            self.append(f"{name} in")
            try:
                yield
            except BaseException as error:
                self.append(f"{name} {type(error).__name__}")
                raise
            finally:
                code = attempt.error.code if attempt.error else None
                self.append((name, attempt.outcome, code))
