"""What the listener makes of what it hears."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.waiting import PATIENCE
from windlass.engine.listener import Listening
from windlass.store.database import RECONNECTED

pytestmark = pytest.mark.timing


class Line:
    """A listener that says each thing once, and then nothing."""

    is_connected = True

    def __init__(self, *hints: str) -> None:
        self._hints = list(hints)
        self._silence = threading.Event()

    def wait(self, timeout: float) -> Sequence[str]:
        if self._hints:
            return [self._hints.pop(0)]
        self._silence.wait(timeout)
        return ()

    def close(self) -> None: ...


def test_after_a_reconnect_it_is_asked_what_is_due_as_well_as_what_is_queued() -> None:
    """Whatever was told meanwhile was lost: new jobs, and jobs for later, which only the agenda knows of."""
    heard: list[str] = []
    both = threading.Event()

    def hear(what: str) -> None:
        heard.append(what)
        if len(heard) == 2:
            both.set()

    listening = Listening(
        lambda: Line(RECONNECTED),
        on_phase=lambda phase: hear(f"phase {phase}"),
        on_later=lambda: hear("later"),
        on_nudge=lambda _: None,
        on_cancel=lambda _: None,
        on_listening=lambda _: None,
    )
    listening.start()
    was_both = both.wait(PATIENCE)
    listening.stop()
    assert was_both and sorted(heard) == ["later", "phase None"]
