"""Settings from the command line, code, the environment and a TOML file, each with its origin.

A flag of the command line wins over code, code over the environment, the environment over the file, the file over the default; ``load``
is the one place that decides it, for ``App`` and for every command. Keys are dotted (``background.retry.attempts``); in the file
dots are tables, in the environment the key is WINDLASS_ and the words in capitals (``WINDLASS_BACKGROUND_RETRY_ATTEMPTS``). All errors
are reported at once, each with its key, its value, its origin and the allowed values.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from windlass import environment
from windlass.arguments.limits import Limits, PayloadLimits
from windlass.errors import ConfigError, did_you_mean
from windlass.locks.settings import LockSettings
from windlass.model.retry import Exponential, exponential
from windlass.setting_keys import KNOWN, LOCK_KEYS, OF_ONE_URL, SETTING_KEYS, URL
from windlass.setting_values import Item
from windlass.settings import Settings
from windlass.store.opening import OPTIONS
from windlass.urls import HIDDEN, shown_url, without_secrets, wrong_url

FILE = "windlass.toml"
DEFAULT, CODE, FLAG = "default", "code", "flag --url"

Given = dict[str, tuple[Any, str]]
"""Values by key as they were given, each with its origin."""


class Config:
    """All settings of one application."""

    def __init__(self, items: Mapping[str, Item], given: Given | None = None) -> None:
        self._items = dict(items)
        self._given = dict(given or {})

    def __getitem__(self, key: str) -> Any:
        return self._items[key].value

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    def origin(self, key: str) -> str:
        return self._items[key].origin

    @property
    def url(self) -> str:
        return str(self[URL])

    def over(self, changes: Mapping[str, Any], origin: str) -> Config:
        """This configuration with some values replaced, whatever their origin was."""
        return _resolved(_over(self._given, _layer(changes, origin)))

    def under(self, code: Mapping[str, Any]) -> Config:
        """This configuration on top of further code: what this one has from code or the command line wins."""
        layer, strong = _layer(code, CODE), self._strong
        if URL in strong:
            layer = _without_url(layer)
        weak = {key: given for key, given in self._given.items() if key not in strong}
        return _resolved({**_over(weak, layer), **strong})

    @property
    def code(self) -> dict[str, Any]:
        """The values that code or the command line gave."""
        return {key: value for key, (value, _) in self._strong.items()}

    @property
    def _strong(self) -> Given:
        return {key: given for key, given in self._given.items() if given[1] in (CODE, FLAG)}

    @property
    def direct_url(self) -> str | None:
        """The way around the pooler of PostgreSQL, if one is given; ``ConfigError`` if the database is another one."""
        key = "database.direct_url"
        direct: str | None = self[key]
        if direct is not None and self.url.startswith("sqlite:"):
            because = f"it is the way around a pooler of PostgreSQL ({self.origin(key)}), and {URL} names a SQLite file ({self.origin(URL)}); leave it out"
            raise ConfigError(key, shown_url(direct), because=because)
        return direct

    def store_options(self, dialect: str) -> dict[str, Any]:
        """The options to open the database of ``url`` with, which is of this dialect."""
        self.direct_url  # noqa: B018  refuses one that SQLite would ignore
        named = {name: f"database.{name}" for name in OPTIONS[dialect]}
        return {name: self[key] for name, key in named.items() if key in KNOWN and self[key] is not None}

    @cached_property
    def payload(self) -> PayloadLimits:
        """How large and how deep arguments, results and outputs may be."""
        depth = self["payload.max_depth"]
        return PayloadLimits(
            Limits(self["payload.max_bytes"], depth), Limits(self["payload.max_result_bytes"], depth)
        )

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
            return LockSettings(**{name: self[key] for name, key in LOCK_KEYS.items()})
        except ConfigError as error:
            key = LOCK_KEYS[error.key]
            raise ConfigError(key, error.value, because=f"{error.reason} ({self.origin(key)})") from None

    @property
    def settings(self) -> Settings:
        """The settings of instances."""
        given = {name: self[key] for name, key in SETTING_KEYS.items()}
        given["chunk_step"] /= 1000  # its key is in milliseconds
        try:
            return Settings(**given)
        except ConfigError as error:
            name, _, rest = error.key.partition(".")
            key = SETTING_KEYS.get(name, error.key)
            where = f"{error.reason} ({self.origin(key)})"
            raise ConfigError(f"{key}.{rest}" if rest else key, error.value, because=where) from None


def load(
    code: Mapping[str, Any] | None = None,
    *,
    flags: Mapping[str, Any] | None = None,
    file: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Read all sources. Without ``file``, reads the file that WINDLASS_CONFIG names, or windlass.toml in the current folder if it exists.
    ``flags`` are those of the command line."""
    environ = os.environ if environ is None else environ
    found: Given = {}
    path = _file(file, environ)
    if path is not None:
        found |= {key: (value, str(path.absolute())) for key, value in _read(path).items()}
    for stronger in (environment.given(environ), _layer(code or {}, CODE), _layer(flags or {}, FLAG)):
        found = _over(found, stronger)
    return _resolved(found, environment.misspelt(environ))


def from_code(code: Mapping[str, Any]) -> Config:
    """The configuration of code alone: no file and no variable is read. For tests."""
    return _resolved(_layer(code, CODE))


def keys_of(settings: Settings) -> dict[str, Any]:
    """All values of a ``Settings`` by their keys."""
    found = {key: getattr(settings, name) for name, key in SETTING_KEYS.items()}
    return {**found, SETTING_KEYS["chunk_step"]: settings.chunk_step * 1000}  # its key is in milliseconds


def url_flags(url: str | None) -> dict[str, Any]:
    """The settings that ``--url`` gives: a way around a pooler belongs to the database that it replaces."""
    return {} if url is None else {URL: url, "database.pooled": False, "database.direct_url": None}


def merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of two parts of code, by their keys."""
    return {key: value for key, (value, _) in _over(_layer(weaker, CODE), _layer(stronger, CODE)).items()}


def _over(weaker: Given, stronger: Given) -> Given:
    """The values of two sources. A URL that replaces another one sets back what described the other one: the way around the pooler of
    another database would lead migrations and notifications there."""
    if URL in weaker and URL in stronger and weaker[URL][0] != stronger[URL][0]:
        weaker = _without_url(weaker)
    return {**weaker, **stronger}


def _without_url(given: Given) -> Given:
    return {key: value for key, value in given.items() if key != URL and key not in OF_ONE_URL}


def _layer(given: Mapping[str, Any], origin: str) -> Given:
    if not isinstance(given, Mapping):
        raise ConfigError(
            "config", HIDDEN, f"a mapping of settings, such as {{'worker.lease': 45}} ({origin})"
        )
    return {key: (value, origin) for key, value in _flat(given).items()}


def _resolved(found: Given, problems: Iterable[ConfigError] = ()) -> Config:
    """The configuration of these values; all bad ones are reported at once."""
    problems = list(problems)
    items = {known.key: Item(known.key, known.default, DEFAULT, known.is_secret) for known in KNOWN.values()}
    if found.get("worker.profile", ("",))[0] == "gentle":
        items |= _profile("gentle", Settings.gentle())
    for key, (value, origin) in found.items():
        try:
            items[key] = _item(key, value, origin)
        except ConfigError as error:
            problems.append(error)
    _raise(problems)
    config = Config(items, found)
    try:
        config.settings, config.retry, config.locks  # noqa: B018  checks that need several values
    except ConfigError as error:
        _raise([error])
    return config


def _profile(name: str, profile: Settings) -> dict[str, Item]:
    """The values of a profile that differ from the defaults."""
    chosen = ((key, getattr(profile, field)) for field, key in SETTING_KEYS.items() if field != "chunk_step")
    return {
        key: Item(key, value, f"profile {name}", is_secret=False)
        for key, value in chosen
        if value != KNOWN[key].default
    }


def _item(key: str, value: Any, origin: str) -> Item:
    known = KNOWN.get(key)
    if known is None:
        last = [name for name in KNOWN if name.endswith(f".{key}")]  # a key without its table
        near = f"; did you mean {last[0]}?" if last else did_you_mean(key, KNOWN)
        # The value may be a secret, and the name may be a URL: a table of the file has names of any kind.
        raise ConfigError(without_secrets(key), HIDDEN, because=f"there is no such key ({origin}){near}")
    try:
        return Item(key, known.read(value), origin, known.is_secret)
    except (ValueError, TypeError) as error:
        shown = HIDDEN if known.is_hidden else wrong_url(value) if known.is_secret else value
        raise ConfigError(key, shown, f"{known.allowed} ({origin})") from (None if known.is_secret else error)


def _raise(problems: list[ConfigError]) -> None:
    if not problems:
        return
    first = problems[0]
    if len(problems) == 1:
        raise first
    others = "; ".join(f"{item.key} = {item.value!r}: {item.reason}" for item in problems[1:])
    raise ConfigError(first.key, first.value, because=f"{first.reason}. Also: {others}")


def _file(given: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    named = given or environ.get(environment.FILE_VARIABLE)
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
