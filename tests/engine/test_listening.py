"""What the listener makes of what it hears."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from tests.engine.shop import Shop
from tests.waiting import PATIENCE, eventually
from windlass.engine.listener import Listening
from windlass.engine.stats import Stats
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

    def interrupt(self) -> None:
        self._silence.set()

    def close(self) -> None: ...


class Instance:
    """An instance whose store has one line to listen on."""

    def __init__(self, line: Line) -> None:
        self.store = self
        self._line = line

    def listen(self) -> Line:
        return self._line


class Duties:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def check_everything(self) -> None:
        self.asked.append("everything")

    def ask(self, name: str) -> None:
        self.asked.append(name)


class Stepper:
    def set_listening(self, is_listening: bool) -> None: ...


def test_after_a_reconnect_it_is_asked_what_is_due_as_well_as_what_is_queued() -> None:
    """Whatever was told meanwhile was lost: new jobs, and jobs for later, which only the agenda knows of."""
    instance: Any = Instance(Line(RECONNECTED))
    stepper: Any = Stepper()
    nothing: Any = None
    duties: Any = Duties()
    listening = Listening(instance, Stats(), stepper, nothing, duties, nothing)
    listening.start()
    eventually(lambda: len(duties.asked) == 2)
    listening.stop()
    assert sorted(duties.asked) == ["agenda", "everything"]


def test_a_start_is_not_reported_as_a_fault_before_the_first_connection_had_its_time() -> None:
    class Later(Line):
        is_connected = False

    instance: Any = Instance(Later())
    stepper: Any = Stepper()
    nothing: Any = None
    listening = Listening(instance, Stats(), stepper, nothing, nothing, nothing)
    listening.start()
    try:
        listening._expected_at = time.monotonic() + 3600.0
        assert (listening.is_listening, listening.is_missing) == (False, False)
        listening._expected_at = time.monotonic() - 1.0
        assert (listening.is_listening, listening.is_missing) == (False, True)
        instance._line.is_connected = True
        eventually(lambda: listening.is_listening and not listening.is_missing)
        listening._expected_at = time.monotonic() + 3600.0
        instance._line.is_connected = False
        eventually(lambda: listening.is_missing)
    finally:
        listening.stop()
    assert (listening.is_listening, listening.is_missing) == (False, False)


def test_a_stop_does_not_wait_for_the_listener(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.engine.listener.LISTEN_FOR", 10 * PATIENCE)
    engine = shop.serve(lease=30 * PATIENCE, heartbeat=10 * PATIENCE)
    shop.until(lambda: engine._listening._listener)
    engine.stop(grace=0)
    eventually(lambda: not engine._listening._thread.is_alive())
