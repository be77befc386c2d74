"""Which database a URL names, and how to speak of it without its password."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from windlass.errors import ConfigError

SCHEMES = ("sqlite:", "postgresql://", "postgres://")
FORMS = "sqlite:///file.db or postgresql://user@host:port/database"
ENCODED = "with special characters of a password as %XX: %40 for @, %2F for /, %25 for %, %20 for a space"
HIDDEN = "***"

# Words are taken whole and never given back (possessive): the time grows with the length of the text, not with its square.
_WORD = re.compile(r"[^\s\"']++")
_COLON = re.compile(r":(?!//)")
_PASSWORD = re.compile(r"(password\s*+=\s*+)('(?:[^'\\]|\\.)*+'?|[^\s&;\"']++)", re.IGNORECASE | re.DOTALL)

# Of a text that is a URL and nothing else.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WHOLE_USER_INFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^:/?#@]*):.*@", re.DOTALL)
_QUERY_PASSWORD = re.compile(r"([?&][a-z_]*password=)[^&]*", re.IGNORECASE)
_PLACE = re.compile(r"(?:[^@/]*@)?(?P<hosts>[^/?]*)(?:/[^?]*)?")
_HOST = re.compile(r"(?:\[[^\[\]@]*\]|[^:@\[\]]*)(?::\d*)?")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")


def without_secrets(text: str) -> str:
    """A text that may be shown, whatever URL it quotes."""
    text = _PASSWORD.sub(r"\1***", text)  # first: the password may contain an @
    return _WORD.sub(_without_user_info, text) if "@" in text else text


def _without_user_info(word: re.Match[str]) -> str:
    """A word without what is between the colon after the user and its last @."""
    text = word[0]
    at = text.rfind("@")
    colon = _COLON.search(text, 0, max(at, 0))
    return text if colon is None else f"{text[: colon.end()]}***{text[at:]}"


def shown_url(url: str) -> str:
    """A URL that works, as it may be shown. Unlike ``without_secrets``, which searches texts, this knows where the URL ends: its password
    may contain spaces and quotes."""
    return without_secrets(_QUERY_PASSWORD.sub(r"\1***", _WHOLE_USER_INFO.sub(r"\1:***@", url)))


def database_name(url: str) -> str:
    """The name of the database, or of the file without its folder; empty where the URL does not say it."""
    path = unquote(urlsplit(url).path)
    return PurePath(path).name


def wrong_url(value: object) -> object:
    """What an error may show of a value that is not a usable URL: its scheme or its type, never its content, since a password may be
    anywhere in it."""
    if isinstance(value, str):
        scheme = _SCHEME.match(value)
        return f"{scheme[0]}…" if scheme else HIDDEN if value.strip() else value
    if value is None:
        return None
    kind = (
        "a table"
        if isinstance(value, Mapping)
        else "a list"
        if isinstance(value, Sequence) and not isinstance(value, bytes)
        else type(value).__name__
    )
    return f"{HIDDEN} ({kind})"


def is_readable(url: str) -> bool:
    """Whether user, password, host and port of a PostgreSQL URL can be distinguished. The driver's own errors quote parts of a password that
    contains a space, ``@``, ``/`` or a bad ``%``."""
    found = _PLACE.match(url.partition("://")[2])
    return (
        found is not None
        and not any(char.isspace() for char in found[0])
        and not _BAD_PERCENT.search(url)
        and all(_HOST.fullmatch(host) for host in found["hosts"].split(","))
    )


def dialect_of(url: str) -> str:
    """``sqlite`` or ``postgres``; anything else is refused before a driver sees (and quotes) the URL."""
    given: object = url
    if not isinstance(given, str):
        raise ConfigError("url", wrong_url(given), FORMS)
    if url.startswith("sqlite:"):
        return "sqlite"
    if url.startswith(SCHEMES[1:]):
        if find_spec("psycopg") is None:
            raise ConfigError(
                "url",
                "postgresql://…",
                because="PostgreSQL needs its driver: pip install 'windlass[postgres]'",
            )
        if not is_readable(url):
            raise ConfigError("url", wrong_url(url), f"{FORMS}, {ENCODED}")
        return "postgres"
    raise ConfigError("url", wrong_url(url), FORMS)
