"""Which database a URL names, and how to speak of it without its password."""

from __future__ import annotations

import re
from importlib.util import find_spec

from windlass.errors import ConfigError

SCHEMES = ("sqlite:", "postgresql://", "postgres://")
FORMS = "sqlite:///file.db or postgresql://user@host:port/database"

# From the colon after the user to the last @ of the word, and password=... of a query or a libpq connection string.
_USER_INFO = re.compile(r":(?!//)[^\s\"']*@")
_PASSWORD = re.compile(r"(password\s*=\s*)('[^']*'|[^\s&;\"']+)", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A text that may be shown, whatever URL it quotes."""
    return _PASSWORD.sub(r"\1***", _USER_INFO.sub(":***@", text))


def dialect_of(url: str) -> str:
    """``sqlite`` or ``postgres``; anything else is refused before a driver sees (and quotes) the URL."""
    if url.startswith("sqlite:"):
        return "sqlite"
    if url.startswith(SCHEMES[1:]):
        if find_spec("psycopg") is None:
            raise ConfigError(
                "url",
                "postgresql://…",
                because="PostgreSQL needs its driver: pip install 'windlass[postgres]'",
            )
        return "postgres"
    raise ConfigError("url", f"{url.partition(':')[0]}:…" if ":" in url else url, FORMS)
