"""Settings of Windlass's own sessions, which do not depend on the defaults of a server, a database or a role.

A direct session is set once, when it is opened. Behind a transaction pooler nothing can be set for a session: there the settings are
read at opening, and each transaction sets those that are missing (``missing_settings``). Where none is missing, nothing is set.
"""

from __future__ import annotations

import psycopg

from windlass.errors import ConfigError

ENCODING = "UTF8"
SHORT = 60_000
"""Milliseconds from which on a time-out of the server's is left as it is behind a pooler: each verb would cost three more statements."""

_TIMEOUTS = {"statement_timeout": 0, "lock_timeout": 0, "transaction_timeout": 170000}
"""A verb that is cut off half way is repeated, and cut off again. With the server version that first has each."""

_SETTINGS = {
    "default_transaction_isolation": "'read committed'",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",  # a plan that was made on empty tables must not read full ones (jobs.sql)
    "enable_bitmapscan": "off",
    "timezone": "'UTC'",
    "datestyle": "'ISO'",  # the driver reads no other times
    "intervalstyle": "'postgres'",
    "extra_float_digits": "1",
    "array_nulls": "on",
    "idle_session_timeout": "0",
}

_LOOK = """
SELECT name, setting
FROM pg_catalog.pg_settings
WHERE name IN ('default_transaction_isolation', 'array_nulls', 'statement_timeout', 'lock_timeout', 'transaction_timeout')
"""


def configure(connection: psycopg.Connection) -> None:
    """Set a direct session; one round trip."""
    timeouts = {name: "0" for name, since in _TIMEOUTS.items() if connection.info.server_version >= since}
    text = "; ".join(f"SET {name} = {value}" for name, value in {**_SETTINGS, **timeouts}.items())
    connection.execute(text.encode(), prepare=False)  # several statements cannot be prepared


def missing_settings(connection: psycopg.Connection) -> str:
    """The settings that each transaction behind a pooler has to make for itself, as statements; empty if there are none."""
    found: dict[str, str] = dict(connection.execute(_LOOK).fetchall())
    short = [name for name in _TIMEOUTS if 0 < int(found.get(name, 0)) < SHORT]
    wanted = [f"SET LOCAL {name} = 0" for name in short]
    if found["array_nulls"] != "on":
        wanted.append("SET LOCAL array_nulls = on")
    if found["default_transaction_isolation"] != "read committed":
        # Sets nothing for this transaction, which has its level by now. But where this list is not empty, each verb begins its transaction with an
        # explicit BEGIN, which the driver sends with READ COMMITTED.
        wanted.append("SET LOCAL default_transaction_isolation = 'read committed'")
    return "; ".join(wanted)


def refuse_encoding(connection: psycopg.Connection) -> None:
    """Refuse a database that cannot hold every text. It cannot be changed later, so it is refused before anything is stored in it."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding not in (None, ENCODING):
        raise ConfigError(
            "url",
            f"a database with encoding {encoding}",
            because=f"Windlass stores JSON and names in any language, so the encoding must be {ENCODING}. Nothing was changed. Make "
            "another database (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0 LOCALE 'C.UTF-8') and give its URL",
        )
