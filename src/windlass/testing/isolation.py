"""While a sandbox is active, no app of this process uses another database: code under test must not reach the configured one."""

from __future__ import annotations

from pathlib import Path

from windlass.errors import ConfigError, SandboxError
from windlass.store.opening import opening_checks
from windlass.store.sqlite.connection import path_of
from windlass.urls import dialect_of, shown_url

_allowed: list[str] = []
"""The databases of the active sandboxes."""


def allow_only(url: str) -> None:
    """Refuse to open and to use databases other than this one, and those of other active sandboxes, until ``forget``."""
    if not _allowed:
        opening_checks.append(_refuse_others)
    _allowed.append(url)


def forget(url: str) -> None:
    """End one ``allow_only``."""
    _allowed.remove(url)
    if not _allowed:
        opening_checks.remove(_refuse_others)


def _refuse_others(url: str) -> None:
    if url not in _allowed and not any(is_same_file(url, allowed) for allowed in _allowed):
        raise SandboxError(
            f"a sandbox of windlass.testing is active, and this call would use another database: {shown_url(url)}. Submit "
            "through the app of the sandbox (its kinds, or box.app), make a sandbox for the other app, too, or close the sandbox first"
        )


def is_same_file(url: str, other: str) -> bool:
    """Whether two URLs name one SQLite file."""
    try:
        return (
            dialect_of(url) == dialect_of(other) == "sqlite"
            and Path(path_of(url)).resolve() == Path(path_of(other)).resolve()
        )
    except ConfigError:  # a URL that opening refuses
        return False
