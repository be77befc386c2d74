"""What PostgreSQL does to a session is nobody's fault; what it does to one call is that call's."""

from __future__ import annotations

import psycopg
import pytest

from windlass.errors import (
    FAULTS_OF_THE_STORE,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreInterruptedError,
    StoreUnreachableError,
)
from windlass.features import open_store
from windlass.store.postgres.errors import translated

pytestmark = pytest.mark.timing

RAISE = "DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '{}'; END $$"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("08006", StoreUnreachableError),
        ("08P01", StoreUnreachableError),
        ("53300", StoreUnreachableError),
        ("57P01", StoreUnreachableError),
        ("57P02", StoreUnreachableError),
        ("57P03", StoreUnreachableError),
        ("57P05", StoreUnreachableError),
        ("25P03", StoreUnreachableError),
        ("57014", StoreInterruptedError),
        ("55P03", StoreInterruptedError),
        ("40001", StoreInterruptedError),
        ("40P01", StoreInterruptedError),
        ("53200", StoreInterruptedError),
        ("53400", StoreInterruptedError),
        ("53100", StoreFullError),
        ("58030", StoreDamagedError),
        ("54000", StoreError),
        ("22012", StoreError),
    ],
)
def test_errors_are_told_apart_by_sqlstate(postgres_dsn: str, state: str, expected: type[StoreError]) -> None:
    with psycopg.connect(postgres_dsn) as connection, pytest.raises(StoreError) as caught, translated():
        connection.execute(RAISE.format(state))
    assert type(caught.value) is expected
    assert "made up" in str(caught.value)
    is_fault = expected in (StoreUnreachableError, StoreFullError, StoreDamagedError)
    assert isinstance(caught.value, FAULTS_OF_THE_STORE) is is_fault, "whose fault it is decides what waits"


def test_a_session_that_somebody_ended_is_a_lost_connection(postgres_dsn: str) -> None:
    with (
        open_store(postgres_dsn) as store,
        pytest.raises(StoreUnreachableError),
        store.db._connection() as one,  # type: ignore[attr-defined]
    ):
        one.execute("SELECT pg_terminate_backend(pg_backend_pid())")
