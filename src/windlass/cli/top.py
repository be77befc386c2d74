"""``windlass top``: phases, processors and queues on a full screen of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.control import control
from windlass.cli.database import Chosen, ChosenDatabase, service_options
from windlass.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from windlass.cli.top_screen import Board
    from windlass.control.service import Control
    from windlass.control.system_views import Sample

POLL_MS = 100
"""Milliseconds that the screen waits for a key before it shows what is new."""


@click.command()
@service_options
def top(database: Chosen) -> int:
    """Show phases, processors and queues on the full screen, every second.

    Keys: q ends it; j and k or the arrows choose the phase whose processors are shown below. Cells: ▓ busy, · idle, ✗ the job
    outran its time limit, ‖ held back by a full queue behind it.
    """
    import curses
    import locale
    import sys

    from windlass.cli.top_screen import ASCII, UNICODE, Board
    from windlass.urls import shown_url

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "top needs a terminal for input and output; elsewhere `windlass phases ls -o json` has the same numbers"
        )
    locale.setlocale(locale.LC_ALL, "")
    glyphs = UNICODE if "utf" in locale.nl_langinfo(locale.CODESET).lower() else ASCII
    with control(database) as service, _samples(database, service) as newest:
        board = Board(shown_url(database.url), glyphs)
        try:
            curses.wrapper(_show, board, newest)
        except curses.error as error:
            raise click.UsageError(
                f"this terminal cannot show a full screen ({error}); set TERM to the kind of the terminal"
            ) from error
    return ExitCode.DONE


@contextmanager
def _samples(database: Chosen, service: Control) -> Iterator[Callable[[], Sample | None]]:
    """Returns the next sample, None while there is none. Those of a server are read on a thread: the screen must not wait for them."""
    if isinstance(database, ChosenDatabase):
        with service.events() as events:
            yield lambda: events.next(0)
        return
    import queue
    import threading

    came: queue.SimpleQueue[Sample | Exception] = queue.SimpleQueue()

    def read() -> None:
        try:
            for sample in service.events():
                came.put(sample)
        except Exception as error:  # noqa: BLE001  raised by the screen
            came.put(error)

    def newest() -> Sample | None:
        if came.empty():
            return None
        found = came.get()
        if isinstance(found, Exception):
            raise found
        return found

    threading.Thread(target=read, daemon=True).start()
    yield newest


def _show(screen: Any, board: Board, newest: Callable[[], Sample | None]) -> None:
    import signal
    import time

    signal.signal(signal.SIGTERM, _interrupt)  # so that the terminal is set back
    styles = _styles()
    screen.timeout(POLL_MS)
    read_at = time.monotonic()
    while True:
        while (sample := newest()) is not None:
            board.add(sample)
            read_at = time.monotonic()
        _draw(screen, board, styles, time.monotonic() - read_at)
        if not _obey(screen.getch(), board):
            return


def _styles() -> dict[str, int]:
    import curses

    alarm = curses.A_BOLD
    try:
        curses.curs_set(0)
        curses.use_default_colors()
        curses.init_pair(1, curses.COLOR_RED, -1)
        alarm |= curses.color_pair(1)
    except curses.error:  # a terminal with black and white only
        alarm |= curses.A_REVERSE
    return {"plain": curses.A_NORMAL, "bold": curses.A_BOLD, "chosen": curses.A_REVERSE, "alarm": alarm}


def _draw(screen: Any, board: Board, styles: dict[str, int], age: float) -> None:
    import curses

    height, width = screen.getmaxyx()
    screen.erase()
    for number, line in enumerate(board.lines(width, height, age)):
        try:
            screen.addstr(number, 0, line.text, styles[line.style])
        except curses.error:  # the terminal became smaller in this moment
            break
    screen.refresh()


def _obey(key: int, board: Board) -> bool:
    """Do what a key says; False to end."""
    import curses

    if key in (ord("q"), ord("Q")):
        return False
    moves = {ord("j"): 1, ord("k"): -1, curses.KEY_DOWN: 1, curses.KEY_UP: -1}
    far = len(board.names)
    moves |= {ord("g"): -far, ord("G"): far, curses.KEY_HOME: -far, curses.KEY_END: far}
    moves |= {curses.KEY_NPAGE: 10, curses.KEY_PPAGE: -10}
    if key in moves:
        board.move(moves[key])
    return True


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt
