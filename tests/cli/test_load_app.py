"""The app of ``--app module:app``: what its import raises is one error with the user's own lines."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.cli.load_app import load_app
from windlass.errors import ConfigError

NAMES = ("broken_jobs", "broken_models", "broken_fields", "broken_values")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in NAMES:
        sys.modules.pop(name, None)


def test_the_last_three_lines_of_the_users_own_code_are_named(folder: Path) -> None:
    """Not those of the standard library, in which an error may be raised."""
    for name, imported in itertools.pairwise(NAMES):
        (folder / f"{name}.py").write_text(f"\nimport {imported}\n")
    (folder / f"{NAMES[-1]}.py").write_text("import json\n\njson.loads('{')\n")
    with pytest.raises(ConfigError) as raised:
        load_app("broken_jobs:app")
    said = str(raised.value)
    assert "importing it raised JSONDecodeError: Expecting property name" in said
    assert said.endswith("(broken_models.py:2 > broken_fields.py:2 > broken_values.py:3)")


def test_an_app_that_is_made_when_it_is_read_is_no_exception(folder: Path) -> None:
    (folder / "broken_jobs.py").write_text("def __getattr__(name):\n    raise ValueError('no settings')\n")
    with pytest.raises(ConfigError, match=r"raised ValueError: no settings \(broken_jobs\.py:2\)$"):
        load_app("broken_jobs:app")


def test_a_bad_setting_in_the_users_module_is_named_with_its_line(folder: Path) -> None:
    (folder / "broken_jobs.py").write_text("import windlass\n\napp = windlass.App(clok=1)\n")
    with pytest.raises(ConfigError, match=r"importing it raised ConfigError: .*clok.*\(broken_jobs\.py:3\)$"):
        load_app("broken_jobs:app")
