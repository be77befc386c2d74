"""Writes the parts of the documentation that are made from the code: ``./dev docs``; with ``--check`` it only compares.

Between two markers of a page, everything is replaced; pages under reference/ are written whole.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent


def state_drawing() -> str:
    """The life cycle as a mermaid drawing, one arrow for each pair of states."""
    from windlass.model.lifecycle import MOVES

    arrows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for verb, move in MOVES.items():
        for target in move.targets:
            for source in move.sources or ("[*]",):
                if source != target:
                    arrows[(str(source), str(target))].append(verb)
    lines = [f"    {source} --> {target}: {', '.join(verbs)}" for (source, target), verbs in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def move_table() -> str:
    """Verb, from, to."""
    from windlass.model.lifecycle import MOVES

    rows = [
        f"| {verb} | {', '.join(move.sources) or '(nothing)'} | {', '.join(move.targets)} |"
        for verb, move in MOVES.items()
    ]
    return "\n".join(["| verb | from | to |", "|---|---|---|", *rows])


def errors_page() -> str:
    """Every exception with its code, its exit code on the command line and what it says about itself."""
    from windlass import errors
    from windlass.cli.exit_codes import code_of

    tree = re.search(r"    WindlassError\n.*?\n\n", inspect.getdoc(errors) or "", re.DOTALL)
    known: list[type[errors.WindlassError]] = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.WindlassError)
    ]
    known.sort(key=lambda kind: inspect.getsourcelines(kind)[1])
    rows = [
        f"| `{kind.__name__}` | `{kind.code}` | {int(code_of(kind.__new__(kind)))} | {' '.join((kind.__doc__ or '').replace('``', '`').split())} |"
        for kind in known
    ]
    return "\n".join(
        [
            "# Errors",
            "",
            "Generated from `src/windlass/errors.py` by `./dev docs`; do not edit.",
            "",
            "Every error that Windlass raises on purpose is a `WindlassError`.",
            "Its message says what happened, to which object and what to do next; the facts are attributes as well.",
            "`code` is stable and meant for machines.",
            "The exit code is that of the `windlass` command.",
            "A more precise error of the database takes precedence: a missing privilege is 77, a lock that was not granted is 124.",
            "",
            "```text",
            inspect.cleandoc(tree[0]) if tree else "",
            "```",
            "",
            "| class | code | exit code | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def settings_page() -> str:
    """Every setting with its default and the comment beside it, under the headings it stands under in the code."""
    module = importlib.import_module("windlass.settings")
    usual, gentle = module.Settings(), module.Settings.gentle()
    lines = [
        "# Settings",
        "",
        "Generated from `src/windlass/settings.py` by `./dev docs`; do not edit.",
        "",
        "This page lists the settings of an instance; [workers](../guides/workers.md#settings) shows how to set them.",
        "Durations are seconds.",
        "A value that cannot work is refused at the start, with its name, its value and the allowed values.",
        "The column *gentle* has the values of `Settings.gentle()` that differ.",
    ]
    for heading, name, meaning in _settings(inspect.getsource(module.Settings)):
        if heading:
            lines += [
                "",
                f"## {heading}",
                "",
                "| setting | default | gentle | meaning |",
                "|---|---|---|---|",
            ]
        value, other = getattr(usual, name), getattr(gentle, name)
        lines.append(
            f"| `{name}` | {_value(value)} | {'' if other == value else _value(other)} | {meaning} |"
        )
    return "\n".join([*lines, ""])


def _settings(source: str) -> Iterator[tuple[str, str, str]]:
    """Heading (where a new one begins), name and comment of each field of the class."""
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (made,) = ast.parse(source).body
    assert isinstance(made, ast.ClassDef)
    last = 0
    for node in made.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        end = node.end_lineno or node.lineno
        above = [
            text for line, (text, is_alone) in comments.items() if last < line < node.lineno and is_alone
        ]
        beside = [
            text for line, (text, is_alone) in comments.items() if node.lineno <= line <= end and not is_alone
        ]
        if not beside:
            raise SystemExit(f"docs: the setting {node.target.id!r} has no comment beside it")
        yield " ".join(above), node.target.id, " ".join(beside)
        last = end


def _value(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    lifecycle = DOCS / "concepts" / "lifecycle.md"
    text = lifecycle.read_text("utf-8")
    for name, part in (("drawing", state_drawing()), ("moves", move_table())):
        text = _replace(text, name, part)
    reference = DOCS / "reference"
    return {
        lifecycle: text,
        reference / "errors.md": errors_page(),
        reference / "settings.md": settings_page(),
    }


def _replace(text: str, name: str, part: str) -> str:
    begin, end = f"<!-- made by docs/build.py: {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, also_found, after = rest.partition(end)
    if not found or not also_found:
        raise SystemExit(f"docs: the markers of {name!r} are missing")
    return f"{before}{begin}{part}\n{end}{after}"


def main(arguments: list[str]) -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            sys.stderr.write(f"docs: {path.relative_to(DOCS)} is out of date; run ./dev docs\n")
        return 1 if stale else 0
    wanted = pages()
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path], "utf-8")
        sys.stderr.write(f"docs: wrote {path.relative_to(DOCS)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
