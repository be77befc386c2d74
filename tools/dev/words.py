"""Words that comments, docstrings, texts and pages do not use, and the words to use instead.

``python -m tools.dev.words`` checks the folders in CLEAN; ``./dev check`` runs it. Strings of the package with three words or more are
checked, too: errors, log lines, help texts. Code and text in backquotes are not checked: names of the public interface may use these words.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.dev.steps import ROOT

CLEAN = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "examples",
    "src/windlass",
    "tools/dev/words.py",
)
"""Files and folders that are checked."""

LEFT_OUT = (
    "src/windlass/store/sql/postgres/migrations",  # applied files have checksums and are never changed
    "src/windlass/store/sql/sqlite/migrations",
)

WORDS = {
    r"answer(s|ed|ing)?": "returns, return value, result",
    r"told|tells?|telling": "error, notify, report, say",
    r"look(s|ed|ing)?(?!-up)": "scan, check, read, search",
    r"(tak(e|es|en|ing)|took)( \w+){0,2} back": "rolled back, released",
    r"colou?rs?": "sync, async",
    r"under way": "running",
    r"whoever|whomever|those who": "the noun (the instance, the caller, the session)",
    r"(some|any|no|every)body('s)?|someone('s)?|anyone('s)?": "the noun (the instance, the caller, the session)",
    r"lets? (\w+ ){1,3}know": "notify",
    r"in vain": "without result",
    r"such (a )?ones?": "the noun",
}
"""Regular expressions of whole words, and the words to use instead."""

IN_PAGES = {r"those (that|of|which)": "the noun (the jobs that, the rows of)"}
"""The same, for pages only."""

ALLOWED = (
    r"(database|server|redis|valkey|postgresql|loop|browser|http)( \w+){0,3} answer(s|ed|ing)?",  # a peer that responds, or not
    r"answers? (to )?(a request|requests|http)",
    r"(terminal|ansi) colou?rs?",
)
"""Uses of these words that are right."""


def _whole(words: str) -> str:
    """A regular expression of whole words; a blank in it is also a line break."""
    return rf"\b(?:{words})\b".replace(" ", r"\s+")


def _any_of(words: Mapping[str, str]) -> re.Pattern[str]:
    groups = (f"(?P<w{number}>{_whole(word)})" for number, word in enumerate(words))
    return re.compile("|".join(groups), re.IGNORECASE)


_EVERYWHERE, _PAGES = _any_of(WORDS), _any_of(WORDS | IN_PAGES)
_ALLOWED = re.compile("|".join(_whole(phrase) for phrase in ALLOWED), re.IGNORECASE)
_QUOTED = re.compile(r"``[^`]*``|`[^`\n]*`")


class Use(NamedTuple):
    """A word that is used where another one should be."""

    path: Path
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.word!r}; say instead: {self.instead}"


def find(text: str, *, is_page: bool = False) -> Iterator[tuple[int, str, str]]:
    """The words in a prose text: line (from 0), the word, and the words to use instead."""
    instead = [*WORDS.values(), *IN_PAGES.values()]
    blanked = _ALLOWED.sub(_blank, _QUOTED.sub(_blank, text))
    for found in (_PAGES if is_page else _EVERYWHERE).finditer(blanked):
        line = blanked.count("\n", 0, found.start())
        yield line, " ".join(found.group().split()), instead[int((found.lastgroup or "w0")[1:])]


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The prose of a file, each part with the number of its first line: comments, docstrings, texts, or a page without its code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _comments(text)
        yield from _docstrings(text)
        if path.is_relative_to(ROOT / "src"):
            yield from _texts(text)
    elif path.suffix == ".sql":
        for number, line in enumerate(text.splitlines(), 1):
            _, dashes, comment = line.partition("--")
            if dashes and not comment.startswith((" name:", " fragment:", " column:")):
                yield number, comment
    elif path.suffix == ".md":
        yield 1, re.sub(r"^( *)```.*?^\1```", _blank, text, flags=re.MULTILINE | re.DOTALL)


def check(names: tuple[str, ...] = CLEAN) -> list[Use]:
    """All uses of the words in these files and folders."""
    uses = []
    for path in _files(names):
        for first, text in prose_of(path):
            found = find(text, is_page=path.suffix == ".md")
            uses += [Use(path, first + line, word, instead) for line, word, instead in found]
    return sorted(uses)


def _files(names: tuple[str, ...]) -> Iterator[Path]:
    left_out = [ROOT / name for name in LEFT_OUT]
    for name in names:
        root = ROOT / name
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.suffix in (".py", ".sql", ".md") and not any(
                path.is_relative_to(out) for out in left_out
            ):
                yield path


def _blank(found: re.Match[str]) -> str:
    """Spaces in place of a match, its line breaks kept so that line numbers stay right."""
    return re.sub(r"[^\n]", " ", found.group())


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Strings that stand as statements: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value


def _texts(text: str) -> Iterator[tuple[int, str]]:
    """Other strings of three words or more: errors, log lines, help texts. A value in an f-string is replaced by a quoted letter."""
    seen: set[ast.AST] = set()
    for node in ast.walk(ast.parse(text)):  # breadth first: an f-string comes before its parts
        found = ""
        if isinstance(node, ast.Expr):
            seen.add(node.value)  # a docstring
        elif isinstance(node, ast.JoinedStr):
            seen.update(ast.walk(node))
            found = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in seen:
            found = node.value
        if found.count(" ") > 1:
            yield getattr(node, "lineno", 1), found


def main(names: list[str]) -> int:
    uses = check(tuple(names) or CLEAN)
    for use in uses:
        print(use)
    return 1 if uses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
