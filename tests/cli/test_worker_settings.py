"""The settings of a worker from its options: --set is read by the type of the setting."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.app.app import App
from windlass.cli.worker_settings import worker_settings


@pytest.mark.parametrize(
    ("change", "name", "value"),
    [
        ("lease=60", "lease", 60.0),
        ("worker.lease=60", "lease", 60.0),
        ("lease=1 m", "lease", 60.0),
        ("page=7", "page", 7),
        ("runtime.max_concurrent_calls=7", "max_concurrent_calls", 7),
        ("max_concurrent_calls=none", "max_concurrent_calls", None),
        ("max_concurrent_calls=", "max_concurrent_calls", None),
        ("retention_archive=2026", "retention_archive", "2026"),
        ("retention_archive=true", "retention_archive", "true"),
        ("retention.archive=a=b.jsonl", "retention_archive", "a=b.jsonl"),
        ("retention.archive=", "retention_archive", None),
        ("retention.archive=none", "retention_archive", None),
        ("retention.failed=90d", "retention_failed", 90 * 86_400),
        ("retention_completed=forever", "retention_completed", None),
        ("background.chunk.size=5", "chunk_size", 5),
        ("chunk_step=0.5", "chunk_step", 0.5),
        ("chunk_step=250ms", "chunk_step", 0.25),
        ("background.chunk.retry.step_ms=250", "chunk_step", 0.25),
        ("rollup_days=7d", "rollup_days", 7),
    ],
)
def test_a_value_is_read_by_the_type_of_its_setting(change: str, name: str, value: Any) -> None:
    settings = worker_settings(App("sqlite:///never.db"), (), None, [change])
    found = getattr(settings, name)
    assert found == value and type(found) in (type(value), float)


def test_the_last_change_wins_by_name_or_key() -> None:
    settings = worker_settings(
        App("sqlite:///never.db"), (), 7.0, ["grace=8", "worker.grace=9", "worker.lease=40"]
    )
    assert (settings.grace, settings.lease) == (9.0, 40.0)
