"""``./dev docs``: writes the parts of the documentation that are made from the code, then builds the site; warnings are errors.

Between two markers of a page, everything is replaced; pages under reference/ are written whole. ``--check`` only compares, ``--no-site``
builds no site, ``--site FOLDER`` builds it elsewhere than in site/. ``--pictures ADDRESS`` takes the pictures of the dashboard instead.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.python_reference import python_page
from docs.rest_reference import rest_page

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
    drawn = tree[0] if tree else ""
    order = re.findall(r"\b[A-Z]\w+\b", drawn)
    known.sort(key=lambda kind: order.index(kind.__name__))
    rows = [
        f"| `{kind.__name__}` | `{kind.code}` | {int(code_of(kind.__new__(kind)))} | {' '.join((kind.__doc__ or '').replace('``', '`').split())} |"
        for kind in known
    ]
    return "\n".join(
        [
            "# Errors",
            "",
            "Generated from `src/windlass/errors/` by `./dev docs`; do not edit.",
            "",
            "Every error that Windlass raises on purpose is a `WindlassError`.",
            "Its message says what happened, to which object and what to do next; the facts are attributes as well.",
            "Each of them can be imported from `windlass`.",
            "`code` is stable and meant for machines.",
            "The exit code is that of the `windlass` command.",
            "A more precise error of the database takes precedence: a missing privilege is 77, a lock that was not granted is 124.",
            "",
            "```text",
            inspect.cleandoc(drawn),
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
    from windlass.setting_keys import SETTING_KEYS

    module = importlib.import_module("windlass.settings")
    others = ", ".join(
        f"`{name}` is `{key}`" for name, key in SETTING_KEYS.items() if key != f"worker.{name}"
    )
    usual, gentle = module.Settings(), module.Settings.gentle()
    lines = [
        "# Settings",
        "",
        "Generated from `src/windlass/settings.py` by `./dev docs`; do not edit.",
        "",
        "This page lists the settings of an instance; [workers](../guides/workers.md#settings) shows how to set them.",
        f"In `windlass.toml` and `App(config=...)` the key of a setting is `worker.` and its name, with these exceptions: {others}.",
        "`phases` has no key: it is given in code, or by `windlass worker --phase`.",
        "Durations are seconds, and milliseconds where a key ends with `_ms`; in a file, in the environment and in `App(config=...)` also texts such as [`90s` or `1h 30m`](../guides/configuration.md#durations).",
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
    return "\n".join([*lines, *_lock_settings(), ""])


def _lock_settings() -> Iterator[str]:
    """Every setting of locks on requests, and where it applies."""
    from windlass.locks.settings import APPLIES
    from windlass.setting_keys import KNOWN, LOCK_KEYS

    yield from ("", "## Locks", "")
    yield "These are settings of an application, by their keys in `windlass.toml`; [locks](../guides/locks.md) explains them."
    yield "A worker uses locks only if they are required: everywhere else its claim in the database decides."
    yield from ("", "| setting | default | applies to | meaning |", "|---|---|---|---|")
    for name, key in LOCK_KEYS.items():
        default = KNOWN[key].default
        shown = (
            str(default).lower()
            if isinstance(default, bool)
            else _value(default)
            if not isinstance(default, str)
            else f"`{default}`"
        )
        yield f"| `{key}` | {shown} | {APPLIES[name]} | {KNOWN[key].about} |"


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


def openapi_document() -> str:
    """The OpenAPI document of the REST API."""
    from windlass import App
    from windlass.api import ApiSettings, create_api

    document = create_api(App(), settings=ApiSettings()).openapi()
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


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
        reference / "openapi.json": (document := openapi_document()),
        reference / "python.md": python_page(),
        reference / "rest-api.md": rest_page(json.loads(document)),
    }


def _replace(text: str, name: str, part: str) -> str:
    begin, end = f"<!-- made by docs/build.py: {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, also_found, after = rest.partition(end)
    if not found or not also_found:
        raise SystemExit(f"docs: the markers of {name!r} are missing")
    return f"{before}{begin}{part}\n{end}{after}"


def build_site(folder: Path) -> int:
    """Build the site; a warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(folder)]
    # Material's notice about its successor is no warning about our pages.
    return subprocess.run(
        command, cwd=DOCS.parent, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ).returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev docs", description=__doc__, allow_abbrev=False)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-site", action="store_true")
    parser.add_argument("--site", type=Path, default=DOCS.parent / "site", metavar="FOLDER")
    parser.add_argument("--pictures", metavar="ADDRESS", help="only take the pictures of the dashboard there")
    options = parser.parse_args(arguments)
    if options.pictures:
        from docs.pictures import take

        sys.stdout.writelines(f"{path}\n" for path in take(options.pictures))
        return 0
    wanted = pages()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if options.check:
        for path in stale:
            sys.stderr.write(f"docs: {path.relative_to(DOCS)} is out of date; run ./dev docs\n")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path], "utf-8")
        sys.stderr.write(f"docs: wrote {path.relative_to(DOCS)}\n")
    if options.no_site:
        return 0
    code = build_site(options.site)
    if not code:
        sys.stderr.write(f"docs: the site is in {options.site}/\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
