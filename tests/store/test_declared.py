"""The names that are read from the migrations are those of the catalog."""

from __future__ import annotations

import psycopg
import pytest

from windlass.store.inspection import inspect
from windlass.store.postgres.inspection import _NAMES
from windlass.store.postgres.partitions import span_of
from windlass.store.schema.declared import declared
from windlass.store.schema.migrations import available


def _is_of_a_migration(name: str, made_by_constraints: set[str]) -> bool:
    sort, _, rest = name.partition(" ")
    table = rest.partition(".")[0]
    if sort == "index":
        return rest not in made_by_constraints and not rest.startswith(("job_done_2", "migration_"))
    return table != "migration" and span_of(table) is None


def test_the_names_of_the_migrations_are_those_of_the_catalog(postgres_dsn_every: str) -> None:
    with psycopg.connect(postgres_dsn_every) as connection:
        found = {row[0] for row in connection.execute(_NAMES).fetchall()}
        made_by_constraints = {
            row[0]
            for row in connection.execute(
                "SELECT c.relname FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conindid"
            ).fetchall()
        }
    # A sequence of an identity column has no statement of its own.
    expected = {
        name for name in found if _is_of_a_migration(name, made_by_constraints) and "_seq" not in name
    }
    names = {name for name in declared(available("postgres")).names if "_seq" not in name}
    assert names == expected
    assert inspect(postgres_dsn_every).missing == []


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("DROP INDEX windlass.job_ready", ["index job_ready"]),
        ("ALTER TABLE windlass.job_headers RENAME TO other", ["table job_headers"]),
        ("ALTER TABLE windlass.audit RENAME COLUMN reason TO why", ["column audit.reason"]),
        ("ALTER TABLE windlass.audit DISABLE TRIGGER audit_is_final", ["trigger audit_is_final"]),
    ],
)
def test_what_is_gone_is_named(postgres_dsn: str, statement: str, missing: list[str]) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute(statement.encode())
    assert inspect(postgres_dsn).missing == missing
