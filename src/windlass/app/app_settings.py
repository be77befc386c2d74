"""The settings of an app: what its code gives, and what the command line, the environment and windlass.toml add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from windlass.config import CODE, FLAG, Config, from_code, keys_of, load, merged, url_flags
from windlass.errors import ConfigError, did_you_mean
from windlass.setting_keys import KNOWN, URL
from windlass.store.opening import OPTIONS
from windlass.urls import dialect_of

if TYPE_CHECKING:
    from windlass.settings import Settings

GivenUrl = str | Callable[[], str] | None
"""The URL that the code gives, or a function that finds it each time: a framework's test runner may exchange the database."""


class AppSettings:
    """Finds the settings of one app when they are first needed, not at import."""

    def __init__(
        self,
        url: str | None,
        config: Config | Mapping[str, Any] | None,
        settings: Settings | None,
        options: Mapping[str, Any],
    ) -> None:
        _check_options(options)
        self._url: GivenUrl = url
        self._origin = CODE
        self._flags: dict[str, Any] = {}
        self._given = config
        self._settings = settings
        self._options = options
        self.found: Config | None = None
        """The configuration, once it was read."""

    def config(self) -> Config:
        """The configuration; read now, if it was not yet."""
        if self.found is None:
            self.found = self._read(self._written)
        return self.found

    def _read(self, written: Mapping[str, Any]) -> Config:
        if isinstance(self._given, Config):
            found = self._given.over(written, CODE) if written else self._given
            return found.over(self._flags, FLAG) if self._flags else found
        return load(merged(self._given or {}, written), flags=self._flags)

    @property
    def code(self) -> dict[str, Any]:
        """The settings that code gives, by their keys."""
        given = self._given.code if isinstance(self._given, Config) else self._given or {}
        return merged(given, self._written)

    @property
    def code_with_url(self) -> dict[str, Any]:
        """``code``, with the URL of a framework's settings as they are now."""
        return merged(self.code, {URL: self._url()}) if callable(self._url) else self.code

    def code_config(self, url: str) -> Config:
        """The settings that code gives, for another database; neither the environment nor windlass.toml is read. For tests."""
        return from_code({**self.code, **url_flags(url)})

    @property
    def _written(self) -> dict[str, Any]:
        """The settings that code gives other than by ``config``."""
        written = {f"database.{name}": value for name, value in self._options.items()}
        if self._url is not None and not callable(
            self._url
        ):  # one of a wrong type is refused when it is read
            written[URL] = self._url
        if self._settings is not None:
            written |= keys_of(self._settings)
        return {key: value for key, value in written.items() if key in KNOWN}

    def use_flags(self, flags: Mapping[str, Any]) -> None:
        """Have settings of the command line win over those of code, environment and file."""
        self._flags |= flags
        self.found = None

    def give_url(self, url: GivenUrl, origin: str) -> None:
        """Have code give this URL; ``origin`` names the setting of a framework that it comes from."""
        self._url, self._origin, self.found = url, origin, None

    @property
    def url(self) -> str:
        """The URL of the command line, else of code, else of the environment or windlass.toml, else a SQLite file in the current folder."""
        given = self._url
        return str(given()) if callable(given) and URL not in self._flags else self.config().url

    @property
    def url_origin(self) -> str:
        """Where the URL came from: a flag, code, a variable, a file, a framework's settings, or the default."""
        is_given = self._url is not None and URL not in self._flags
        return self._origin if is_given else self.config().origin(URL)

    def shown(self) -> Config:
        """The configuration with the URL as it is now and its origin: a framework's settings may say it."""
        url = self.url
        found = self.config()
        if callable(self._url) and URL not in self._flags:
            found = self._read({**self._written, URL: url})
        return found.over({URL: url}, self.url_origin)

    def store_options(self, url: str) -> dict[str, Any]:
        """The options to open the database with: those of code, unless the command line replaced them, and those of settings."""
        written = {
            name: value for name, value in self._options.items() if f"database.{name}" not in self._flags
        }
        return {**self.shown().store_options(dialect_of(url)), **written}


def _check_options(options: Iterable[str]) -> None:
    """Refuse what no database takes. Which one it is may not be known yet; opening it asks again."""
    known = sorted({"config", "redact", "settings", "store"}.union(*OPTIONS.values()))
    for name in options:
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError("option of App", name, f"one of {', '.join(known)}{near}")
