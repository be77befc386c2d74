"""``windlass top`` in a terminal, as a person sees it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Windlass
from tests.cli.terminal import Terminal
from tests.servers.plugin import FreshPostgres
from tests.waiting import PATIENCE, eventually
from windlass import App
from windlass.cli.top_screen import ASCII, UNICODE, Board, cells
from windlass.control.instances import PhaseView
from windlass.features import open_store
from windlass.settings import Settings

pytestmark = [pytest.mark.timing, pytest.mark.slow]

UTF8 = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(
    request: pytest.FixtureRequest, fresh_postgres: FreshPostgres, fresh_sqlite: Callable[[], str]
) -> str:
    return fresh_sqlite() if request.param == "sqlite" else fresh_postgres()


@contextmanager
def busy_system(url: str) -> Iterator[threading.Event]:
    """Three processors of ``parse`` with five jobs that wait for the event, one idle phase, and a phase that no instance serves."""
    gate = threading.Event()
    with open_store(url) as store, App(store=store) as app:

        @app.job(processors=3)
        def parse(number: int) -> None:
            assert gate.wait(PATIENCE)

        @app.job(processors=2)
        def load() -> None: ...

        @app.job
        def elsewhere() -> None: ...

        for number in range(5):
            parse.enqueue(number=number)
        elsewhere.enqueue()
        engine = app.worker(Settings(phases=("parse", "load")))
        engine.start()
        try:
            yield gate
        finally:
            gate.set()
            engine.stop(5)


def row(text: str, phase: str) -> str:
    return next((line for line in text.splitlines() if line.startswith(phase)), "")


def is_whole(text: str) -> bool:
    """Whether the board shows all of the busy system; a terminal gets a screen in parts."""
    return (
        "▓▓▓" in row(text, "parse")
        and "all busy" in row(text, "parse")
        and "··" in row(text, "load")
        and "no instance" in row(text, "elsewhere")
        and "PROCESSORS" in text
        and "q quit" in text
        and "instances 1" in text.splitlines()[0]
    )


def test_the_board_shows_phases_cells_and_queues_and_obeys_keys(url: str) -> None:
    with busy_system(url) as gate, Terminal("top", "--url", url, env=UTF8, columns=120) as terminal:
        terminal.until(is_whole)
        terminal.send("j")  # elsewhere, load, parse
        terminal.until("load on ")
        terminal.send("\x1b[B" if b"\x1b[?1h" not in terminal.raw else "\x1bOB")  # arrow down
        terminal.until("parse-processor-1")
        gate.set()
        terminal.until(lambda text: "···" in row(text, "parse") and "running 0/5" in text)
        terminal.resize(60, 12)
        terminal.until(lambda text: "q quit" in text and len(text.splitlines()) <= 12)
        terminal.send("q")
        assert terminal.ended() == 0
        terminal.until_written("\x1b[?1049l")  # the screen from before is back


def test_a_terminal_without_unicode_and_a_signal(fresh_sqlite: Callable[[], str]) -> None:
    url = fresh_sqlite()
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with busy_system(url), Terminal("top", "--url", url, env=plain) as terminal:
        terminal.until(lambda text: "###" in row(text, "parse"))
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended() == 130
        terminal.until_written("\x1b[?1049l")  # the screen from before is back


def test_off_a_terminal_it_says_so(windlass: Windlass, fresh_sqlite: Callable[[], str]) -> None:
    answer = windlass("top", "--url", fresh_sqlite())
    assert (answer.code, answer.out) == (2, "")
    assert "needs a terminal" in answer.err


def test_a_terminal_that_cannot_move_its_cursor_is_refused(fresh_sqlite: Callable[[], str]) -> None:
    with Terminal("top", "--url", fresh_sqlite(), env={"TERM": "no-such-terminal"}) as terminal:
        assert terminal.ended() == 2
        eventually(lambda: "set TERM" in " ".join(terminal.written.split()))


@pytest.mark.parametrize(
    ("size", "busy", "error", "expected"),
    [
        (0, 0, 0, ""),
        (4, 1, 0, "▓···"),
        (4, 2, 1, "✗▓▓·"),
        (3, 5, 1, "✗▓▓"),
        (64, 32, 0, "▓▓▓▓▓▓▓▓▓▓·········· 32/64"),
        (1000, 1, 1, "✗▓·················· 2/1000"),
    ],
)
def test_cells(size: int, busy: int, error: int, expected: str) -> None:
    view = PhaseView(name="parse", size=size, busy=busy, error=error)
    assert cells([view], UNICODE) == expected
    assert cells([view], ASCII).isascii()


def test_a_small_screen_and_no_sample(fresh_sqlite: Callable[[], str]) -> None:
    board = Board("sqlite:///jobs.db")
    assert board.lines(20, 5, 0.0)[0].text == "windlass top"
    for width in (1, 10, 200):
        for height in (1, 2, 3, 30):
            lines = board.lines(width, height, 0.0)
            assert len(lines) <= height and all(
                len(line.text) < max(1, width) or not line.text for line in lines
            )


def test_python_without_curses_is_not_needed_for_help() -> None:
    code = "import sys; sys.modules['curses'] = None; from windlass.cli import main; main(['top', '--help'])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
