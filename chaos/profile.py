"""PostgreSQL as some administrators set it: profile ``hostile``, for the experiments and for the tests (WINDLASS_TEST_PG_PROFILE).

Sessions have short time-outs, a German DateStyle, SERIALIZABLE and more by default, and workers connect as a role that owns nothing and has
the grants of docs/guides/postgresql.md, word for word. Another role owns the schema, under the same settings.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

PLAIN, HOSTILE = "plain", "hostile"
PROFILES = (PLAIN, HOSTILE)
GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "postgresql.md"
OWNER, APP = "windlass_owner", "windlass_app"

SETTINGS = {
    "statement_timeout": "2s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "2s",
    "idle_session_timeout": "10s",
    "default_transaction_isolation": "serializable",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "timezone": "Asia/Kolkata",
    "client_encoding": "LATIN1",
    "bytea_output": "escape",
    "extra_float_digits": "0",
    "array_nulls": "off",
}


def documented(beginning: str) -> list[str]:
    """The statements of the guide that begin so."""
    blocks = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(beginning)]


class Roles:
    """The two roles of the guide on one server, with the settings above. ``admin`` is a superuser's connection in autocommit mode."""

    def __init__(self, admin: psycopg.Connection) -> None:
        self._admin = admin
        self._password = secrets.token_hex(16)
        for role in (OWNER, APP):
            self._make(sql.Identifier(role))

    def _make(self, name: sql.Identifier) -> None:
        known = self._admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (name.as_string().strip('"'),))
        if known.fetchone() is None:
            self._admin.execute(sql.SQL("CREATE ROLE {}").format(name))
        self._admin.execute(
            sql.SQL("ALTER ROLE {} LOGIN NOSUPERUSER PASSWORD {}").format(name, sql.Literal(self._password))
        )
        for key, value in SETTINGS.items():
            self._admin.execute(
                sql.SQL("ALTER ROLE {} SET {} = {}").format(name, sql.Identifier(key), sql.Literal(value))
            )

    def url(self, url: str, role: str) -> str:
        """A URL of the server with this role's login."""
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=f"{role}:{self._password}@{place}"))

    def let_in(self, url: str, database: str) -> None:
        """Before the migrations: the owner may make its schema; tables of the application's own are its own business."""
        (grant,) = documented("GRANT CREATE ON DATABASE")
        self._admin.execute(grant.replace("DATABASE app", f'DATABASE "{database}"').encode())
        with psycopg.connect(url, autocommit=True) as inside:
            inside.execute(f"GRANT CREATE ON SCHEMA public TO {OWNER}, {APP}".encode())

    def grant(self, url: str) -> None:
        """After the migrations: give the application what the guide says, as the owner."""
        with psycopg.connect(self.url(url, OWNER), autocommit=True) as owner:
            for beginning in ("GRANT USAGE", "GRANT SELECT", "ALTER DEFAULT"):
                for statement in documented(beginning):
                    owner.execute(statement.encode())
