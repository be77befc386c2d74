"""Counts lines of code: without docstrings, comments, blank lines and imports. ``./dev count [FOLDER]``."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tools.dev.steps import ROOT, say

LONGEST = 400
"""Lines that a file may have at most, all kinds of lines counted."""


def code_lines(path: Path) -> int:
    """The lines of a file that hold code."""
    lines: set[int] = set()
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type not in _NO_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):  # type: ignore[attr-defined]
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    return len(lines)


_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count(arguments: list[str]) -> int:
    """Print the lines of code of each folder of the package, and the files that are too long."""
    folder = ROOT / (arguments[0] if arguments else "src/windlass")
    folders: Counter[str] = Counter()
    files = sorted(folder.rglob("*.py"))
    for path in files:
        relative = path.relative_to(folder)
        folders[relative.parts[0] if len(relative.parts) > 1 else "."] += code_lines(path)
    for name, lines in folders.most_common():
        say(f"{lines:7,}  {name}")
    say(f"{sum(folders.values()):7,}  in all, {len(files)} files")
    return 1 if report_long(files) else 0


def report_long(files: Iterable[Path]) -> bool:
    """Name the files that are too long; whether there are any."""
    long = [(path, n) for path in files if (n := len(path.read_text("utf-8").splitlines())) > LONGEST]
    for path, n in long:
        say(
            f"dev: {path.relative_to(ROOT)} has {n} lines; at most {LONGEST} are wanted: split it by what its parts do"
        )
    return bool(long)
