"""What a sandbox refuses: options and arguments of wrong types."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from windlass import App
from windlass.errors import ConfigError
from windlass.testing import Sandbox


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"start": "x"}, r"^start = 'x' cannot be used: it must be a datetime with a time zone, for example"),
        ({"start": 5}, r"^start = 5 "),
        ({"start": date(2026, 1, 1)}, r"^start = datetime\.date"),
        (
            {"start": datetime(2026, 1, 1)},  # noqa: DTZ001  without a time zone is what the test is about
            r"^start = datetime\.datetime\(2026, 1, 1, 0, 0\) .* with a time zone",
        ),
        ({"url": 5}, r"^url = '\*\*\* \(int\)' cannot be used: it must be sqlite:///file.db"),
        ({"app": "shop"}, r"^app = 'shop' cannot be used: it must be a windlass\.App"),
        ({"app": None}, r"^app = None "),
    ],
)
def test_options_that_cannot_work_are_refused_before_anything_is_opened(
    options: dict[str, Any], problem: str
) -> None:
    app = App()
    with pytest.raises(ConfigError, match=problem):
        Sandbox(**{"app": app, **options})
    with Sandbox(app) as box:  # nothing is left of the refused ones
        box.drain()


def test_wrong_types_of_calls_are_refused() -> None:
    with Sandbox(App()) as box:
        for step in ("x", None, True, float("nan")):
            with pytest.raises(ConfigError, match=r"^seconds = .* a number of seconds or a timedelta"):
                box.advance(step)  # type: ignore[arg-type]
        for job in (5, None, object()):
            with pytest.raises(ConfigError, match=r"^job = .* the id of a job"):
                box.run_one(job)  # type: ignore[arg-type]
