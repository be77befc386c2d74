"""Removals of history that wait for as long as a test lets them wait."""

from __future__ import annotations

import pytest

from tests.waiting import PATIENCE


@pytest.fixture
def patient_removals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal gives up after a few seconds; a busy machine takes longer for what a test does while it waits."""
    monkeypatch.setattr("windlass.store.postgres.database.REMOVAL_PATIENCE", f"{PATIENCE:g}s")
