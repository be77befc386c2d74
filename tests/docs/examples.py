"""The examples of a page: what is run, in which order, and what it prints.

* A Python block below ``<!-- runnable -->`` (in README.md every one without a mark) is run. Those between two sessions are one program.
* A block below ``<!-- file: NAME -->`` is added to that file; more of them make one file.
* A console block below ``<!-- runnable -->`` is a session: each line after ``$`` is a command, run on a terminal; the lines below it are
  what it prints, in any order. A line ``…`` stands for any lines.
* A text block right after a program is what the program prints.

Times and ids differ from run to run: they are compared as such (``019b…`` is any id).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>runnable|file: \S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CHANGING = (
    (re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"), "<time>"),
    (
        re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{4,8}…"),
        "<id>",
    ),
    (re.compile(r"\b(waited_ms|ran_ms)=\d+\b"), r"\1=<ms>"),
    (re.compile(r"\bin [\d.]+ s; [\d.,]+ jobs/s"), "in <time>; <rate>"),
    (re.compile(r"(?<=  )[\d.]+ s$", re.MULTILINE), "<age>"),
    (re.compile(r"(?<=\bAGE) +"), "  "),  # as wide as the ages below it
)
ANYTHING = "…"


class Program(NamedTuple):
    code: str
    printed: str


class File(NamedTuple):
    name: str
    text: str


class Command(NamedTuple):
    line: str
    printed: str


Step = Program | File | Command


def steps(page: Path) -> list[Step]:
    """What a page has to run, in order."""
    made: list[Step] = []
    program: list[str] = []
    printed: list[str] = []
    is_after_code = False

    def close() -> None:
        if program:
            made.append(Program("\n".join(program), "".join(printed)))
            program.clear()
            printed.clear()

    for block in _BLOCK.finditer(page.read_text("utf-8")):
        mark, language, text = block["mark"] or "", block["language"], block["text"]
        was_after_code, is_after_code = is_after_code, False
        if mark.startswith("file: "):
            made.append(File(mark.removeprefix("file: "), text))
        elif language == "python" and (mark or page.name == "README.md"):
            program.append(text)
            is_after_code = True
        elif language == "console" and mark:
            close()
            made += _commands(text)
        elif language == "text" and was_after_code:
            printed.append(text)
    close()
    return made


def _commands(session: str) -> list[Command]:
    parts = re.split(r"^\$ (.+)\n", session, flags=re.MULTILINE)
    return [Command(line, printed) for line, printed in zip(parts[1::2], parts[2::2], strict=True)]


def is_as_told(seen: str, told: str) -> bool:
    """Whether an output has the lines that a page shows, and no others. Threads write them, so their order is not looked at."""
    wanted, found = Counter(steady(told).splitlines()), Counter(steady(seen).splitlines())
    has_more = wanted.pop(ANYTHING, 0) > 0
    return wanted <= found if has_more else wanted == found


def steady(text: str) -> str:
    """An output without what differs from run to run."""
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return text
