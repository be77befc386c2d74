"""What errors say: a message that can be misread sends people the wrong way."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass
from windlass.errors import ConfigError, EditConflictError, ResultTimeout, SchemaError, WindlassError

PACKAGE = Path(windlass.__file__).parent
SENTENCES = ("it ", "there ", "give ", "each ", "say ", "write ", "use ", "leave ", "did ", "open ", "import")


def test_a_config_error_says_what_must_be() -> None:
    error = ConfigError("size", -1, "a whole number of 1 or more")
    assert str(error) == "size = -1 cannot be used: it must be a whole number of 1 or more"
    assert error.allowed == "a whole number of 1 or more" and error.reason == f"it must be {error.allowed}"


def test_a_config_error_may_have_a_reason_of_its_own() -> None:
    error = ConfigError("app", "shop:app", because="importing it raised ValueError")
    assert str(error) == "app = 'shop:app' cannot be used: importing it raised ValueError"
    assert error.allowed == "" and error.reason == "importing it raised ValueError"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("size", -1, because="it is too small"),
        SchemaError("the tables are old", found=1, expected=2),
        EditConflictError("j", "a1", "b2"),
        ResultTimeout("j", 1.0, "queued"),
    ],
    ids=lambda error: error.code,
)
def test_an_error_comes_whole_out_of_another_process(error: WindlassError) -> None:
    """What cannot be unpickled breaks the caller's pool of processes."""
    error.add_to_message(before="call 7: ")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
    assert vars(again) == vars(error)


def allowed_texts() -> Iterator[tuple[str, str]]:
    """What each place in the code says of what is allowed, where it is written there."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ConfigError" and len(node.args) == 3:
                allowed = node.args[2]
                first = allowed.values[0] if isinstance(allowed, ast.JoinedStr) else allowed
                if isinstance(first, ast.Constant):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", str(first.value)


def test_what_is_allowed_follows_it_must_be() -> None:
    """A whole sentence there would read "it must be there is no module"; those are given as ``because``."""
    texts = list(allowed_texts())
    assert len(texts) > 100
    assert [(where, text) for where, text in texts if text.startswith(SENTENCES)] == []
