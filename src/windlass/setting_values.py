"""Keys of settings, and how their values are read: from code, from a TOML file, or from the text of an environment variable.

Each function that reads returns the value, and raises ValueError or TypeError for one that cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.errors import ConfigError
from windlass.settings import PROCESSOR_RANGE
from windlass.urls import SCHEMES, is_readable, shown_url

PREFIX = "WINDLASS_"


@dataclass(frozen=True, slots=True)
class Known:
    """A key: its allowed values, its default, and its purpose."""

    key: str
    read: Callable[[Any], Any]
    default: Any
    allowed: str
    about: str
    is_secret: bool = False
    aliases: tuple[str, ...] = ()
    is_hidden: bool = False  # no part of a wrong value is shown

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that set it, the main one first."""
        return (PREFIX + self.key.upper().replace(".", "_"), *self.aliases)

    def checked(self, value: Any) -> Any:
        """A value that code gives; ``ConfigError`` for one that cannot be used."""
        try:
            return self.read(value)
        except (ValueError, TypeError) as error:
            shown = "***" if self.is_hidden else value
            raise ConfigError(self.key, shown, self.allowed) from (None if self.is_hidden else error)


@dataclass(frozen=True, slots=True)
class Item:
    """A value and its origin."""

    key: str
    value: Any
    origin: str
    is_secret: bool

    @property
    def shown(self) -> str:
        """The value without secrets."""
        return shown_url(str(self.value)) if self.is_secret else str(self.value)


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "1", "yes", "on"):
        return True
    if word in ("false", "0", "no", "off"):
        return False
    raise ValueError


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None or str(value).lower() in ("none", "") else read(value)


def one_of(*names: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return read


def database_url(value: Any) -> str:
    url = text(value)
    if not url.startswith(SCHEMES) or not (url.startswith("sqlite:") or is_readable(url)):
        raise ValueError
    return url


def postgres_url(value: Any) -> str:
    if database_url(value).startswith("sqlite:"):
        raise ValueError
    return str(value)


def names(value: Any) -> tuple[str, ...]:
    """Names in a list, or in a text with commas between them; each without spaces."""
    items = (
        [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else list(value)
    )
    if not all(isinstance(item, str) and item and not any(map(str.isspace, item)) for item in items):
        raise ValueError
    return tuple(items)


def counts(value: Any) -> dict[str, int]:
    """Whole numbers by name: a table of the file, a mapping, or the text ``welcome=4,report=2`` of a variable."""
    if isinstance(value, str):
        pairs = [part.rpartition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): number for name, _, number in pairs}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise ValueError
    return {name: PROCESSOR_RANGE.read(number) for name, number in value.items()}


def groups(value: Any) -> dict[str, tuple[str, ...]]:
    """Names and patterns of phases by the name of their group: a table of the file, a mapping, or the text
    ``heavy=report* sites,light=welcome`` of a variable."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): items.split() for name, _, items in pairs}
    if not isinstance(value, Mapping):
        raise ValueError
    for items in value.values():
        if isinstance(items, str) or not items or not all(isinstance(item, str) and item for item in items):
            raise ValueError
    return {name: tuple(items) for name, items in value.items()}


class Secret:
    """A text that is never shown: ``str`` and ``repr`` hide it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return "***"


def secret(value: Any) -> Secret:
    """A secret of 32 characters or more."""
    if isinstance(value, Secret):
        return value
    if len(text(value)) < 32:
        raise ValueError
    return Secret(value)
