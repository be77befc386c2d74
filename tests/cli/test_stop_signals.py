"""Which signals count."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.waiting import PATIENCE
from windlass.cli.stop_signals import StopSignals

pytestmark = pytest.mark.timing


def told(*heard: tuple[float, signal.Signals]) -> list[bool]:
    """Whether each signal counted, at the moments given."""
    at = 0.0
    signals = StopSignals(lambda: at)
    counted = []
    for moment, number in heard:
        at = moment
        signals.add(number)
        counted.append(signals.wait(0))
    return counted


def test_an_echo_of_the_first_signal_does_not_count() -> None:
    term, interrupt = signal.SIGTERM, signal.SIGINT
    assert told((0, term), (0.1, term), (0.9, term)) == [True, False, False]
    assert told((0, interrupt), (0.1, term)) == [True, False], "passed on by the parent"
    assert told((0, term), (1.0, term)) == [True, True]
    assert told((0, term), (5, term), (5.1, term)) == [True, True, True]


def test_a_person_is_heard_at_once() -> None:
    assert told((0, signal.SIGINT), (0.1, signal.SIGINT)) == [True, True]
    assert told((0, signal.SIGTERM), (0.1, signal.SIGINT)) == [True, True]


def test_nothing_heard_is_no_stop() -> None:
    signals = StopSignals()
    assert (signals.wait(0.01), signals.is_stopping, signals.is_interrupted) == (False, False, False)
    signals.add(signal.SIGINT)
    assert (signals.wait(), signals.is_stopping, signals.is_interrupted) == (True, True, True)


def test_a_signal_that_another_thread_gets_is_heard_at_once() -> None:
    """The kernel may give it to any thread; the main one, which runs handlers, is not woken by that."""
    program = """
import os, signal, threading, time
from windlass.cli.stop_signals import StopSignals
signals = StopSignals()
signals.install()
began = time.monotonic()
def get_it():
    time.sleep(0.3)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(100)
threading.Thread(target=get_it, daemon=True).start()
print(signals.wait(50), time.monotonic() - began < 40)
os._exit(0)
"""
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert answer.stdout.split() == ["True", "True"]
