"""Settings from code, a TOML file and the environment, each with its origin.

Later sources win: defaults, then the file, then the environment, then code. Keys are dotted (``background.retry.attempts``); in the file
dots are tables, in the environment the key is WINDLASS_ and the words in capitals (``WINDLASS_BACKGROUND_RETRY_ATTEMPTS``). All errors
are reported at once, each with its key, its value, its origin and the allowed values.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from windlass.errors import ConfigError, did_you_mean
from windlass.locks.settings import TTL_MS, LockSettings
from windlass.model.retry import Exponential, exponential
from windlass.principals.sealed_tokens import TokenKeys
from windlass.ranges import Range
from windlass.settings import (
    LONGEST,
    PROCESSOR_RANGE,
    PROCESSORS,
    RANGES,
    TIME_LIMIT,
    Settings,
)
from windlass.urls import FORMS, SCHEMES, without_secrets

FILE = "windlass.toml"
PREFIX = "WINDLASS_"
DEFAULT_URL = "sqlite:///windlass.db"
HIDDEN = "***"
NEARLY = 0.9  # similarity from which on an unknown variable counts as a misspelt one
_LOCK_KEYS = {
    "enabled": "background.redis_lock_enabled",
    "required": "background.redis_lock_required",
    "ttl_ms": "background.lock_ttl_ms",
    "fallback_ttl_ms": "background.lock_fallback_ttl_ms",
    "prefix": "background.lock_prefix",
    "url": "redis.url",
}


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
        return without_secrets(str(self.value)) if self.is_secret else str(self.value)


class Config:
    """All settings of one application."""

    def __init__(self, items: Mapping[str, Item]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Any:
        return self._items[key].value

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def origin(self, key: str) -> str:
        return self._items[key].origin

    @property
    def url(self) -> str:
        return str(self["database.url"])

    @cached_property
    def retry(self) -> Exponential:
        """The retry policy of kinds without their own."""
        base, longest = "background.retry.base_delay_ms", "background.retry.max_delay_ms"
        if self[longest] < self[base]:
            least = f"at least {base} ({self[base]:g}, {self.origin(base)})"
            raise ConfigError(longest, self[longest], f"{least} ({self.origin(longest)})")
        return exponential(
            self["background.retry.attempts"],
            base=self[base] / 1000,
            longest=self[longest] / 1000,
            jitter=self["background.retry.jitter_ratio"],
        )

    @property
    def locks(self) -> LockSettings:
        """The settings of locks on requests."""
        try:
            return LockSettings(**{name: self[key] for name, key in _LOCK_KEYS.items()})
        except ConfigError as error:
            key = _LOCK_KEYS[error.key]
            raise ConfigError(key, error.value, because=f"{error.reason} ({self.origin(key)})") from None

    @property
    def settings(self) -> Settings:
        """The settings of instances."""
        given = {name: self[key] for name, key in _WORKER_KEYS.items()}
        try:
            return Settings(**given)
        except ConfigError as error:
            name, _, rest = error.key.partition(".")
            key = _WORKER_KEYS.get(name, error.key)
            where = f"{error.reason} ({self.origin(key)})"
            raise ConfigError(f"{key}.{rest}" if rest else key, error.value, because=where) from None


def load(
    code: Mapping[str, Any] | None = None,
    *,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Read all sources. Without ``file``, reads the file that WINDLASS_CONFIG names, or windlass.toml in the current folder if it exists."""
    environ = os.environ if environ is None else environ
    problems: list[ConfigError] = []
    found: dict[str, tuple[Any, str]] = {}
    path = _file(file, environ)
    if path is not None:
        found |= {key: (value, f"{path.name}") for key, value in _read(path).items()}
    for known in KNOWN.values():
        for variable in known.variables:
            if variable in environ:
                found[known.key] = (environ[variable], f"environment {variable}")
                break
    problems += _misspelt(environ)
    found |= {key: (value, "code") for key, value in _flat(code or {}).items()}
    items = {
        known.key: Item(known.key, known.default, "default", known.is_secret) for known in KNOWN.values()
    }
    if found.get("worker.profile", ("",))[0] == "gentle":
        items |= _profile("gentle", Settings.gentle())
    for key, (value, origin) in found.items():
        try:
            items[key] = _item(key, value, origin)
        except ConfigError as error:
            problems.append(error)
    _raise(problems)
    config = Config(items)
    try:
        config.settings, config.retry, config.locks  # noqa: B018  checks that need several values
    except ConfigError as error:
        _raise([error])
    return config


def _profile(name: str, profile: Settings) -> dict[str, Item]:
    """The values of a profile that differ from the defaults."""
    chosen = ((key, getattr(profile, field)) for field, key in _WORKER_KEYS.items())
    return {
        key: Item(key, value, f"profile {name}", is_secret=False)
        for key, value in chosen
        if value != KNOWN[key].default
    }


def _item(key: str, value: Any, origin: str) -> Item:
    known = KNOWN.get(key)
    if known is None:
        near = did_you_mean(key, KNOWN)
        # The value may be a secret.
        raise ConfigError(key, HIDDEN, because=f"there is no such key ({origin}){near}")
    try:
        return Item(key, known.read(value), origin, known.is_secret)
    except (ValueError, TypeError) as error:
        shown = HIDDEN if known.is_hidden else without_secrets(str(value)) if known.is_secret else value
        raise ConfigError(key, shown, f"{known.allowed} ({origin})") from (None if known.is_hidden else error)


def _misspelt(environ: Mapping[str, str]) -> Iterator[ConfigError]:
    """Variables whose names are similar to known ones. Others with the prefix are ignored: Kubernetes makes some for each service."""
    ours = {f"{PREFIX}CONFIG", *(variable for known in KNOWN.values() for variable in known.variables)}
    for variable in sorted(environ.keys() - ours):
        if variable.startswith(PREFIX) and (near := did_you_mean(variable, ours, NEARLY)):
            yield ConfigError(variable, HIDDEN, because=f"there is no such setting{near}")


def _raise(problems: list[ConfigError]) -> None:
    if not problems:
        return
    first = problems[0]
    if len(problems) == 1:
        raise first
    others = "; ".join(f"{item.key} = {item.value!r}: {item.reason}" for item in problems[1:])
    raise ConfigError(first.key, first.value, because=f"{first.reason}. Also: {others}")


def _file(given: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = given or environ.get(f"{PREFIX}CONFIG")
    path = Path(named) if named else Path(FILE)
    if path.is_file():
        return path
    if named:
        raise ConfigError("config file", str(path), "a file that exists")
    return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return _flat(tomllib.loads(path.read_text("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("config file", path.name, f"a TOML file ({error})") from error


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in KNOWN:
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value
    return flat


# ---------------------------------------------------------------------- the keys


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "1", "yes", "on"):
        return True
    if word in ("false", "0", "no", "off"):
        return False
    raise ValueError


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None or str(value).lower() in ("none", "") else read(value)


def _one_of(*names: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError
        return str(value)

    return read


def _database_url(value: Any) -> str:
    if not _text(value).startswith(SCHEMES):
        raise ValueError
    return str(value)


def _counts(value: Any) -> dict[str, int]:
    """Whole numbers by name: a table of the file, a mapping, or the text ``welcome=4,report=2`` of a variable."""
    if isinstance(value, str):
        pairs = [part.rpartition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): number for name, _, number in pairs}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise ValueError
    return {name: PROCESSOR_RANGE.read(number) for name, number in value.items()}


def _number(key: str, allowed: Range, default: float | None, about: str) -> Known:
    return Known(key, allowed.read, default, allowed.allowed, about)


def _worker_keys() -> Iterator[Known]:
    """Every number of ``Settings`` under ``worker.``, with its range."""
    usual = Settings()
    for name, allowed in RANGES.items():
        if (key := _WORKER_KEYS[name]).startswith("worker."):
            yield _number(key, allowed, getattr(usual, name), "how instances run")


_WORKER_KEYS = {
    name: "runtime.max_concurrent_calls" if name == "max_concurrent_calls" else f"worker.{name}"
    for name in (*RANGES, "processors")
}
"""The key of each setting of an instance that a file or a variable can set."""

_MILLISECONDS = Range(1, LONGEST * 1000, "milliseconds")
_ALL = (
    Known("database.url", _database_url, DEFAULT_URL, FORMS, "where jobs are kept", is_secret=True),
    Known("database.auto_migrate", _optional(_flag), None, "true or false, or none: true for SQLite, false for PostgreSQL",
          "whether opening the database brings its tables up to date"),
    _number("database.connect_timeout", Range(0.1, LONGEST, "seconds"), 5.0,
            "how long a call waits for a connection to PostgreSQL before it raises store_unreachable"),
    Known("redis.url", _optional(_text), None, "a redis: URL, or none", "where idempotency locks are kept", is_secret=True),
    _number("background.retry.attempts", Range(1, 32_000, is_whole=True), 3, "attempts of a job, the first included"),
    _number("background.retry.base_delay_ms", _MILLISECONDS, 1000.0, "the first wait after a failure"),
    _number("background.retry.max_delay_ms", _MILLISECONDS, 300_000.0, "the longest wait"),
    _number("background.retry.jitter_ratio", Range(0, 1), 0.2, "how far waits are spread"),
    _number("background.timeout_ms", replace(_MILLISECONDS, or_none="no limit"), TIME_LIMIT * 1000,
            "the time limit of phases without their own"),
    _number("background.processors", PROCESSOR_RANGE, PROCESSORS,
            "processors of phases without their own number"),
    _number("background.lock_ttl_ms", TTL_MS, 300_000, "how long a lock lives unless it is renewed"),
    _number("background.lock_fallback_ttl_ms", TTL_MS, 60_000,
            "the same for the lock in memory while Redis is away; at most lock_ttl_ms"),
    Known("background.lock_prefix", _text, "bg:req:", "1 to 200 characters without spaces", "what a lock's key begins with; the request's id follows"),
    Known("background.redis_lock_enabled", _flag, True, "true or false", "whether locks are kept in Redis",
          aliases=("BACKGROUND_REDIS_LOCK_ENABLED",)),
    Known("background.redis_lock_required", _flag, False, "true or false", "whether a request without a lock is refused",
          aliases=("BACKGROUND_REDIS_LOCK_REQUIRED",)),
    Known("principal.keys", _optional(TokenKeys.parse), None,
          "ids with keys of 32 bytes in base64, the one that seals first: new:BASE64,old:BASE64",
          "keys of the tokens that jobs keep; the first one seals, all of them open", is_secret=True, is_hidden=True),
    _number("runtime.max_concurrent_calls", RANGES["max_concurrent_calls"], None,
            "jobs one instance runs at once"),
    Known("worker.profile", _one_of("default", "gentle"), "default", "default or gentle", "the defaults of the other settings"),
    Known("worker.processors", _counts, {}, "whole numbers by phase: a table, or welcome=4,report=2",
          "processors of single phases in this instance"),
    *_worker_keys(),
)  # fmt: skip
KNOWN: dict[str, Known] = {known.key: known for known in _ALL}
