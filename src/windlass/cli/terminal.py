"""What a stream can show: control codes go to terminals only, and ``NO_COLOR`` is obeyed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

import click


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream (stdout unless given) is a terminal that understands cursor codes."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def painted(text: str, paint: str, stream: TextIO | None = None) -> str:
    """The text painted red, green, …, if the stream (stdout unless given) is a terminal without ``NO_COLOR``."""
    if not is_terminal(stream) or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=paint)


def fitted(line: str, stream: TextIO | None = None) -> str:
    """A line that does not wrap on a terminal; elsewhere the whole line."""
    if not is_terminal(stream):
        return line
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else f"{line[: max(0, width - 1)]}…"


class LiveLines:
    """Lines that replace each other on a terminal. Elsewhere, and where they must not (``replaces``), only lines that changed are printed,
    one after the other."""

    def __init__(self, stream: TextIO, *, replaces: bool = True) -> None:
        self._stream = stream
        self._is_live = replaces and is_terminal(stream)
        self._shown: list[str] = []

    @property
    def is_live(self) -> bool:
        """Whether lines replace each other."""
        return self._is_live

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines instead of those before them."""
        if self._is_live:
            up = f"\x1b[{len(self._shown)}F" if self._shown else ""
            text = "".join(f"{fitted(line, self._stream)}\x1b[K\n" for line in lines)
            self._stream.write(f"{up}{text}\x1b[J")
        else:
            before = [*self._shown, *([""] * len(lines))]
            changed = [line for line, old in zip(lines, before, strict=False) if line != old]
            self._stream.write("".join(f"{line}\n" for line in changed))
        self._stream.flush()
        self._shown = list(lines)

    def clear(self) -> None:
        """Remove the lines from a terminal."""
        if self._is_live and self._shown:
            self._stream.write(f"\x1b[{len(self._shown)}F\x1b[J")
            self._stream.flush()
        self._shown = []
