"""The examples use public names of Windlass only, as their readers do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass
import windlass_examples

EXAMPLES = Path(windlass_examples.__path__[0])
MODULES = {
    "windlass.retry",
    "windlass.testing",
    "windlass.observe",
    "windlass.observe.logs",
    "windlass.integrations.fastapi",
    "windlass.integrations.fastapi.bearer",
    "windlass.integrations.authentication",
}
"""Modules that the guides describe, beside ``windlass`` itself."""
PRIVATE_POSTGRES = "running/database.py"
"""Starts the private PostgreSQL of the demonstration and the tests. It is not public: its data is removed with it, so it is for trying things
out, and an application is given the URL of a server."""


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Modules of Windlass that are imported, and the names from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


def test_there_are_examples() -> None:
    assert {"visibility/jobs.py", "timesheets/jobs.py", "summaries/jobs.py"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_only_public_names(name: str) -> None:
    tree = ast.parse((EXAMPLES / name).read_text("utf-8"))
    for module, imported in imports(tree):
        if module.partition(".")[0] != "windlass":
            continue
        if name == PRIVATE_POSTGRES and module.startswith("windlass.examples.embedded."):
            continue
        assert module == "windlass" or module in MODULES, f"{name} imports {module}"
        if module == "windlass" and imported:
            assert imported in windlass.__all__, f"{name} imports {imported}"
