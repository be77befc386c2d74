"""SQLAlchemy: the two applications of the guide, plain and async, on PostgreSQL; the documentation's own tests have them on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import Program, steps
from tests.integrations.running import DOCS, run, write_example
from tests.servers.plugin import FreshPostgres

pytestmark = pytest.mark.timing


@pytest.mark.slow
def test_the_applications_of_the_guide_on_postgres(tmp_path: Path, fresh_postgres: FreshPostgres) -> None:
    write_example("sqlalchemy", tmp_path)
    (program,) = (step for step in steps(DOCS / "sqlalchemy.md") if isinstance(step, Program))
    said = run(tmp_path, "-W", "error", "-c", program.code, WINDLASS_DATABASE_URL=fresh_postgres())
    assert said == program.printed
