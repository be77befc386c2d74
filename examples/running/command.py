"""The options that all examples share, and their output."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from windlass_examples.running.database import PRIVATE


def parser(name: str, about: str | None) -> argparse.ArgumentParser:
    """A parser with ``--postgres``, ``--folder`` and ``--chaos``."""
    parser = argparse.ArgumentParser(prog=f"python -m windlass_examples.{name}", description=about)
    parser.add_argument(
        "--postgres",
        nargs="?",
        const=PRIVATE,
        metavar="URL",
        help="use this PostgreSQL; without a URL a private one, which is removed afterwards",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(f"{name}-example"), help="for the SQLite file, logs and files"
    )
    parser.add_argument(
        "--chaos", action="store_true", help="kill processes while jobs run, and count what was doubled"
    )
    parser.add_argument("--workers", type=int, default=2, help="worker processes (2)")
    return parser


def end_on_sigterm() -> None:
    """Make SIGTERM unwind like Ctrl-C, so that all processes and servers are stopped."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def say(text: str) -> None:
    """Write a line for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def report(facts: Mapping[str, object]) -> None:
    """Write the result of a run as a table."""
    width = max(map(len, facts))
    for name, value in facts.items():
        print(
            f"{name.ljust(width)}  {value:>10,}"
            if isinstance(value, int)
            else f"{name.ljust(width)}  {value!s:>10}"
        )
