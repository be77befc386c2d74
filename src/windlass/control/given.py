"""Checks of the arguments that calls of the control service have in common."""

from __future__ import annotations

from windlass.errors import ConfigError
from windlass.ranges import is_whole
from windlass.store.validators import is_text

MOST = 1000


def check_texts(**given: object) -> None:
    """Refuse names to search by that are neither a text nor None."""
    for name, value in given.items():
        if value is not None and not is_text(value):
            raise ConfigError(name, value, "a text without NUL and lone surrogates, or None")


def check_count(name: str, value: object, most: int = MOST) -> None:
    """Refuse how many items are asked for, unless it is a whole number from 1 to ``most``."""
    if not is_whole(value, 1, most):
        raise ConfigError(name, value, f"a whole number from 1 to {most}")
