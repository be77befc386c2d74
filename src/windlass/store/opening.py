"""What may be said when a database is opened, and who is asked before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

OPTIONS: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset({"auto_migrate", "busy_timeout", "clock"}),
    "postgres": frozenset(
        {"auto_migrate", "clock", "connect_timeout", "direct_url", "max_connections", "pooled"}
    ),
}
"""The options of a database beside its URL."""

opening_checks: list[Callable[[str], None]] = []
"""Called with the URL of each database before it is opened, and while there are any, before an app uses it; they may raise. For the test kit, which refuses other databases than its own."""


def check_opened(options: Mapping[str, Any]) -> None:
    """Ask again about a database that is open, by the options it was opened with: it may be older than the checks."""
    url = options.get("url")
    if url is not None:
        for check in opening_checks:
            check(url)
